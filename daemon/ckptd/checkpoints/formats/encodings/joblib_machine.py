"""The pickle machine for joblib: behind the placeholder of an array its raw bytes follow in the stream.

Layout: joblib's numpy_pickle.py, NumpyArrayWrapper: where it has an alignment, one byte with the count of padding
bytes, the padding, then the elements; an array of objects is a pickle of its own.
"""

from typing import Any

from ckptd.checkpoints.formats.encodings.numpy_type import item_bytes
from ckptd.checkpoints.formats.encodings.pickle_machine import PickleMachine
from ckptd.checkpoints.formats.encodings.pickle_values import Opaque
from ckptd.checkpoints.formats.interface import DamagedError

_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"


class JoblibMachine(PickleMachine):
    _is_nested = False

    def build(self) -> None:
        super().build()
        value = self.stack[-1]
        if self._is_nested:
            return
        if isinstance(value, Opaque) and value.full_name == _WRAPPER:
            self._step_over(value.attributes)

    def _step_over(self, wrapper: dict[Any, Any]) -> None:
        shape, dtype = wrapper.get("shape"), wrapper.get("dtype")
        size_bytes = item_bytes(dtype)
        if not isinstance(shape, tuple) or not all(isinstance(side, int) and side >= 0 for side in shape):
            raise DamagedError(f"an array without a shape at byte {self.position}")
        if size_bytes is None:
            self._is_nested = True
            self.run_nested()
            self._is_nested = False
            return
        for side in shape:
            size_bytes *= side
        if wrapper.get("numpy_array_alignment_bytes") is not None:
            padding = self.source.take(1)[0]
            self.source.skip(padding)
        self.source.skip(size_bytes)
