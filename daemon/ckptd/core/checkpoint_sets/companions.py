"""Distinguishes files that belong to a checkpoint's directory from results that were written beside it."""

import posixpath

from ckptd.core.checkpoint_sets.name_numbers import COMPANION, RESULT, split_words

# Small files that frameworks write into a checkpoint: settings, tokenizers, indexes, markers.
_COMPANION_SUFFIXES = split_words(
    "json yaml yml toml ini cfg conf txt md model jinja py vocab merges index metadata done complete success pb pbtxt"
)
_COMPANION_NAMES = split_words("latest checkpoint PINNED .metadata _SUCCESS COMPLETE LICENSE NOTICE .gitattributes")
# What is written beside checkpoints: pictures, tables, logs.
_RESULT_SUFFIXES = split_words(
    "png jpg jpeg gif svg webp mp4 avi wav mp3 pdf html csv tsv parquet arrow jsonl log out err ipynb lmdb "
    "tfrecord tfrecords"
)


def is_companion_file(path: str) -> bool:
    return is_small_file(path) or bool(COMPANION.search(posixpath.basename(path)))


def is_small_file(path: str) -> bool:
    """Whether a file is, by its name, settings, an index or a marker, without a state of its own."""
    name = posixpath.basename(path)
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    return name in _COMPANION_NAMES or suffix in _COMPANION_SUFFIXES


def is_result(path: str) -> bool:
    name = posixpath.basename(path)
    return name.rpartition(".")[2].lower() in _RESULT_SUFFIXES or bool(RESULT.search(name)) or "tfevents" in name
