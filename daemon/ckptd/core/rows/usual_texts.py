"""Compresses short texts with a dictionary of what rows of checkpoints usually contain.

The first byte is the number of the dictionary, which never changes: rows were written with it. A text that it lacks
only takes more bytes.
"""

import zlib

_VERSION = 1
_RAW = -13  # a window of 8 KiB, which is fast to prepare; no header and checksum, because the database keeps rows whole
# the most frequent texts are last, where deflate reaches them with the fewest bits
_DICTIONARY = (
    b"/config.json/generation_config.json/tokenizer.json/tokenizer_config.json/special_tokens_map.json/vocab.json"
    b"/merges.txt/adapter_config.json/adapter_model.safetensors/training_args.bin/scaler.pt/random_states_0.pkl"
    b"/variables/variables.data-00000-of-00001/variables/variables.index/saved_model.pb/checkpoint/ocdbt.process_0/d/"
    b"/manifest.ocdbt/_CHECKPOINT_METADATA/_METADATA/_sharding/array_metadatas/.zarray/zarr.json/c/0/0/0"
    b"/mp_rank_00_model_states.pt/zero_pp_rank_0_mp_rank_00_optim_states.pt/bf16_zero_pp_rank_0_mp_rank_00_optim_"
    b"states.pt/.metadata/__0_0.distcp/__1_0.distcp/metadata.json/common.pt/model_optim_rng.pt/mp_rank_00/"
    b"/pytorch_model.bin/pytorch_model-00001-of-00002.bin/pytorch_model.bin.index.json/model.safetensors.index.json"
    b"/model-00001-of-00002.safetensors/model.safetensors/rng_state_0.pth/rng_state.pth/scheduler.pt/trainer_state.json"
    b"/optimizer.bin/optimizer.pt/model.pt/part-00000-of-00001.pt/shard-00000-of-00001.pt"
    b"the program's own restart files, which are results too;a snapshot during training, named after its rounds;"
    b"holds the state of an optimizer and no parameters;averaged parameters only;a program with its parameters;"
    b"a model and its parameters;an array without any state;variables of a workspace;a counter without parameters;"
    b"holds a population, its random state and the counter 'generation';its format alone;as the others of its series;"
    b"holds variables and a counter of saves or steps;what is saved beside a model, by its name;, beside parameters"
    b"holds the state of a scheduler and no parameters;a gradient scaler;a random number generator;"
    b"holds parameters and the counter 'epoch';'iteration';'global_step';'step';the framework's own layout of a "
    b"training state;each save overwrites the same names;model.safetensors: optimizer.pt: .safetensors: .pt: .pth: "
    b'"computation":"","continued_count":1,"continued_from_step":0,"parts":[{"path":"","format":"","files":[""],'
    b'"identities":[[],[]],"owner_uids":[1000],"size_bytes":,"modified_at":,"state":"complete","reason":null,'
    b'"level":"structure","epoch":null,"step":null,"name_epoch":null,"name_step":null,"is_best":null,"is_newest":null,'
    b'"is_listed":null,"metrics":{},"goal_epoch":null,"goal_step":null,"unsafe":[],"content_epoch":null,'
    b'"content_step":null,"role":"state","role_evidence":"","is_result":false,"grouping":{},"parts":[]},'
    b'"metrics":{"loss":0.,"accuracy":0.,"val_loss":0.},"goal_epoch":100,"goal_step":1000,"is_result":true,'
    b'"is_best":false,"is_best":true,"is_listed":true,"is_newest":true,"level":2,"level":1,'
    b'"series","progress","grouping":["-#.h5",[],"",0,"~.#/*iter_#step_#","checkpoints/checkpoint-#",'
    b'"role_evidence":"the program\'s own restart file"}"role_evidence":"arrays without any state"}'
    b'"role_evidence":"parameters only"}"role_evidence":"holds parameters and the state of a random number generator"}'
    b'{"grouping":[1,["iter"],1],[2,["ckpt"],1],[1,["iteration"],1],[1,["global_step"],3],[3,["checkpoint"],3]'
    b'{"content_epoch":"=","content_step":"=","grouping":[1,["epoch"],1],"name_epoch":"=","role_evidence":'
    b'{"content_step":"=","grouping":[1,["step"],3],"grouping":[1,["step"],1],"name_step":"=",'
    b'"role_evidence":"holds the state of an optimizer"}'
)


def compress(text: bytes) -> bytes:
    """Return a text in a short form."""
    writer = zlib.compressobj(9, zlib.DEFLATED, _RAW, 5, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
    return bytes([_VERSION]) + writer.compress(text) + writer.flush()


def decompress(packed: bytes) -> bytes:
    """Return the text that `compress` shortened.

    Raises:
        ValueError: a newer version wrote it.

    """
    if packed[0] != _VERSION:
        raise ValueError(f"a text in the database was compressed with the unknown dictionary {packed[0]}")
    reader = zlib.decompressobj(_RAW, _DICTIONARY)
    return reader.decompress(packed[1:]) + reader.flush()
