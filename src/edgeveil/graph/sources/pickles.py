"""Reading the old Planetoid pickles without ever running what a pickle asks for.

Only arrays of numbers, CSR matrices and dictionaries of lists can come out. Every name in the file is answered with
an inert stand-in made afresh for that file; any other name ends the reading.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import scipy.sparse as sp

from edgeveil.errors import StorageError

__all__ = ["read_pickle"]


def _array_type() -> type:
    class Dtype:
        spec = ""
        order = "|"

        def __setstate__(self, state: tuple[Any, ...]) -> None:
            self.order = str(state[1])

    class Array:
        value: Any = None
        dtype_type = Dtype

        def __setstate__(self, state: tuple[Any, ...]) -> None:
            _, shape, dtype, fortran, raw = state
            if not isinstance(dtype, Dtype) or dtype.spec[:1] not in ("f", "i", "u", "b"):
                raise pickle.UnpicklingError("only arrays of numbers are allowed")
            plain = np.dtype(("" if dtype.order not in "<>" else dtype.order) + dtype.spec)
            data = raw.encode("latin1") if isinstance(raw, str) else raw
            flat = np.frombuffer(data, plain)
            self.value = flat.reshape(shape, order="F" if fortran else "C")

    return Array


def _vocabulary() -> dict[tuple[str, str], Any]:
    """The allowed names and their stand-ins, new for every file so that nothing a pickle changes lives on."""
    array = _array_type()

    class Csr:
        state: Any = None

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.state = state

    def reconstruct(kind: Any, shape: Any, code: Any) -> Any:
        if kind is not array:
            raise pickle.UnpicklingError("only plain arrays are allowed")
        return array()

    def dtype(spec: Any, *_: Any) -> Any:
        out = array.dtype_type()  # type: ignore[attr-defined]
        out.spec = str(spec)
        return out

    def dictionary(factory: Any) -> defaultdict[Any, Any]:
        return defaultdict(list)

    def encode(text: Any, encoding: Any = "latin1") -> bytes:
        """How Python 3 writes bytes into an old pickle."""
        if encoding != "latin1":
            raise pickle.UnpicklingError("only latin1 bytes are allowed")
        return str(text).encode("latin1")

    names: dict[tuple[str, str], Any] = {
        ("_codecs", "encode"): encode,
        ("numpy", "ndarray"): array,
        ("numpy", "dtype"): dtype,
        ("scipy.sparse.csr", "csr_matrix"): Csr,
        ("scipy.sparse._csr", "csr_matrix"): Csr,
        ("collections", "defaultdict"): dictionary,
        ("__builtin__", "list"): "list",
        ("builtins", "list"): "list",
    }
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names[module, "_reconstruct"] = reconstruct
    return names


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self.names = _vocabulary()

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.names[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no graph file needs") from None


def read_pickle(content: bytes, what: str = "file") -> Any:
    """The array, CSR matrix or dictionary of lists in a pickle; anything else is a `StorageError`."""
    reader = _Reader(content)
    array, csr = reader.names["numpy", "ndarray"], reader.names["scipy.sparse.csr", "csr_matrix"]
    try:
        value = reader.load()
        if isinstance(value, csr):
            parts = [value.state[key].value for key in ("data", "indices", "indptr")]
            return sp.csr_matrix(tuple(parts), shape=value.state.get("_shape") or value.state["shape"])
        if isinstance(value, array):
            return value.value
        if isinstance(value, dict) and all(isinstance(row, list) for row in value.values()):
            return dict(value)
    except Exception as error:  # the bytes are untrusted: whatever goes wrong, they are not our file
        raise StorageError(f"{what} is refused: {error}") from error
    raise StorageError(
        f"{what} is refused: it holds a {type(value).__name__}, not an array, a CSR matrix or a dictionary"
    )
