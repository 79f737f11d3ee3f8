"""A training with TensorFlow: a loop of its own, and tf.train.CheckpointManager every ten steps."""

import time

import tensorflow as tf
import training

STEPS = 10  # between two saves


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    weights = tf.Variable(tf.random.normal((64, 256)))
    slots = tf.Variable(tf.zeros((64, 256)))  # of momentum
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step, weights=weights, momentum=slots)
    manager = tf.train.CheckpointManager(checkpoint, str(training.DIRECTORY), max_to_keep=None)
    path = {"resume": manager.latest_checkpoint, "older": next(iter(manager.checkpoints[-3:]), None)}.get(training.MODE)
    if path is not None:
        checkpoint.restore(path).assert_consumed()
    training.mark_loaded(path, step.numpy())
    for _ in range(training.SAVES):
        for _ in range(STEPS):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.random.normal((32, 64)) @ weights))
            slots.assign(0.9 * slots + tape.gradient(loss, weights))
            weights.assign_sub(0.01 * slots)
            step.assign_add(1)
            time.sleep(training.EPOCH_SECONDS / STEPS)
        path = manager.save(checkpoint_number=step)
        size = sum(part.stat().st_size for part in training.DIRECTORY.glob(f"ckpt-{step.numpy()}.*"))
        training.mark_saved(path, step.numpy(), size)


main()
