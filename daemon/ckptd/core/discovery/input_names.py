"""Names of directories into which programs download what they begin with: a run saves no checkpoints there."""

import re
from pathlib import PurePath

_INPUTS = re.compile(
    r"pre-?trained(?:[-_.]?(?:models?|weights|checkpoints?|ckpts?))?|(?:models?|weights)[-_]pre-?trained"
    r"|downloads?|downloaded(?:[-_](?:models?|weights))?|model[-_]?zoo|base[-_]?models?|foundation[-_]?models?|backbones?"
    r"|(?:initial|init|imagenet)[-_]weights"
    r"|hub|huggingface(?:[-_]?hub)?|(?:hf|huggingface|torch|transformers|model|models|weights)[-_]?(?:home|cache)"
    r"|models--.+"  # of the cache of huggingface_hub
)


def is_named_for_inputs(directory: PurePath) -> bool:
    """Whether a directory, or one above it, has a name that stands for downloads; give it relative to the search."""
    return any(_INPUTS.fullmatch(part.lower()) for part in directory.parts)
