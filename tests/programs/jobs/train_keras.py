"""A training with Keras: `fit` with the callback ModelCheckpoint, one .keras file for each epoch."""

import time

import keras
import numpy as np
import training


class Slowly(keras.callbacks.Callback):
    """Takes its time for each epoch."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(training.EPOCH_SECONDS / 5)


class Before(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        training.die_if_told(name(epoch + 1), epoch + 1)


class After(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        path = name(epoch + 1)
        training.mark_saved(path, epoch + 1, path.stat().st_size)


def name(epoch):
    return training.DIRECTORY / f"epoch_{epoch}.keras"


def main():
    path, epoch = training.choose("epoch_*.keras"), 0
    if path is None:
        layers = [keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((64,)), *layers])
        model.compile(optimizer="adam", loss="mse")
    else:
        model = keras.models.load_model(path)
        epoch = int(path.stem.rpartition("_")[2])
    training.mark_loaded(path, epoch)
    saver = keras.callbacks.ModelCheckpoint(str(training.DIRECTORY / "epoch_{epoch}.keras"))
    data = np.random.default_rng(0).normal(size=(5 * 32, 64)).astype("float32")
    last = epoch + training.SAVES
    callbacks = [Slowly(), Before(), saver, After()]
    model.fit(data, data[:, :1], batch_size=32, initial_epoch=epoch, epochs=last, callbacks=callbacks, verbose=0)


main()
