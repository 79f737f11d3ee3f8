"""Names and first bytes of files that tools leave beside jobs, and of texts from which programs continue.

No program continues from the former: programs, logs, plots, tables, data sets, caches, traces, trajectories.
"""

import re
from collections.abc import Sequence

from ckptd.checkpoints.formats import foreign_content
from ckptd.checkpoints.formats.generic import is_ordinary

_SUFFIXES = frozenset(
    {
        # programs, libraries, and what compilers and interpreters keep
        "a", "c", "cc", "class", "cpp", "cu", "cubin", "cxx", "dll", "dylib", "egg", "engine", "exe", "f", "f03", "f90",
        "fatbin", "for", "gch", "gcno", "go", "h", "hpp", "jar", "java", "jl", "js", "ko", "lib", "m", "mo", "nbc",
        "nbi", "o", "obj", "pch", "pl", "ptx", "pyc", "pyd", "pyi", "pyo", "pyx", "r", "rb", "rlib", "rmeta", "rs",
        "smod", "so", "ts", "ttir", "whl",
        # texts, plots, pictures, videos, sound
        "avi", "bib", "bmp", "docx", "eps", "exr", "fig", "flac", "gif", "glb", "gnuplot", "ico", "ipynb", "jpeg",
        "jpg", "mkv", "mov", "mp3", "mp4", "mpeg", "odt", "ogg", "pgm", "plt", "ply", "pnm", "ppm", "pptx", "ps",
        "tex", "tif", "tiff", "wav", "webm", "webp",
        # tables, data sets, archives, images of containers
        "7z", "arrow", "avro", "bam", "bcf", "bed", "beton", "blow5", "cram", "dcm", "dta", "ext3", "fa", "fasta",
        "fast5", "fastq", "feather", "fna", "fq", "gff", "gtf", "idx", "iso", "jsonl", "lmdb", "mdb", "mds", "mha",
        "ndjson", "nii", "nrrd", "ods", "orc", "parquet", "pod5", "rar", "rec", "sam", "sif", "simg", "sqfs", "sqsh",
        "squashfs", "sra", "tar", "tfrecord", "tfrecords", "tgz", "vcf", "xls", "xlsx", "xvg", "zip",
        # indexes of genomes, of alignments and of BLAST
        "2bit", "bai", "bt2", "bt2l", "bwt", "crai", "csi", "mmi", "nhr", "nin", "nsq", "pac", "phr", "pin", "psq",
        "sa", "tbi",
        # exported models, which state no progress
        "hlo", "onnx", "pb", "tflite",
        # traces and counters of profilers, of coverage and of MPI
        "cubex", "darshan", "def", "evt", "folded", "gcda", "gprof", "hpcrun", "hpctrace", "hprof", "jfr", "journal",
        "mpit", "ncu-rep", "nsys-rep", "nvvp", "otf", "otf2", "pcap", "perfetto-trace", "pftrace", "prof", "prv",
        "pstats", "qdrep", "qdstrm", "slog2", "trace", "wandb",
        # trajectories and pictures of fields, from which no program continues
        "case", "cdb", "dcd", "edr", "ensight", "lammpstrj", "msh", "pdb", "pvd", "pvtk", "pvtu", "silo", "stl",
        "tng", "tpr", "vti", "vtk", "vtp", "vtr", "vts", "vtu", "xdmf", "xmf", "xtc", "xyz",
        # marks of processes and editors
        "done", "lck", "lock", "pid", "sock", "swo", "swp",
    }
)  # fmt: skip
_COMPRESSED = frozenset({"bz2", "gz", "lz4", "xz", "zst", "zstd"})
_PLACES = re.compile(  # of data loaders, trackers, caches of compilers and of downloads, packages of Python, MPI
    r"dask-(?:scratch|worker)-space|mlruns|plots|tb_logs|tensorboard|wandb|sqlite-db|blockmgr-.+|ompi\..+|"
    r"(?:.+[-_])?cache|ccache|computecache|http-v2|xet|(?:models|datasets)--.+|torchinductor_.+|__pycache__|"
    r"(?:site|dist)-packages|conda-meta|terminfo|zoneinfo",
    re.IGNORECASE,
)
_TOOLS = re.compile(  # what the names of their files begin with
    r"(?:nccl|comm_lib)_trace|slurm-|memray-|heaptrack\.|core\.\w.*\.(?:lz4|xz|zst)$|(?:std)?(?:out|err)\.gz$|mlflow\.db|"
    r"(?:tokenizer|spiece|spm|sentencepiece(?:\.bpe)?)\.model$"
)
_ROTATED = re.compile(r"(?<=\.log|\.out|\.err)\.\d+$")  # train.log.2
_STATE_AS_OUTPUT = re.compile(r"(?:restart|rst|state)\.out", re.IGNORECASE)  # of Elk, exciting and PLUTO: no text
_RESTART_TEXTS = frozenset(  # of Amber, MrBayes, CHARMM, Tinker, FHI-aims, WIEN2k and others
    ["chk", "ckp", "clmsum", "dyn", "next_step", "restrt", "rst", "rst7"]
)
_RESTART_NAMES = frozenset(["CONTCAR", "REVCON"])  # of VASP and DL_POLY
_TEXT_OF_STATE = re.compile(  # SU2's restart_flow.csv, and what scripts save as JSON
    r"(?:checkpoint|ckpt|restart)(?:[-_.]?(?:\d+|flow|last|latest|state))?\.(?:csv|json|txt)", re.IGNORECASE
)
_HEADS_OF_STATE = re.compile(
    rb"\s*(?:<itsabeastystate"  # BEAST 2: State.toXML
    rb"|(?:<\?xml[^>]*\?>\s*)?<State\s[^>]*openmmVersion"  # OpenMM: saveState
    rb"|\$(?:scfmo|uhfmo_)"  # Turbomole: the orbitals mos, alpha, beta
    rb"|INCON\b"  # TOUGH2: SAVE
    rb"|! note: initial lines of file can contain comments"  # MESA: a saved model
    rb"|ASCII +\d+\s+!File started at"  # Elmer
    rb"|#\s+# Keywords:)"  # GULP
)
_ONLY_AS_TEXT = frozenset({"mod", "xml"})  # a module of Fortran is compressed
_PROGRAMS = (b"\x7fELF", b"#!", b"MZ", b"\xcf\xfa\xed\xfe", b"!<arch>")
_PICTURES_AND_TRACES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF", b"%!PS", b"PERFILE2", b"gmon")
_TERMINAL = b"\a\b\x1b"  # colours and bars of progress
_CONTROLS = frozenset(range(32)) - set(b"\t\n\r\f") | {127}
_LEAST_ASCII = 0.8  # of a text in Latin-1


def is_named_as_other(places: Sequence[str], name: str) -> bool:
    """Return whether the name or the place of a file shows that it is something else than a checkpoint."""
    if name.startswith(".") or any(place.startswith(".") or _PLACES.fullmatch(place) for place in places):
        return True
    if _TOOLS.match(name):
        return True
    if "." not in name or _TEXT_OF_STATE.fullmatch(name) or _STATE_AS_OUTPUT.fullmatch(name):
        return False  # the first bytes tell more
    stem, _, suffix = name.rpartition(".")
    if suffix.lower() in _COMPRESSED:
        name, (stem, _, suffix) = stem, stem.rpartition(".")
    if rotated := _ROTATED.search(name):
        name = name[: rotated.start()]
    return suffix.lower() in _SUFFIXES or bool(stem and is_ordinary(name))


def may_contain_state(name: str, head: bytes) -> bool:
    """Return whether the first bytes of a file are no program and no picture, and a text only if one of a state."""
    if not head or head.startswith(_PROGRAMS + _PICTURES_AND_TRACES):
        return False
    suffix = name.rpartition(".")[2].lower()
    if not _is_text(head):
        return suffix not in _ONLY_AS_TEXT
    if _HEADS_OF_STATE.match(head):
        return True
    if suffix == "rst":
        return _has_more_digits(head)
    is_restart = suffix in _RESTART_TEXTS or name in _RESTART_NAMES or _TEXT_OF_STATE.fullmatch(name) is not None
    return is_restart and foreign_content.name_failed_write(head) is None


def _is_text(head: bytes) -> bool:
    """Return whether people can read these bytes: also with colours of a terminal, and in Latin-1."""
    plain = head.translate(None, _TERMINAL)
    if foreign_content.is_text(plain):
        return True
    return _CONTROLS.isdisjoint(plain) and sum(byte < 128 for byte in plain) >= _LEAST_ASCII * len(plain)


def _has_more_digits(head: bytes) -> bool:
    """Return whether a text has more digits than letters: coordinates, and no documentation in reStructuredText."""
    return sum(byte in b"0123456789" for byte in head) > sum(chr(byte).isalpha() for byte in head)
