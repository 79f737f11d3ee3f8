"""Finds the newest file of no known format that may be a checkpoint: by its name, its place and its first bytes.

Only its program knows whether it is one. Files of other tools are left out: programs, logs, plots, tables, traces,
trajectories, data sets. A text counts only under a name that programs give to restart files.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from ckptd.checkpoints.formats import foreign_content
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.generic import is_ordinary
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import File
from ckptd.core.model import UnrecognisedFile

MAX_OPENED = 64  # files, the newest first
MAX_OPENED_ALIKE = 4  # of names that differ only in numbers: a log of each rank must not hide other files
_OTHERS = frozenset(
    {
        # programs, libraries, and what compilers and interpreters keep
        "a", "c", "cc", "class", "cpp", "cu", "cubin", "cxx", "dll", "dylib", "egg", "exe", "f", "f03", "f90",
        "fatbin", "for", "go", "h", "hpp", "jar", "java", "jl", "js", "ko", "lib", "m", "mo", "mod", "o", "obj",
        "pl", "ptx", "pyc", "pyd", "pyi", "pyo", "pyx", "r", "rb", "rs", "smod", "so", "ts", "ttir", "whl",
        # texts, plots, pictures, videos, sound
        "avi", "bib", "bmp", "docx", "eps", "fig", "flac", "gif", "gnuplot", "ico", "ipynb", "jpeg", "jpg",
        "mkv", "mov", "mp3", "mp4", "mpeg", "odt", "ogg", "pgm", "plt", "pnm", "ppm", "pptx", "ps", "tex",
        "tif", "tiff", "wav", "webm", "webp", "xml",
        # tables, data sets, archives
        "7z", "arrow", "avro", "bai", "bam", "bcf", "bed", "cram", "dta", "fa", "fasta", "fastq",
        "feather", "fna", "iso", "jsonl", "lmdb", "mdb",
        "ndjson", "ods", "orc", "parquet", "rar", "rec", "sam", "sif", "sqfs", "tar", "tfrecord",
        "tfrecords", "tgz", "vcf", "xls", "xlsx", "xvg", "zip",
        # traces and counters of profilers and of MPI
        "cubex", "darshan", "folded", "gprof", "hpcrun", "ncu-rep", "nsys-rep", "nvvp", "otf", "otf2", "pcap",
        "prof", "prv", "pstats", "qdrep", "qdstrm", "slog2", "trace", "wandb",
        # trajectories and pictures of fields, from which no program continues
        "case", "cdb", "dcd", "edr", "ensight", "lammpstrj", "msh", "pdb", "pvd", "pvtk", "pvtu", "silo", "stl",
        "tng", "tpr", "vti", "vtk", "vtp", "vtr", "vts", "vtu", "xdmf", "xmf", "xtc", "xyz",
        # marks of processes and editors
        "done", "lck", "lock", "pid", "sock", "swo", "swp",
    }
)  # fmt: skip
_RESTART_TEXTS = frozenset(["chk", "ckp", "restrt", "rst", "rst7"])  # of Amber, MrBayes, CHARMM and others
_TEXT_OF_STATE = re.compile(  # SU2's restart_flow.csv, and what scripts save as JSON
    r"(?:checkpoint|ckpt|restart)(?:[-_.]?(?:\d+|flow|last|latest|state))?\.(?:csv|json|txt)", re.IGNORECASE
)
_COMPRESSED = frozenset({"bz2", "gz", "lz4", "xz", "zst"})
_PLACES_OF_TOOLS = frozenset(
    {"dask-scratch-space", "dask-worker-space", "mlruns", "plots", "tb_logs", "tensorboard", "wandb"}
)
_NAMES_OF_TOOLS = ("nccl_trace", "slurm-")  # of files without a suffix
_NUMBER = re.compile(r"\d+")
_TEXT_HEAD_BYTES = 512  # Nek5000's header of text has 132
_PROGRAMS = (b"\x7fELF", b"#!", b"MZ", b"\xcf\xfa\xed\xfe", b"!<arch>")
_PICTURES_AND_TRACES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF", b"%!PS", b"PERFILE2", b"gmon")


def find_newest(files: Iterable[File], reader: Reader, now: datetime) -> UnrecognisedFile | None:
    """Return the newest of these files that may be a checkpoint; None if there is none.

    A time of modification in the future counts as `now`.
    """
    named = sorted(filter(_may_be_named_so, files), key=lambda file: (-file.modified_ns, file.path))
    for file in islice(_leave_out_alike(named), MAX_OPENED):
        if _may_contain_state(file, read_head(reader, file.path, _TEXT_HEAD_BYTES)):
            seconds = min(file.modified_ns // 10**9, int(now.timestamp()))
            return UnrecognisedFile(file.path, file.size_bytes, datetime.fromtimestamp(max(seconds, 0), UTC))
    return None


def _leave_out_alike(files: Iterable[File]) -> Iterator[File]:
    counts: Counter[str] = Counter()
    for file in files:
        series = _NUMBER.sub("#", file.path)
        counts[series] += 1
        if counts[series] <= MAX_OPENED_ALIKE:
            yield file


def _may_be_named_so(file: File) -> bool:
    """Return whether neither the name nor the place of a file shows that it is something else."""
    *places, name = file.path.split("/")
    if not file.size_bytes or name.startswith(".") or any(place.startswith(".") for place in places):
        return False
    if not _PLACES_OF_TOOLS.isdisjoint(place.lower() for place in places):
        return False
    stem, dot, suffix = name.rpartition(".")
    if not dot:
        return not name.startswith(_NAMES_OF_TOOLS)  # the first bytes tell more
    if _TEXT_OF_STATE.fullmatch(name):
        return True
    if suffix.lower() in _COMPRESSED:
        name, (stem, _, suffix) = stem, stem.rpartition(".")
    return suffix.lower() not in _OTHERS and not (stem and is_ordinary(name))


def _may_contain_state(file: File, head: bytes) -> bool:
    """Return whether the first bytes of a file are neither a program nor a picture, nor a text under another name."""
    if not head or head.startswith(_PROGRAMS + _PICTURES_AND_TRACES):
        return False
    if not foreign_content.is_text(head):
        return True
    suffix = file.name.rpartition(".")[2].lower()
    if suffix == "rst":
        return _has_more_digits(head)
    is_restart = suffix in _RESTART_TEXTS or _TEXT_OF_STATE.fullmatch(file.name) is not None
    return is_restart and foreign_content.name_failed_write(head) is None


def _has_more_digits(head: bytes) -> bool:
    """Return whether a text has more digits than letters: coordinates, and no documentation in reStructuredText."""
    return sum(byte in b"0123456789" for byte in head) > sum(chr(byte).isalpha() for byte in head)
