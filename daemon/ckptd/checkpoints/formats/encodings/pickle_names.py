"""Lists the names in a pickle that are known to be harmless when unpickling imports and calls them.

A name is judged by itself, wherever it appears, because a name passed as an argument may be called by the receiver.
Three kinds are allowed: the constructors that frameworks' own savers write, classes outside the standard library (a
pickle of user objects names them, and only creates instances), and types used as values.
"""

import re
import sys

_EXACT = frozenset(
    {
        "_codecs.encode",
        "_io.BytesIO",
        "_struct.unpack",
        "argparse.Namespace",
        "array.array",
        "array._array_reconstructor",
        "copyreg._reconstructor",
        "copyreg.__newobj__",
        "copyreg.__newobj_ex__",
        "copy_reg._reconstructor",
        "deap.creator.meta_create",
        "functools.partial",
        "jax._src.array._reconstruct_array",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
        "pathlib.PureWindowsPath",
        "pathlib.WindowsPath",
        "pathlib.Path",
        "pathlib._local.PosixPath",
        "pathlib._local.PurePosixPath",
        "pathlib._local.WindowsPath",
        "random.Random",
        "torch.device",
        "torch.dtype",
        "torch.layout",
        "torch.memory_format",
        "torch.serialization._get_layout",
        "torch.jit._pickle.restore_type_tag",
        "torch.jit._pickle.build_intlist",
        "torch.jit._pickle.build_tensorlist",
        "torch.jit._pickle.build_doublelist",
        "torch.jit._pickle.build_boollist",
        "torch.jit._pickle.build_tensor_from_id",
        "torch.distributed._shard.sharded_tensor.api.ShardedTensor",
        "numpy.dtype",
        "numpy.ndarray",
        "pandas._libs.internals._unpickle_block",
        "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked",
        "pandas.core.indexes.base._new_Index",
    }
)

_STANDARD_CLASSES = re.compile(
    r"""(?x) ^ (?:
      collections\.(?:OrderedDict|defaultdict|Counter|deque|ChainMap)
    | (?:builtins|__builtin__)\.(?:object|dict|list|set|frozenset|tuple|bytes|bytearray|str|unicode|int|long|float
        |complex|bool|slice|range|xrange|NoneType|Ellipsis|NotImplemented|type|[A-Z]\w*(?:Error|Exception|Warning))
    | datetime\.(?:datetime|date|time|timedelta|timezone)
    | decimal\.(?:Decimal|Context|ROUND_\w+) | _?decimal\.Decimal | fractions\.Fraction | uuid\.(?:UUID|SafeUUID)
    | enum\.\w*Enum | types\.(?:SimpleNamespace|NoneType|MappingProxyType) | zoneinfo\.ZoneInfo(?:\._unpickle)?
    | typing\.(?:Any|Union|Optional|List|Dict|Tuple) | dataclasses\.(?:Field|_MISSING_TYPE|_FIELD_BASE)
    | logging\.(?:Logger|getLogger) | time\.struct_time | inspect\._empty
    | _?operator\.(?:eq|ne|lt|le|gt|ge|add|sub|mul|truediv|neg|itemgetter)
    | ipaddress\.IPv[46]\w+ | string\.Template | threading\.(?:Lock|RLock)
    ) $"""
)

_FRAMEWORK = re.compile(
    r"""(?x) ^ (?:
      torch\._utils\._rebuild\w* | torch\._tensor\._rebuild_from_type_v2 | torch\.nn\.parameter\.\w+
    | torch\.(?:\w*Storage|storage\.\w*Storage|cuda\.\w*Storage|\w*Tensor|cuda\.\w*Tensor|Size|Generator)
    | torch\.per_(?:tensor|channel)_(?:affine|symmetric)(?:_float_qparams)?
    | torch\.(?:b?float\w*|u?int\d+|q?u?int\d+\w*|double|half|long|short|bool|complex\w*|uint8|strided|sparse_\w+
        |preserve_format|contiguous_format|channels_last\w*)
    | torch\.(?:nn\.functional\.|_C\._nn\.)?(?:relu6?|gelu|silu|mish|elu|selu|celu|leaky_relu|tanh|sigmoid|softmax
        |log_softmax|softplus|hardtanh|hardswish|logsigmoid|cross_entropy|mse_loss|l1_loss|nll_loss|smooth_l1_loss)
    | __torch__(?:\.\w+)* | torch\.jit\._pickle\.\w+
    | numpy\.(?:_?core\.multiarray\.(?:_reconstruct|scalar)|_?core\.numeric\._frombuffer)
    | numpy\.(?:bool_?|u?int\w*|float\w*|complex\w*|str_|bytes_|void|object_|datetime64|timedelta64|longlong
        |ulonglong|half|single|double|longdouble|generic|number|recarray|record|matrix|random\.mtrand\.RandomState)
    | numpy\.(?:rec|core\.records|_core\.records)\.recarray | numpy\.dtypes\.\w+ | numpy\.ma\.core\._mareconstruct
    | numpy\.(?:matrixlib\.defmatrix\.matrix|core\.memmap\.memmap)
    | numpy\.random\._pickle\.__\w+_ctor | numpy\.random\.(?:_\w+|bit_generator)\.\w+
    | scipy\.sparse\.(?:\w+\.)?[a-z]+_(?:matrix|array) | joblib\.numpy_pickle\.\w+ArrayWrapper
    | ml_dtypes\.\w+ | deepspeed\.utils\.\w+\.fragment_address
    | (?:sklearn|scipy|pandas)\.[\w.]*\.__pyx_unpickle_\w+
    ) $"""
)
# torch.storage._load_from_bytes runs torch.load on bytes inside the pickle: a hidden second pickle
NESTED_LOADER = "torch.storage._load_from_bytes"

# How protocols before 4 name a member of an enumeration (Python 3.11) or a class inside a class, as an attribute of its
# class. Harmless where the whole name is; any other use is unsafe.
LOOKUPS = frozenset({"builtins.getattr", "__builtin__.getattr"})

CLASS_MAKERS = frozenset({"deap.creator.meta_create"})  # what they return is a class, and calling it makes an instance

_CLASS_LIKE = re.compile(r"^_{0,2}[A-Z][A-Za-z0-9_]*$")
_STANDARD_LIBRARY = sys.stdlib_module_names | {"__builtin__", "copy_reg", "posix", "nt", "commands", "exceptions"}


def is_harmless(module: str, name: str) -> bool:
    """Return whether a name in a pickle is harmless; any other name makes the pickle unsafe."""
    full_name = f"{module}.{name}"
    if full_name == NESTED_LOADER:
        return False
    if full_name in _EXACT or _STANDARD_CLASSES.match(full_name) or _FRAMEWORK.match(full_name):
        return True
    top = module.partition(".")[0]
    if top in _STANDARD_LIBRARY and top != "__main__":
        return False
    return all(_CLASS_LIKE.match(part) for part in name.split("."))
