"""Saves of several trainings, stages and bests in one directory, by the hour, and which of their files must stay."""

from layouts.real.contents import made
from layouts.real.layout import Save
from layouts.real.simulation import CPT, RESTART
from support import checkpoint_bytes


def model(layers, epoch):
    layer = {f"layer{number}.weight": made.Tensor((2, 2), 1.0) for number in range(layers)}
    return made.torch_file({"epoch": epoch, "model": made.OrderedState(layer), "optimizer": made.adam()})


def at_once(names):
    """Three trainings that save by turns, the last one of them until epoch 3."""
    return [
        (2 * epoch + 0.2 * turn, {name.format(epoch): model(layers, epoch)})
        for epoch in range(1, 7)
        for turn, (name, layers) in enumerate(names)
        if epoch <= 3 or turn < 2
    ]


def in_turn(*saves):
    """One save every two hours."""
    return [(2.0 * number, {name: data}) for number, (name, data) in enumerate(saves, start=1)]


def monitored(best, epoch, *others):
    """A checkpoint of Lightning's that names the best so far, by the path that it had on another mount.

    `others` are the best by further callbacks.
    """
    callbacks = {
        f"ModelCheckpoint{{'monitor': '{monitor}'}}": {
            "monitor": monitor,
            "best_model_path": f"/elsewhere/{path}",
            "current_score": made.Tensor((), 0.5),
        }
        for monitor, path in zip(("val_loss", "val_acc"), (best, *others), strict=False)
    }
    return made.torch_file(
        {
            "epoch": epoch,
            "global_step": 100 * (epoch + 1),
            "pytorch-lightning_version": "2.5.0",
            "state_dict": made.parameters(),
            "loops": {},
            "callbacks": callbacks,
            "optimizer_states": [made.adam()],
            "lr_schedulers": [],
        }
    )


def seeded(seed, epoch):
    return f"seed{seed}-epoch={epoch}-step={100 * (epoch + 1)}.ckpt"


def by_two(name, other_name):
    """Saves of Lightning's two callbacks, of which epoch 1 is the best by the first and epoch 3 by the second."""
    saves = []
    for epoch in range(6):
        best, other = name.format(min(epoch, 1)), other_name.format(min(epoch, 3))
        said = monitored(best, epoch, other)
        saves.append((2.0 * epoch, {each.format(epoch): said for each in (name, other_name)}))
    return saves


def best_by(metric, *values):
    """Lightning's saves of each epoch, the second of them the best, with another metric's value in their names."""
    names = [f"best-epoch={epoch}-{metric}={value}.ckpt" for epoch, value in enumerate(values)]
    return in_turn(*((name, monitored(names[min(epoch, 1)], epoch)) for epoch, name in enumerate(names)))


def melt(step):
    return RESTART(Save(s=step))


STAGES = (50_000, 100_000, 500_000, 1_000_000)

CASES = {
    "models that train at once": (
        at_once((("resnet18_epoch_{}.pth", 18), ("resnet34_epoch_{}.pth", 34), ("resnet50_epoch_{}.pth", 50))),
        {"resnet18_epoch_6.pth", "resnet34_epoch_6.pth", "resnet50_epoch_3.pth"},
    ),
    "subjects that train at once": (
        at_once([(f"subject{number}_epoch_{{}}.pt", 2) for number in (1, 2, 3)]),
        {"subject1_epoch_6.pt", "subject2_epoch_6.pt", "subject3_epoch_3.pt"},
    ),
    "dates of starts of trainings at once": (
        at_once([(f"2026-11-{day}_step_{{}}000.pt", 2) for day in (20, 22, 24)]),
        {"2026-11-20_step_6000.pt", "2026-11-22_step_6000.pt", "2026-11-24_step_3000.pt"},
    ),
    "planned steps beside epochs": (
        in_turn(
            *((f"ddpm_steps{planned}_epoch_{epoch}.pt", checkpoint_bytes.torch_state())
              for planned, count in ((50, 6), (250, 2), (1000, 4)) for epoch in range(1, count + 1))
        ),
        {"ddpm_steps50_epoch_6.pt", "ddpm_steps250_epoch_2.pt", "ddpm_steps1000_epoch_4.pt"},
    ),
    "members that train at once": (
        at_once([(f"host{number}_epoch_{{}}.pt", 2) for number in (1, 2, 3)]),
        {"host1_epoch_6.pt", "host2_epoch_6.pt", "host3_epoch_3.pt"},
    ),
    "numbers of processors, with steps of their own": (
        in_turn(
            *((f"vit_gpu{count}_step_{step}.pt", checkpoint_bytes.torch_state())
              for count, steps in ((4, (10432, 20911, 31377)), (8, (9120, 18333)), (16, (13871, 27744, 41590)))
              for step in steps)
        ),
        {"vit_gpu4_step_31377.pt", "vit_gpu8_step_18333.pt", "vit_gpu16_step_41590.pt"},
    ),
    "settings with a fraction": (
        in_turn(
            *((f"gpt_dropout{rate}_step_{step}.pt", checkpoint_bytes.torch_state())
              for rate, steps in ((0.1, (10432, 20911, 31377)), (0.3, (9120, 18333)), (0.5, (13871, 27744, 41590)))
              for step in steps)
        ),
        {"gpt_dropout0.1_step_31377.pt", "gpt_dropout0.3_step_18333.pt", "gpt_dropout0.5_step_41590.pt"},
    ),
    "resolutions in directories": (
        in_turn(
            *((f"checkpoint_{size}/step_{step}000.pt", checkpoint_bytes.torch_state(step=1000 * step))
              for size, count in ((256, 6), (512, 2), (1024, 4)) for step in range(1, count + 1))
        ),
        {"checkpoint_256/step_6000.pt", "checkpoint_512/step_2000.pt", "checkpoint_1024/step_4000.pt"},
    ),
    "jobs by their ids": (
        in_turn(
            *((f"ckpt_{job}_step_{step}000.pt", checkpoint_bytes.torch_state())
              for job, count in ((471123, 6), (482044, 2), (510277, 4)) for step in range(1, count + 1))
        ),
        {"ckpt_471123_step_6000.pt", "ckpt_482044_step_2000.pt", "ckpt_510277_step_4000.pt"},
    ),
    "dates of starts": (
        in_turn(
            *((f"2026-11-{day}_step_{step}000.pt", checkpoint_bytes.torch_state())
              for day, count in ((20, 6), (22, 2), (24, 4)) for step in range(1, count + 1))
        ),
        {"2026-11-20_step_6000.pt", "2026-11-22_step_2000.pt", "2026-11-24_step_4000.pt"},
    ),
    "one save each of trainings with settings in equal distances": (
        in_turn(*((f"noise{noise}_epoch_{epoch}.pt", checkpoint_bytes.torch_state(epoch, 100 * epoch))
                  for noise, epoch in ((10, 12), (20, 20), (30, 30)))),
        {"noise10_epoch_12.pt", "noise20_epoch_20.pt", "noise30_epoch_30.pt"},
    ),
    "models of several sizes": (
        in_turn(
            *((f"ckpt_{size}b_epoch_{epoch}.pt", model(2, epoch))
              for size, count in ((7, 2), (13, 4), (70, 6)) for epoch in range(1, count + 1))
        ),
        {"ckpt_7b_epoch_2.pt", "ckpt_13b_epoch_4.pt", "ckpt_70b_epoch_6.pt"},
    ),
    "models of several sizes in directories": (
        in_turn(
            *((f"checkpoint_{size}/epoch_{epoch}.pt", model(2, epoch))
              for size, count in ((7, 2), (13, 4), (70, 6)) for epoch in range(1, count + 1))
        ),
        {"checkpoint_7/epoch_2.pt", "checkpoint_13/epoch_4.pt", "checkpoint_70/epoch_6.pt"},
    ),
    "trainings of several lengths": (
        in_turn(
            *((f"vit_epochs{epochs}_bs64_step{step}.pt", checkpoint_bytes.torch_state())
              for epochs in (10, 20, 30) for step in (100, 200, 300))
        ),
        {f"vit_epochs{epochs}_bs64_step300.pt" for epochs in (10, 20, 30)},
    ),
    "the best of two trainings of Lightning's": (
        in_turn(
            *((seeded(seed, epoch), monitored(seeded(seed, min(epoch, 1)), epoch))
              for seed in (1, 2) for epoch in range(5))
        ),
        {seeded(seed, epoch) for seed in (1, 2) for epoch in (1, 4)},
    ),
    "the best of Lightning's by a metric of unknown direction": (
        best_by("fid_score", 0.5, 0.12, 0.2, 0.3, 0.25, 0.22),
        {"best-epoch=1-fid_score=0.12.ckpt", "best-epoch=5-fid_score=0.22.ckpt"},
    ),
    "the best of Lightning's by another metric than that in the names": (
        best_by("val_acc", 0.5, 0.6, 0.7, 0.75, 0.8),
        {"best-epoch=1-val_acc=0.6.ckpt", "best-epoch=4-val_acc=0.8.ckpt"},
    ),
    "the best by a metric of unknown direction, in names alone": (
        in_turn(
            *((f"best-epoch={epoch}-fid_score={value}.pt", checkpoint_bytes.torch_state(epoch))
              for epoch, value in enumerate((0.5, 0.12, 0.2, 0.3)))
        ),
        {"best-epoch=1-fid_score=0.12.pt", "best-epoch=3-fid_score=0.3.pt"},
    ),
    "the best of Ignite's, by a loss that it negates": (
        in_turn(
            *((f"best_checkpoint_{epoch}_val_loss={value:.4f}.pt", checkpoint_bytes.torch_state(epoch))
              for epoch, value in enumerate((-0.9, -0.2, -0.4, -0.6), 1))
        ),
        {"best_checkpoint_2_val_loss=-0.2000.pt", "best_checkpoint_4_val_loss=-0.6000.pt"},
    ),
    **{
        name: (
            in_turn(*((name.format(number), checkpoint_bytes.torch_state(90)) for number in range(10, 15))),
            {name.format(number) for number in range(10, 15)},
        )
        for name in ("round_{}.pt", "step_{}.pt", "model_2026-11-{}.pt")
    },
    **{
        name: (
            in_turn(
                *((name.format(outer, inner), checkpoint_bytes.torch_state())
                  for outer in (1, 2, 3) for inner in (100, 200, 300))
            ),
            {name.format(outer, 300) for outer in (1, 2, 3)},
        )
        for name in ("iter{}/epoch_{}.pt", "round{}/step_{}.pt")
    },
    "the one that MMEngine's marker names, by its path on another mount": (
        [
            *in_turn(*((f"epoch_{epoch}.pth", checkpoint_bytes.torch_state(epoch)) for epoch in range(1, 7))),
            (13, {"last_checkpoint": b"/elsewhere/work_dirs/run/epoch_4.pth"}),
        ],
        {"epoch_4.pth", "epoch_6.pth"},
    ),
    "the one that verl's tracker names": (
        [
            *(
                (2.0 * step, {f"global_step_{step}/{name}": checkpoint_bytes.torch_rank_state(0, step=step)
                              for name in ("data.pt", "actor/model_world_size_1_rank_0.pt")})
                for step in range(1, 7)
            ),
            (13, {"latest_checkpointed_iteration.txt": b"4"}),
        ],
        {f"global_step_{step}/{name}" for step in (4, 6) for name in ("data.pt", "actor/model_world_size_1_rank_0.pt")},
    ),
    "temperatures in names": (
        in_turn(*((f"anneal_{kelvin}K.rst", melt(50000 * at)) for at, kelvin in enumerate((300, 350, 400, 450), 1))),
        {f"anneal_{kelvin}K.rst" for kelvin in (300, 350, 400, 450)},
    ),
    "temperatures as the number of a restart": (
        in_turn(*((f"hot/restart.{kelvin}", melt(50000 * at)) for at, kelvin in enumerate((300, 350, 400, 450), 1))),
        {f"hot/restart.{kelvin}" for kelvin in (300, 350, 400, 450)},
    ),
    "temperatures in directories": (
        in_turn(
            *((f"T{250 + 50 * turn}/prod.restart.{50000 * at}", melt(50000 * at))
              for turn in (1, 2, 3) for at in range(3 * turn - 2, 3 * turn + 1))
        ),
        {"T300/prod.restart.150000", "T350/prod.restart.300000", "T400/prod.restart.450000"},
    ),
    "temperatures and pressures of GROMACS": (
        in_turn(
            *((f"npt_{kelvin}K.cpt", CPT(Save(s=1000 * at))) for at, kelvin in enumerate((300, 320, 340, 360), 1)),
            *((f"P{bar}/npt.cpt", CPT(Save(s=1000 * at))) for at, bar in enumerate((1, 10, 100, 1000), 5)),
        ),
        {f"npt_{kelvin}K.cpt" for kelvin in (300, 320, 340, 360)} | {f"P{bar}/npt.cpt" for bar in (1, 10, 100, 1000)},
    ),
    "stages of GROMACS": (
        in_turn(*((f"step{at}.cpt", CPT(Save(s=step))) for at, step in enumerate(STAGES, 1))),
        {f"step{at}.cpt" for at in (1, 2, 3, 4)},
    ),
    "stages of LAMMPS in directories": (
        in_turn(*((f"step{at}/final.restart", melt(step)) for at, step in enumerate(STAGES, 1))),
        {f"step{at}/final.restart" for at in (1, 2, 3, 4)},
    ),
    **{
        name.format(1, 2): (
            in_turn(
                *((name.format(start, start + more), checkpoint_bytes.torch_state(step=start + more))
                  for start in starts for more in (100, 200, 300))
            ),
            {name.format(start, start + 300) for start in starts},
        )
        for name, starts in (
            ("sft_from_step_{}/checkpoint-{}/model.pt", (1000, 2000, 4000)),
            ("anneal_step{}/step{}.pt", (1000, 2000, 4000)),
            ("step{}-anneal/step{}.pt", (1000, 2000, 4000)),
            ("cooldown_iter_{}/iter_{:07}/mp_rank_00/model_optim_rng.pt", (2000, 4000, 8000)),
            ("from_epoch_{}/epoch_{}.pt", (1000, 2000, 4000)),
            ("decay_from_{}/step_{}.pt", (2000, 4000, 6000)),
            ("sft_from_{}/checkpoint-{}/model.pt", (2000, 4000, 6000)),
            ("tuned_from_epoch_{}_epoch_{}.pt", (1000, 2000, 4000)),
        )
    },
}  # fmt: skip
