"""One checkpoint format a file; `FORMATS` lists them in the order in which they claim.

Formats of whole directories come first, then sets of files, then single files, `generic` last.
"""

from ckptd.checkpoints.formats.accelerate import Accelerate
from ckptd.checkpoints.formats.cp2k_restart import Cp2kRestart
from ckptd.checkpoints.formats.cp2k_wavefunction import Cp2kWavefunction
from ckptd.checkpoints.formats.deepspeed import DeepSpeed
from ckptd.checkpoints.formats.dmtcp import Dmtcp
from ckptd.checkpoints.formats.dragon import Dragon
from ckptd.checkpoints.formats.flax import Flax
from ckptd.checkpoints.formats.generic import Generic
from ckptd.checkpoints.formats.gromacs import Gromacs
from ckptd.checkpoints.formats.hdf5 import Hdf5
from ckptd.checkpoints.formats.huggingface_shards import HuggingFaceShards
from ckptd.checkpoints.formats.huggingface_trainer import HuggingFaceTrainer
from ckptd.checkpoints.formats.interface import Format
from ckptd.checkpoints.formats.keras import Keras
from ckptd.checkpoints.formats.lammps import Lammps
from ckptd.checkpoints.formats.lightgbm import LightGBM
from ckptd.checkpoints.formats.lightning import Lightning
from ckptd.checkpoints.formats.marker import Marker
from ckptd.checkpoints.formats.matlab import Matlab
from ckptd.checkpoints.formats.megatron import Megatron
from ckptd.checkpoints.formats.namd import Namd
from ckptd.checkpoints.formats.nemo import Nemo
from ckptd.checkpoints.formats.numpy_file import NumpyFile
from ckptd.checkpoints.formats.octave import Octave
from ckptd.checkpoints.formats.openfoam import OpenFoam
from ckptd.checkpoints.formats.orbax import Orbax
from ckptd.checkpoints.formats.pickle_file import PickleFile
from ckptd.checkpoints.formats.quantum_espresso import QuantumEspresso
from ckptd.checkpoints.formats.r import R
from ckptd.checkpoints.formats.safetensors import Safetensors
from ckptd.checkpoints.formats.saved_model import SavedModel
from ckptd.checkpoints.formats.sqlite import Sqlite
from ckptd.checkpoints.formats.stable_baselines3 import StableBaselines3
from ckptd.checkpoints.formats.tensorflow import TensorFlow
from ckptd.checkpoints.formats.tensorflow_v1 import TensorFlowV1
from ckptd.checkpoints.formats.torch_dcp import TorchDcp
from ckptd.checkpoints.formats.torch_file import TorchFile
from ckptd.checkpoints.formats.vasp import Vasp
from ckptd.checkpoints.formats.xgboost import XGBoost

FORMATS: dict[str, Format] = {
    "huggingface-trainer": HuggingFaceTrainer(),
    "accelerate": Accelerate(),
    "lightning": Lightning(),
    "nemo": Nemo(),
    "megatron": Megatron(),
    "deepspeed": DeepSpeed(),
    "torch-dcp": TorchDcp(),
    "huggingface-shards": HuggingFaceShards(),
    "dragon": Dragon(),
    "safetensors": Safetensors(),
    "orbax": Orbax(),
    "quantum-espresso": QuantumEspresso(),
    "openfoam": OpenFoam(),
    "saved-model": SavedModel(),
    "tensorflow": TensorFlow(),
    "tensorflow-v1": TensorFlowV1(),
    "flax": Flax(),
    "keras": Keras(),
    "hdf5": Hdf5(),
    "torch": TorchFile(),
    "stable-baselines3": StableBaselines3(),
    "pickle": PickleFile(),
    "numpy": NumpyFile(),
    "xgboost": XGBoost(),
    "lightgbm": LightGBM(),
    "dmtcp": Dmtcp(),
    "gromacs": Gromacs(),
    "cp2k-restart": Cp2kRestart(),
    "cp2k-wavefunction": Cp2kWavefunction(),
    "namd": Namd(),
    "lammps": Lammps(),
    "vasp": Vasp(),
    "octave": Octave(),
    "matlab": Matlab(),
    "r": R(),
    "sqlite": Sqlite(),
    "marker": Marker(),
    "generic": Generic(),
}
