"""From a raw table to the features that a release's model sees: the table's transform, then the fitted scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.files.table_transform import TableTransform
from edgeveil.graph.scaling import Scaling

__all__ = ["Inputs"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """`table` is None where the graph came with numbers; `width` is the number of raw numeric features."""

    scaling: Scaling
    width: int
    table: TableTransform | None = None

    def apply(self, table: Any) -> NDArray[np.float64]:
        """Model-space features, one row per row of a raw table or of an array of raw numbers."""
        if self.table is not None and not isinstance(table, np.ndarray):
            rows = self.table.apply(table)
        else:
            rows = _numbers(table)
        if rows.ndim != 2 or rows.shape[1] != self.width or not np.isfinite(rows).all():
            raise InputError(f"raw features are {self.width} finite numbers per node, got shape {list(rows.shape)}")
        out: NDArray[np.float64] = np.asarray(self.scaling.apply(rows).toarray(), np.float64)
        return out

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        scale, shift = (None if a is None else a.tolist() for a in (self.scaling.scale, self.scaling.shift))
        table = None if self.table is None else self.table.to_json()
        return {
            "scaling": {"kind": self.scaling.kind, "scale": scale, "shift": shift},
            "width": self.width,
            "table": table,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Inputs:
        """Inverse of `to_json`."""
        fitted = values["scaling"]
        scale, shift = (None if fitted[key] is None else np.array(fitted[key]) for key in ("scale", "shift"))
        table = None if values["table"] is None else TableTransform.from_json(values["table"])
        return cls(Scaling(fitted["kind"], scale, shift), int(values["width"]), table)


def _numbers(table: Any) -> NDArray[np.float64]:
    try:
        return np.atleast_2d(np.asarray(table, np.float64))
    except (TypeError, ValueError):
        raise InputError(
            "this release was made from numbers, not from a table with columns: give an array of raw features"
        ) from None
