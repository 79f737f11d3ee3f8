"""The registry of checkpoint formats, in the order in which they claim.

Formats of whole directories come first, then sets of files, then single files, `generic` last.
"""

from ckptd.checkpoints.formats.generic import Generic
from ckptd.checkpoints.formats.interface import Format

FORMATS: dict[str, Format] = {
    "generic": Generic(),
}
