"""The registry of checkpoint formats, in the order in which they claim.

Formats of whole directories come first, then sets of files, then single files, `generic` last.
"""

from ckptd.checkpoints.formats.dragon import Dragon
from ckptd.checkpoints.formats.generic import Generic
from ckptd.checkpoints.formats.interface import Format
from ckptd.checkpoints.formats.safetensors import Safetensors

FORMATS: dict[str, Format] = {
    "dragon": Dragon(),
    "safetensors": Safetensors(),
    "generic": Generic(),
}
