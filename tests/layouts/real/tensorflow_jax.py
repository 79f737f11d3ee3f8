"""TensorFlow, Keras and JAX."""

from layouts.real.contents import binary, h5_weights, keras, made, npz_state, sample, sample_tree
from layouts.real.layout import ANY, Layout, Only, Save, fixed, state, unread, weights
from layouts.real.orbax_bytes import orbax_root, orbax_step, t5x

KERAS = "keras-team/keras: keras/src/callbacks/model_checkpoint.py, keras/src/saving/saving_lib.py"
MANAGER = "tensorflow/tensorflow: tensorflow/python/checkpoint/checkpoint_management.py"
ORBAX = "google/orbax: checkpoint/orbax/checkpoint/_src/path/step.py, atomicity.py"
BUNDLE = {
    "index": sample("tensorflow/ckpt-6.index"),
    "data-00000-of-00001": sample("tensorflow/ckpt-6.data-00000-of-00001"),
}


def state_file(prefix):
    """The file `checkpoint`, which lists all that the manager keeps."""

    def text(save):
        listed = [f'all_model_checkpoint_paths: "{prefix}-{each}"\n' for each in _counted(save)]
        return f'model_checkpoint_path: "{prefix}-{_counted(save)[-1]}"\n{"".join(listed)}'.encode()

    return text


def _counted(save):
    return range(1, save.i + 2)


def bundle(prefix):
    return {f"{prefix}.{suffix}": content for suffix, content in BUNDLE.items()}


def sharded_index(save):
    names = [f"model_epoch_{save.e}_0000{number}.weights.h5" for number in (0, 1)]
    return made.json_text(
        {
            "metadata": {"total_size": 2508.0},
            "weight_map": {"/layers/dense/vars": [names[0]], "/optimizer/vars": [names[1]]},
        }
    )


FLAX = sample("flax/checkpoint_50", (b"\xc4\x04\x32\0", lambda n: b"\xc4\x04" + n.s.to_bytes(2, "little")))

ROWS = (
    Layout(
        name="Keras ModelCheckpoint, whole models",
        source=KERAS,
        sets=(state({"ckpts/model_<e:02>-0.5<i>.keras": keras}, "e"),),
        note="the loss in the name rises too",
    ),
    Layout(
        name="Keras ModelCheckpoint, save_weights_only",
        source=KERAS,
        sets=(weights({"ckpts/cp-<e:04>.weights.h5": h5_weights}, "e"),),
    ),
    Layout(
        name="Keras ModelCheckpoint, one file for the best",
        source=KERAS,
        sets=(fixed({"best_model.keras": keras}),),
    ),
    Layout(
        name="Keras, weights in several shards",
        source=f"{KERAS}, ShardedH5IOStore",
        sets=(
            weights(
                {
                    "model_epoch_<e>.weights.json": sharded_index,
                    "model_epoch_<e>_{00000,00001}.weights.h5": h5_weights,
                },
                "e",
                role=ANY,
                why="parameters, and perhaps the optimizer's in one of the shards",
            ),
        ),
    ),
    Layout(
        name="Keras BackupAndRestore",
        source="keras-team/keras: keras/src/callbacks/backup_and_restore.py",
        sets=(
            fixed(
                {
                    "backup/latest.weights.h5": lambda n: made.h5_keras_state(n.e, n.s),
                    "backup/training_metadata.json": '{"epoch": <e>, "batch": 0}',
                },
                role=ANY,
            ),
        ),
    ),
    Layout(
        name="TensorFlow's CheckpointManager",
        source=MANAGER,
        sets=(
            unread(
                bundle("tf_ckpts/ckpt-<e>"), role=ANY, why="the state file lists all three, and the manager deletes"
            ),
        ),
        beside={"tf_ckpts/checkpoint": state_file("ckpt")},
    ),
    Layout(
        name="TensorFlow's estimators",
        source="tensorflow/estimator: tensorflow_estimator/python/estimator/estimator.py; run_config.py",
        sets=(
            unread(
                {**bundle("model.ckpt-<e>"), "model.ckpt-<e>.meta": b"\x0a\x00"},
                role=ANY,
                why="the state file lists all three, and the saver deletes",
            ),
        ),
        beside={
            "checkpoint": state_file("model.ckpt"),
            "graph.pbtxt": "node {}\n",
            "eval/events.out.tfevents.1700000000.node": b"\0" * 32,
            "events.out.tfevents.1700000000.node": b"\0" * 32,
        },
    ),
    Layout(
        name="TensorFlow, an exported SavedModel for each version",
        source="tensorflow/tensorflow: tensorflow/python/saved_model (TensorFlow Serving's version directories)",
        sets=(unread({"serving/<e>": sample_tree("saved-model/exported")}, role=ANY, why="an export"),),
    ),
    Layout(
        name="Orbax CheckpointManager",
        source=ORBAX,
        sets=(state({"ckpts/<s>": orbax_step()}, "s", path="ckpts/<s>"),),
    ),
    Layout(
        name="Orbax with a prefix",
        source=ORBAX,
        sets=(state({"ckpts/ckpt_<s>": orbax_root}, "s", path="ckpts/ckpt_<s>"),),
    ),
    Layout(
        name="Orbax, one file of all arrays (OCDBT)",
        source=ORBAX,
        sets=(state({"ckpts/epoch_<e>": sample_tree("orbax/epoch_2")}, "e", path="ckpts/epoch_<e>"),),
        note="a TrainState: parameters and the step that they are of",
    ),
    Layout(
        name="Flax, one file",
        source="google/flax: flax/training/checkpoints.py, save_checkpoint",
        sets=(state({"checkpoint_<s>": FLAX}, "s"),),
    ),
    Layout(
        name="Flax through Orbax, with arrays of several hosts",
        source="google/flax: flax/training/checkpoints.py, save_checkpoint_multiprocess and MP_ARRAY_POSTFIX",
        sets=(state({"checkpoint_<s>": orbax_root}, "s", path="checkpoint_<s>"),),
    ),
    Layout(
        name="T5X",
        source="google-research/t5x: t5x/checkpoints.py, t5x/checkpoint_utils.py",
        sets=(
            state(
                {"checkpoint_<s>": t5x, "checkpoint_<s>/train_ds-{000,001}-of-002.index": binary("iterator")},
                "s",
                path="checkpoint_<s>",
            ),
        ),
        beside={"model-info.txt": "Total: 1\n", "config.gin": "a = 1\n"},
        saves=tuple(Save(s=1000 * (i + 1), i=i) for i in range(3)),
    ),
    Layout(
        name="MaxText",
        source="AI-Hypercomputer/maxtext: src/maxtext/common/checkpointing.py",
        sets=(state({"run/checkpoints/<s>": orbax_step("items", "iter")}, "s", path="run/checkpoints/<s>"),),
        beside={"run/tensorboard/events.out.tfevents.1700000000.node": b"\0" * 32, "run/metrics/step.json": "{}"},
    ),
    Layout(
        name="JAX script with npz",
        source="none: numpy.savez of a script's own, with the moments of the optimizer and the step",
        sets=(state({"ckpts/ckpt_<s>.npz": npz_state}, "s"),),
    ),
    Layout(
        name="Equinox",
        source="patrick-kidger/equinox: equinox/_serialisation.py, tree_serialise_leaves",
        sets=(unread({"model_<s>.eqx": lambda n: made.npy_array() * 2}),),
        beside={"best.eqx": Only(1, lambda n: made.npy_array())},
    ),
)
