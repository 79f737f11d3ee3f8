"""The registry of checkpoint formats, in the order in which they claim.

Formats of whole directories come first, then sets of files, then single files, `generic` last.
"""

from ckptd.checkpoints.formats.dragon import Dragon
from ckptd.checkpoints.formats.flax import Flax
from ckptd.checkpoints.formats.generic import Generic
from ckptd.checkpoints.formats.hdf5 import Hdf5
from ckptd.checkpoints.formats.interface import Format
from ckptd.checkpoints.formats.keras import Keras
from ckptd.checkpoints.formats.lightgbm import LightGBM
from ckptd.checkpoints.formats.numpy_file import NumpyFile
from ckptd.checkpoints.formats.orbax import Orbax
from ckptd.checkpoints.formats.pickle_file import PickleFile
from ckptd.checkpoints.formats.safetensors import Safetensors
from ckptd.checkpoints.formats.saved_model import SavedModel
from ckptd.checkpoints.formats.tensorflow import TensorFlow
from ckptd.checkpoints.formats.tensorflow_v1 import TensorFlowV1
from ckptd.checkpoints.formats.torch_file import TorchFile
from ckptd.checkpoints.formats.xgboost import XGBoost

FORMATS: dict[str, Format] = {
    "dragon": Dragon(),
    "safetensors": Safetensors(),
    "orbax": Orbax(),
    "saved-model": SavedModel(),
    "tensorflow": TensorFlow(),
    "tensorflow-v1": TensorFlowV1(),
    "flax": Flax(),
    "keras": Keras(),
    "hdf5": Hdf5(),
    "torch": TorchFile(),
    "pickle": PickleFile(),
    "numpy": NumpyFile(),
    "xgboost": XGBoost(),
    "lightgbm": LightGBM(),
    "generic": Generic(),
}
