"""Reads XGBoost's models in JSON or UBJSON; the number of boosting rounds is the step.

The callback `TrainingCheckPoint` names files `name_N`, where N may be one less than the number of rounds.
Sources: doc/model.schema and python-package/xgboost/callback.py of XGBoost.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

from ckptd.checkpoints.formats import checkpoint_names, facts, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import ubjson
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, TooLargeError
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

_JSON_KEYS = re.compile(rb'"(?:learner|gradient_booster|feature_types)"\s*:')
_NAME = re.compile(r".*?(?P<number>\d{1,9})\.(?:json|ubj)")
_TREE_COLUMNS = ("left_children", "right_children", "parents", "split_conditions", "split_indices", "default_left")
_TREE_PARAMETERS = frozenset({"num_feature", "num_nodes", "size_leaf_vector"})
_UBJSON_HEAD = b"{L\0\0\0\0\0\0\0"  # an object that begins with a name, whose length is an int64
_MAX_STRUCTURE_BYTES = 16 << 20
_MAX_PARSED_BYTES = 512 << 20
_EDGE_BYTES = 1 << 16
_ROUNDS = re.compile(rb'"num_(parallel_tree|trees)"\s*:\s*"(\d{1,9})"')


class XGBoost:
    name = "xgboost"
    role_unread = roles.PARAMETERS_ONLY

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.by_suffix.get("ubj", []):
            yield _claim(self.name, file)
        for file in directory.by_suffix.get("json", []):
            if _is_model(file, reader):
                yield _claim(self.name, file)
        for suffix in ("model", "bin"):
            for file in directory.by_suffix.get(suffix, []):
                if read_head(reader, file.path, len(_UBJSON_HEAD)) == _UBJSON_HEAD:
                    yield _claim(self.name, file)
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            if base.endswith(".ubj") or (base.endswith(".json") and _is_model(file, reader)):
                yield _claim(self.name, file, base, reason)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        file = claim.files[0]
        if not file.size_bytes:
            raise DamagedError("the file is empty")
        is_json = ".json" in file.name.lower()
        if level is Level.STRUCTURE and is_json and file.size_bytes > _MAX_STRUCTURE_BYTES:
            step = _check_edges(file, reader)
            return Examination(step=step).shown_as(_judge(claim, step))
        if file.size_bytes > _MAX_PARSED_BYTES:
            raise TooLargeError(f"it has {file.size_bytes} bytes, more than are parsed here")
        data = reader.read_whole(file.path, _MAX_PARSED_BYTES)
        content = _parse_json(data) if is_json else ubjson.parse(data)
        found = _examine_content(content, level)
        return found.shown_as(_judge(claim, found.step))


def _judge(claim: Claim, rounds: int | None) -> roles.RoleEvidence:
    """Return the role: a snapshot if a callback named the file after its rounds, because training resumes from it."""
    is_snapshot = rounds is not None and claim.name_step in {rounds, rounds - 1}
    return roles.SNAPSHOT if is_snapshot else roles.PARAMETERS_ONLY


def _claim(format_name: str, file: File, base: str | None = None, temporary: str | None = None) -> Claim:
    claim = checkpoint_names.claim_file(format_name, file, base=base, temporary=temporary)
    numbered = _NAME.fullmatch(base or file.name)
    return claim if numbered is None else claim._replace(name_step=int(numbered["number"]))


def _is_model(file: File, reader: Reader) -> bool:
    try:
        return bool(_JSON_KEYS.search(reader.read_head(file.path, 256)))
    except OSError:
        return False


def _check_edges(file: File, reader: Reader) -> int | None:
    """Check the two ends of a large JSON file; return its number of rounds, None if the beginning does not state it."""
    with reader.open(file.path) as opened:
        head = opened.read(_EDGE_BYTES)
        opened.seek(-_EDGE_BYTES, 2)
        tail = opened.read(_EDGE_BYTES)
    if not tail.rstrip().endswith(b"}"):
        raise DamagedError("cut off: it does not end with its last brace")
    counts = {name: int(value) for name, value in _ROUNDS.findall(head)}
    trees, parallel = counts.get(b"trees"), counts.get(b"parallel_tree", 1)
    return trees // max(parallel, 1) if trees is not None else None


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is no whole JSON: {error}") from error


def _examine_content(content: Any, level: Level) -> Examination:
    try:
        learner = content["learner"]
        booster = learner["gradient_booster"]
        booster = booster.get("gbtree", booster)  # the booster "dart" wraps one of trees
        model = booster["model"]
        attributes = learner.get("attributes", {})
        if missing := {"learner_model_param", "objective"} - learner.keys():
            raise DamagedError(f"its learner lacks {min(missing)!r}")
        if "trees" not in model:
            if "weights" not in model:
                raise DamagedError("its booster has neither trees nor weights")
            return Examination(metrics=_metrics(attributes))
        parameters = model["gbtree_model_param"]
        trees = model["trees"]
        if int(parameters["num_trees"]) != len(trees) or len(model["tree_info"]) != len(trees):
            raise DamagedError(f"it states {parameters['num_trees']} trees and has {len(trees)}")
        if level is Level.FULL:
            _check_trees(trees)
        rounds = _count_rounds(model, learner, len(trees), int(parameters["num_parallel_tree"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedError(f"it is no whole model: {type(error).__name__} {error}") from error
    return Examination(step=rounds, metrics=_metrics(attributes))


def _count_rounds(model: Mapping[str, Any], learner: Mapping[str, Any], trees: int, parallel: int) -> int:
    pointers = model.get("iteration_indptr")
    if isinstance(pointers, Sized) and len(pointers):
        return len(pointers) - 1
    classes = int(learner.get("learner_model_param", {}).get("num_class", 0))
    return trees // (max(parallel, 1) * max(classes, 1))


def _check_trees(trees: Sequence[Mapping[str, Any]]) -> None:
    """Check that all trees have the same keys, and arrays as long as their parameters state.

    Raises:
        DamagedError: one has not.

    """
    for number, tree in enumerate(trees):
        parameters = tree["tree_param"]
        if missing := _TREE_PARAMETERS - parameters.keys():
            raise DamagedError(f"tree {number} lacks {min(missing)!r}")
        if tree.keys() != trees[0].keys() or parameters.keys() != trees[0]["tree_param"].keys():
            raise DamagedError(f"tree {number} has other parts than tree 0")
        sizes = {name: int(value) for name, value in parameters.items()}
        for name in _TREE_COLUMNS:
            if len(tree[name]) != sizes["num_nodes"]:
                raise DamagedError(f"tree {number} has {len(tree[name])} of {sizes['num_nodes']} {name}")


def _metrics(attributes: Any) -> Mapping[str, float]:
    """Return the best score and iteration that early stopping wrote into the attributes, as texts."""
    numbers = {}
    for name in ("best_score", "best_iteration"):
        try:
            numbers[name] = float(attributes[name])
        except (KeyError, TypeError, ValueError):
            continue
    return facts.find_facts(numbers).metrics
