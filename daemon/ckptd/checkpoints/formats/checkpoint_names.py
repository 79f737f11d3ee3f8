"""Parses epoch, step and metric values from the names that frameworks and people give to checkpoints."""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from ckptd.checkpoints.formats.interface import Claim, Shape
from ckptd.checkpoints.scanning.tree import Directory, File

Bare = Literal["epoch", "step"]

_NUMBER = r"[-+]?(?:\d+\.\d+|\d+)(?:[eE][-+]?\d+)?"
_PAIR = re.compile(rf"(?<![A-Za-z])([A-Za-z][A-Za-z_/]*?)[=:]({_NUMBER})")
_METRIC = (
    r"(?:(?:val|train|test|dev|tr|te|m)_?)?"
    r"(?:acc|accuracy|loss|score|f1|map|auc|bleu|ppl|mse|rmse|mae|reward|psnr|ssim|iou|dice|wer|cer|fid|kappa|err|error"
    r"|precision|recall)"
)
_GLUED = re.compile(  # `val_loss0.44`, `dice_0.39`; of the letters for losses only what they are joined to: `l0.44`
    rf"(?<![A-Za-z])((?:[a-z]+_)?{_METRIC}(?=[-_]?\d)|[vt]?l(?=\d))[-_]?(\d+\.\d+)", re.IGNORECASE
)
_NO_METRICS = frozenset({"epoch", "step", "global_step"})
_NOT_A_GOAL = "(?<!max[-_])(?<!num[-_])(?<!total[-_])"
_WHOLE = r"(?![0-9A-Za-z])(?!\.\d{1,2}(?:[-_=]|\.[A-Za-z]|$))"  # `epoch=1.5` is of no whole epoch
# in order of precedence: `resnet_e100_epoch5` is of epoch 5, and `lr3e-4` of none
_EPOCHS = tuple(
    re.compile(rf"{_NOT_A_GOAL}(?<!{before}){word}[-_=.]?(\d{{1,12}}){_WHOLE}", re.IGNORECASE)
    for word, before in (("epoch", "[A-Za-z]"), ("ep", "[A-Za-z]"), ("epochs", "[A-Za-z]"), ("e", "[0-9A-Za-z]"))
)
# searched first, because it is faster: a name without it matches none of these. For `IGNORECASE`, U+017F is an s, too
_EPOCH_HINT = re.compile(r"(?<![A-Za-z])[eE](?:[pP](?:[oO][cC][hH][sS\u017f]?)?)?[-_=.]?\d")
_STEP = re.compile(
    rf"{_NOT_A_GOAL}(?<![A-Za-z])"
    r"(?:global_?steps?|steps?|iterations?|iters?|it|updates?|generations?|gen|rounds?|(?<!\d)ba)"
    rf"[-_=.]?(\d{{1,15}}){_WHOLE}",
    re.IGNORECASE,
)
_EPOCH_BEHIND = re.compile(r"(?<![0-9A-Za-z.])(\d{1,12})[-_]?(?:epochs?|ep)(?![0-9A-Za-z])", re.IGNORECASE)
_STEP_BEHIND = re.compile(
    r"(?<![0-9A-Za-z.])(\d{1,15})[-_]?(?:steps?|iterations?|iters?|updates)(?![0-9A-Za-z])", re.IGNORECASE
)
_CALLED = (
    r"(?:checkpoints?|ckpts?|chkpt|chk|cp|models?|weights?|state|states|snapshot|restart|params|chain|net|save|dump)"
)
_BOTH = re.compile(rf"(?<![A-Za-z]){_CALLED}[-_](\d{{1,6}})_(\d{{1,12}})$", re.IGNORECASE)
# `best_model_5_acc=0.7383` is Ignite's: the number before a measured value is that of the epoch which was measured
_BEFORE_METRIC = re.compile(
    rf"(?:(?<![A-Za-z]){_CALLED}|^[mw])[-_.](\d{{1,9}})[-_.]"
    rf"(?:(?:[A-Za-z]+[-_])*(?:{_METRIC}|metric|val|[vt]?l(?=\d))[-_=]?[-+]?)?\d+\.\d+(?![\d.]*\d)",
    re.IGNORECASE,
)
# names that frameworks document: hpc_ckpt of Lightning counts submissions, and the last number of timm's is a batch
_DOCUMENTED: tuple[tuple[re.Pattern[str], Literal["epoch", "step", "neither"]], ...] = (
    (re.compile(r"hpc_ckpt_(\d{1,9})"), "neither"),  # Lightning's checkpoint_connector.py
    (re.compile(r"recovery-(\d{1,9})-\d{1,12}"), "epoch"),  # timm's checkpoint_saver.py
    (re.compile(r"(\d{1,9})_net_[A-Za-z_]+"), "epoch"),  # base_model.py of CycleGAN and pix2pix
    (re.compile(r"save_at_(\d{1,9})"), "epoch"),  # the examples of keras.io
    (re.compile(r"net_[a-z]+_(\d{1,12})"), "step"),  # BasicSR's base_model.py
    (re.compile(r"[GD]_(\d{1,12})"), "step"),  # VITS' train.py
    (re.compile(r"(?:model|opt|ema_0\.\d+_)(\d{6,12})"), "step"),  # guided-diffusion's train_util.py
)
_MEMBER = re.compile(
    r"[-_.]\d{5}-of-\d{5}$|[-_.]?(?<![A-Za-z])(?:rank|shard|part|worker|node|gpu|proc)[-_]?\d{1,6}$", re.IGNORECASE
)
_STEP_DIGITS = 5  # `model_0004999`, `checkpoint-144000`: nobody counts as many epochs, or pads them so
_BARE = re.compile(rf"(?<![A-Za-z]){_CALLED}[-_=.]?(\d{{1,15}})$|[-_.](0\d{{2,14}})$", re.IGNORECASE)
_CALLED_WORD = re.compile(rf"(?<![A-Za-z]){_CALLED}(?![A-Za-z])", re.IGNORECASE)
_COMPANION = re.compile(
    r"(?<![A-Za-z])(?:optim|optimi[sz]er|opt|sched|scheduler|lr_?scheduler|rng|random|ema|momentum|moments|adam|buffers?"
    r"|scaler|loader|sampler|replay)(?![A-Za-z])",
    re.IGNORECASE,
)
_LAST_NUMBER = re.compile(r"(\d+)[^0-9]*$")
_SUFFIX = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,11}){1,3}$")
_BEST = re.compile(r"(?<![A-Za-z])best(?![A-Za-z])", re.IGNORECASE)
_LOOKS_LIKE = re.compile(r"(?<![A-Za-z])(?:checkpoint|ckpt|chkpt|chk|restart|snapshot|epoch)", re.IGNORECASE)
_TEMPORARY_SUFFIX = re.compile(
    r"^_?(?:tmp|temp|part|partial|incomplete|inprogress|writing)(?:[^A-Za-z].*|[0-9a-f]{4}.*)?$"
)
_BACKUP_SUFFIX = re.compile(r"^(?:bak|backup|old|orig)(?:[^A-Za-z].*)?$")


class NameFacts(NamedTuple):
    """The facts in a name. Numbers that no word explains are left out."""

    epoch: int | None = None
    step: int | None = None
    metrics: Mapping[str, float] = {}
    is_best: bool | None = None


def parse_name(name: str, *, bare: Bare = "step") -> NameFacts:
    """Read the facts that a checkpoint's base name states.

    `bare` is the meaning of a number whose only explanation is a word such as checkpoint or model.
    """
    epoch, step = _numbers(name, bare)
    is_best = True if "best" in name.lower() and _BEST.search(name) else None
    return NameFacts(epoch=epoch, step=step, metrics=_metrics(name), is_best=is_best)


def _metrics(name: str) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if "=" in name or ":" in name:
        pairs = _PAIR.findall(name)
        metrics = {key: float(value) for key, value in pairs if key.lower() not in _NO_METRICS}
    if name.count(".") > 1:
        for key, value in _GLUED.findall(name):
            metrics.setdefault(key, float(value))
    return metrics


def _numbers(name: str, bare: Bare) -> tuple[int | None, int | None]:
    """Return epoch and step."""
    patterns = _EPOCHS if _EPOCH_HINT.search(name) else ()
    epoch, step = next(filter(None, (each.search(name) for each in patterns)), None), _STEP.search(name)
    if epoch or step:
        return int(epoch[1]) if epoch else None, int(step[1]) if step else None
    epoch, step = _EPOCH_BEHIND.search(name), _STEP_BEHIND.search(name)
    if epoch or step:
        return int(epoch[1]) if epoch else None, int(step[1]) if step else None
    if measured := _BEFORE_METRIC.search(name):
        return int(measured[1]), None
    stem = _MEMBER.sub("", _SUFFIX.sub("", name))
    for pattern, meaning in _DOCUMENTED:
        if documented := pattern.fullmatch(stem):
            number = int(documented[1])
            return number if meaning == "epoch" else None, number if meaning == "step" else None
    if both := _BOTH.search(stem):
        return int(both[1]), int(both[2])
    if found := _BARE.search(stem):
        digits = found[1] or found[2]
        is_epoch = bare == "epoch" and len(digits) < _STEP_DIGITS
        return (int(digits), None) if is_epoch else (None, int(digits))
    return None, None


def looks_like_checkpoint(name: str) -> bool:
    """Return whether a name has a word that people use for checkpoints."""
    return bool(_LOOKS_LIKE.search(name))


def is_called_checkpoint(name: str) -> bool:
    """Return whether a name is a word for a state, with any prefix and suffix."""
    return bool(_CALLED_WORD.search(name))


def is_called_companion(name: str) -> bool:
    """Return whether a name is a word for a file that a save writes beside the model."""
    return bool(_COMPANION.search(name))


def is_called_member(name: str) -> bool:
    """Return whether a name ends in the number of a rank, shard or the like."""
    return bool(_MEMBER.search(_SUFFIX.sub("", name)))


def counting_number(name: str) -> int | None:
    """Return the last number of a base name without its suffixes; files of one save share it."""
    found = _LAST_NUMBER.search(_SUFFIX.sub("", name))
    return int(found[1]) if found and len(found[1]) < 20 else None


def list_bare(directory: Directory) -> Iterator[File]:
    """Yield the files named by a word for checkpoints without a suffix: only their bytes show the format."""
    return (file for file in directory.by_suffix.get("", ()) if looks_like_checkpoint(file.name))


def list_temporaries(directory: Directory) -> Iterator[tuple[File, str, str]]:
    """Yield each file with the name of an unfinished save or a backup, its final name, and the reason."""
    for suffix, files in directory.by_suffix.items():
        is_backup = bool(_BACKUP_SUFFIX.match(suffix))
        if not is_backup and not _TEMPORARY_SUFFIX.match(suffix):
            continue
        reason = (
            "the backup of a save that did not end" if is_backup else "the temporary name of a save that did not end"
        )
        for file in files:
            yield file, file.name[: -len(suffix) - 1], reason


def claim_file(
    format_name: str, file: File, *, bare: Bare = "step", base: str | None = None, temporary: str | None = None
) -> Claim:
    """Claim one file with the facts in its name; `base` is the final name of a temporary file."""
    facts = parse_name(base or file.name, bare=bare)
    return Claim(
        format=format_name,
        shape=Shape.FILE,
        path=file.path,
        files=(file,),
        temporary=temporary,
        is_best=facts.is_best,
        name_epoch=facts.epoch,
        name_step=facts.step,
        name_metrics=facts.metrics,
    )
