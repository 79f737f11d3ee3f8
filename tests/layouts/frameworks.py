"""How frameworks and simulation codes name and lay out their files, as their own sources say.

Each entry gives the files of one save in the order of writing. `workers` is the number of ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ckptd.core.model import Role
from layouts.trainings import Moment
from support import checkpoint_bytes as files


@dataclass(frozen=True)
class Framework:
    """One convention. `save` takes a moment and the number of workers."""

    save: Callable[[Moment, int], dict[str, bytes]]
    has_word: bool = True
    is_proven: bool = True
    role: Role = Role.STATE
    is_fixed: bool = False
    companions: Callable[[str], bool] = lambda path: path.endswith((".json", ".txt"))
    markers: Callable[[Moment], dict[str, bytes]] = lambda moment: {}
    is_sharded: bool = False
    needs_times: bool = False  # parts in several directories at the top are one save because they are written together


def _numbered(template, make):
    return lambda at, workers: {template.format(e=at.epoch, s=at.step): make(at)}


def _state(at):
    return files.torch_state(at.epoch, at.step)


def _stepless(at):
    return files.torch_state(at.epoch)


def _gan(at, _):
    return {f"netG_epoch_{at.epoch}.pth": files.torch_weights(), f"netD_epoch_{at.epoch}.pth": files.torch_weights(1.5)}


def _llama_recipes(at, _):
    return {f"llama-{at.epoch}.pt": files.torch_weights(), f"optimizer-llama-{at.epoch}.pt": files.torch_optimizer()}


def _dcp(template):
    def save(at, workers):
        directory = template.format(e=at.epoch, s=at.step)
        parts = files.distributed(at.step, rank_count=workers)
        return {f"{directory}/{name}": data for name, data in parts.items()}

    return save


def _lightning_sharded(at, workers):
    directory = f"epoch={at.epoch}-step={at.step}.ckpt"
    return {**_dcp(directory)(at, workers), f"{directory}/meta.pt": files.lightning_state(at.epoch, at.step)}


def _deepspeed_tag(directory, at, workers):
    return {
        f"{directory}/mp_rank_00_model_states.pt": files.deepspeed_model(at.step, dp_world_size=workers),
        **{
            f"{directory}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": files.deepspeed_optimizer(rank)
            for rank in range(workers)
        },
    }


def _deepspeed(at, workers):
    return _deepspeed_tag(f"global_step{at.step}", at, workers)


def _openrlhf(at, workers):
    actor = _deepspeed_tag(f"_actor/global_step{at.step}", at, workers)
    return {**actor, **_deepspeed_tag(f"_critic/global_step{at.step}", at, workers)}


def _megatron(at, workers):
    return {
        f"iter_{at.step:07}/mp_rank_{rank:02}/model_optim_rng.pt": files.megatron_rank(
            at.step, rank, tensor_size=workers
        )
        for rank in range(workers)
    }


def _verl(at, workers):
    found = {}
    for role in ("actor", "critic"):
        for rank in range(workers):
            place = f"global_step_{at.step}/{role}"
            end = f"world_size_{workers}_rank_{rank}.pt"
            found[f"{place}/model_{end}"] = files.torch_weights(1.0 + rank)
            found[f"{place}/optim_{end}"] = files.torch_optimizer(1.0 + rank)
            found[f"{place}/extra_state_{end}"] = files.torch_rng(rank)
    return {**found, f"global_step_{at.step}/data.pt": files.torch_scheduler()}


def _trainer(at, workers):
    directory = f"checkpoint-{at.step}"
    randoms = {
        f"{directory}/rng_state{f'_{rank}' if workers > 1 else ''}.pth": files.torch_rng(rank)
        for rank in range(workers)
    }
    return {
        f"{directory}/config.json": files.json_text({"model_type": "llama"}),
        f"{directory}/model.safetensors": files.safetensors(),
        f"{directory}/optimizer.pt": files.torch_optimizer(),
        f"{directory}/scheduler.pt": files.torch_scheduler(at.step),
        **randoms,
        f"{directory}/trainer_state.json": files.trainer_state(at.step, at.epoch),
    }


def _trainer_sharded(at, workers):
    directory, count = f"checkpoint-{at.step}", workers + 1
    names = [f"model-{part + 1:05}-of-{count:05}.safetensors" for part in range(count)]
    tensors = [f"layer{part}.weight" for part in range(count)]
    found = {
        f"{directory}/{name}": files.safetensors(names=(tensor,)) for name, tensor in zip(names, tensors, strict=True)
    }
    index = files.safetensors_index(names, tensors)
    rest = {path: data for path, data in _trainer(at, workers).items() if not path.endswith("model.safetensors")}
    return {**found, f"{directory}/model.safetensors.index.json": index, **rest}


def _accelerate(at, workers):
    directory = f"checkpoints/checkpoint_{at.epoch}"
    return {
        f"{directory}/model.safetensors": files.safetensors(),
        f"{directory}/optimizer.bin": files.torch_optimizer(),
        f"{directory}/scheduler.bin": files.torch_scheduler(at.step),
        **{f"{directory}/random_states_{rank}.pkl": files.torch_rng(rank) for rank in range(workers)},
    }


def _diffusers(at, workers):
    directory = f"checkpoint-{at.step}"
    return {
        f"{directory}/unet/diffusion_pytorch_model.safetensors": files.safetensors(),
        f"{directory}/unet_ema/diffusion_pytorch_model.safetensors": files.safetensors(0.75),
        f"{directory}/optimizer.bin": files.torch_optimizer(),
        f"{directory}/scheduler.bin": files.torch_scheduler(at.step),
        **{f"{directory}/random_states_{rank}.pkl": files.torch_rng(rank) for rank in range(workers)},
    }


def _torchtune(at, _):
    place = f"epoch_{at.epoch}"
    return {
        f"{place}/model-00001-of-00002.safetensors": files.safetensors(names=("a",)),
        f"{place}/model-00002-of-00002.safetensors": files.safetensors(names=("b",)),
        f"{place}/model.safetensors.index.json": files.safetensors_index(
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], ("a", "b")
        ),
        f"{place}/recipe_state.pt": files.torch_file({"epochs_run": at.epoch, "optimizer": files.adam(), "seed": 1}),
    }


def _nemo(at, workers):
    name = f"megatron_gpt--val_loss=0.12-{at.epoch}.ckpt"
    return {f"mp_rank_{rank:02}/{name}": files.lightning_state(at.epoch, at.step) for rank in range(workers)}


def _composer(at, workers):
    return {
        f"ep{at.epoch}-ba{at.step}-rank{rank}.pt": files.torch_rank_state(rank, at.epoch, at.step)
        for rank in range(workers)
    }


def _fairseq_sharded(at, workers):
    return {
        f"checkpoint_{at.epoch}_{at.step}-shard{rank}.pt": files.torch_rank_state(rank, at.epoch, at.step)
        for rank in range(workers)
    }


def _guided_diffusion(at, _):
    return {
        f"model{at.step:06}.pt": files.torch_weights(),
        f"ema_0.9999_{at.step:06}.pt": files.torch_weights(0.75),
        f"opt{at.step:06}.pt": files.torch_optimizer(),
    }


def _stable_baselines(at, _):
    return {
        f"rl_model_{at.step}_steps.zip": files.stable_baselines3(at.step),
        f"rl_model_replay_buffer_{at.step}_steps.pkl": files.pickle_values(),
        f"rl_model_vecnormalize_{at.step}_steps.pkl": files.pickle_values(1.5),
    }


def _ranks(template, make):
    return lambda at, workers: {
        template.format(e=at.epoch, s=at.step, r=rank, w=workers): make(at, rank) for rank in range(workers)
    }


def _rank_state(at, rank):
    return files.torch_rank_state(rank, at.epoch, at.step)


def _rank_without_progress(_, rank):
    return files.torch_rank_state(rank)


def _rank_pickle(at, rank):
    return files.pickle_state(at.epoch, at.step, value=1.0 + rank)


def _rank_arrays(_, rank):
    return files.npz_state(value=1.0 + rank)


def _snapshot(at, rank):
    return files.h5_snapshot(float(at.step), 1.0 + rank)


def _bytes(at, rank):
    return files.tokens(at.step + rank)


FRAMEWORKS = {
    "torch script": Framework(_numbered("checkpoint_{e}.pth.tar", _state), has_word=False),
    "torch script, epoch": Framework(_numbered("epoch_{e}.pt", _stepless)),
    "torch GAN": Framework(_gan, role=Role.WEIGHTS),
    "torch snapshot": Framework(_numbered("snapshot.pt", _state), is_fixed=True),
    "nanoGPT": Framework(_numbered("out/ckpt.pt", _state), is_fixed=True),
    "torch DDP, a file for each rank": Framework(_ranks("ckpt_rank{r}.pt", _rank_state), is_fixed=True),
    "llama-recipes": Framework(_llama_recipes, has_word=False, is_proven=False),
    "torch DCP": Framework(_dcp("step_{s}"), is_sharded=True),
    "torchtitan": Framework(_dcp("checkpoint/step-{s}"), is_sharded=True),
    "Lightning FSDP": Framework(_lightning_sharded, is_sharded=True),
    "DeepSpeed": Framework(
        _deepspeed, is_sharded=True, markers=lambda at: {"latest": files.text(f"global_step{at.step}")}
    ),
    "OpenRLHF": Framework(
        _openrlhf,
        is_sharded=True,
        needs_times=True,
        markers=lambda at: {f"{role}/latest": files.text(f"global_step{at.step}") for role in ("_actor", "_critic")},
    ),
    "Megatron": Framework(
        _megatron,
        is_sharded=True,
        markers=lambda at: {"latest_checkpointed_iteration.txt": files.text(str(at.step))},
    ),
    "verl": Framework(_verl, is_sharded=True),
    "Hugging Face Trainer": Framework(_trainer, has_word=False, is_sharded=True),
    "Hugging Face Trainer, shards": Framework(_trainer_sharded, has_word=False, is_sharded=True),
    "Accelerate": Framework(_accelerate, has_word=False, is_sharded=True, is_proven=False),
    "diffusers": Framework(_diffusers, has_word=False, is_sharded=True, is_proven=False),
    "torchtune": Framework(_torchtune),
    "NeMo": Framework(_nemo, has_word=False, is_sharded=True, needs_times=True),
    "Lightning": Framework(_numbered("epoch={e}-step={s}.ckpt", lambda at: files.lightning_state(at.epoch, at.step))),
    "Lightning, metric": Framework(
        _numbered("run-epoch={e:02}-val_loss=0.12.ckpt", lambda at: files.lightning_state(at.epoch, at.step))
    ),
    "Composer": Framework(_composer, is_sharded=True),
    "fairseq": Framework(_numbered("checkpoint_{e}_{s}.pt", _state), has_word=False),
    "fairseq, shards": Framework(_fairseq_sharded, has_word=False, is_sharded=True),
    "ESPnet": Framework(_numbered("{e}epoch.pth", lambda _: files.torch_weights()), role=Role.WEIGHTS),
    "Detectron2": Framework(
        _numbered("model_{s:07}.pth", lambda at: files.torch_state(None, at.step)),
        has_word=False,
        markers=lambda at: {"last_checkpoint": files.text(f"model_{at.step:07}.pth")},
    ),
    "MMEngine": Framework(
        _numbered("epoch_{e}.pth", _state), markers=lambda at: {"last_checkpoint": files.text(f"epoch_{at.epoch}.pth")}
    ),
    "timm": Framework(_numbered("checkpoint-{e}.pth.tar", _stepless), has_word=False),
    "Ultralytics": Framework(_numbered("weights/epoch{e}.pt", _stepless)),
    "Keras": Framework(_numbered("model.{e:02}.keras", lambda at: files.keras_archive(None, at.step)), has_word=False),
    "Keras weights": Framework(
        _numbered("weights.{e:02}-0.12.weights.h5", lambda _: files.h5_weights()), has_word=False, role=Role.WEIGHTS
    ),
    "litgpt": Framework(_numbered("step-{s:08}/lit_model.pth", _state)),
    "guided diffusion": Framework(_guided_diffusion, has_word=False, is_proven=False),
    "Stable-Baselines3": Framework(_stable_baselines),
    "icefall": Framework(_numbered("epoch-{e}.pt", _state)),
    "JAX arrays": Framework(_numbered("ckpt_{s}.npz", lambda at: files.npz_state(at.epoch, at.step)), has_word=False),
    "evolution": Framework(_numbered("gen_{e:03}.pkl", lambda at: files.pickle_state(at.epoch, at.step))),
    "ranks in the step's directory": Framework(_ranks("step_{s}/rank{r}.pt", _rank_without_progress), is_sharded=True),
    "ranks in a number's directory": Framework(
        _ranks("{s}/rank_{r}.ckpt", _rank_state), has_word=False, is_sharded=True
    ),
    "arrays of ranks": Framework(
        _ranks("ckpt_{s}/state_rank_{r}.npz", _rank_arrays), has_word=False, is_proven=False, is_sharded=True
    ),
    "ranks behind the step": Framework(_ranks("ckpt_{s}_rank_{r}.pt", _rank_state), has_word=False, is_sharded=True),
    "ranks in front of the step": Framework(
        _ranks("state-{r}-{s}.pkl", _rank_pickle), has_word=False, is_proven=False, is_sharded=True
    ),
    "shards of weights": Framework(
        _ranks("model-{s}-shard-{r}.safetensors", lambda _, rank: files.safetensors(1.0 + rank)),
        has_word=False,
        role=Role.WEIGHTS,
        is_sharded=True,
    ),
    "equal epochs and ranks": Framework(
        _ranks("epoch={e}-rank={r}.ckpt", lambda at, _: files.lightning_state(at.epoch, at.step)), is_sharded=True
    ),
    "VELOC": Framework(_ranks("heat-{r}-{s}.dat", _bytes), has_word=False, is_proven=False, is_sharded=True),
    "FTI": Framework(_ranks("l1/Ckpt{s}-Rank{r}.fti", _bytes), has_word=False, is_proven=False, is_sharded=True),
    "Cactus": Framework(_ranks("checkpoint.chkpt.it_{s}.file_{r}.h5", _snapshot), is_proven=False, is_sharded=True),
    "GADGET": Framework(_ranks("restartfiles/restart.{r}", _bytes), is_fixed=True, is_sharded=True, is_proven=False),
    "SWIFT": Framework(_ranks("restart/swift_{r:06}.rst", _bytes), is_fixed=True, is_sharded=True, is_proven=False),
    "AMReX": Framework(
        lambda at, workers: {
            **{f"chk{at.step:05}/Level_0/Cell_D_{rank:05}": _bytes(at, rank) for rank in range(workers)},
            f"chk{at.step:05}/Header": files.text("CheckPointVersion_1.0"),
        },
        has_word=False,
        is_proven=False,
        is_sharded=True,
    ),
    "FLASH": Framework(_numbered("run_hdf5_chk_{e:04}", lambda at: _snapshot(at, 0)), has_word=False, is_proven=False),
}
