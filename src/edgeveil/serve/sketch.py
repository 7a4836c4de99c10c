"""What the guard remembers of feature rows: short secret projections, enough to tell near from far, not the rows.

Distances shrink by random projection (Johnson-Lindenstrauss); with 24 dimensions a relative distance is off by about
15 %, while a scaled copy stays exactly parallel. Identical rows are recognised by a keyed hash.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIMENSIONS", "RowMemory", "Verdict"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Verdict = Literal["near", "known", "fresh"]
DIMENSIONS = 24
_PARALLEL = 1e-9
_RATIO = 8.0


class RowMemory:
    """The last few versions of every node's row that anybody sent."""

    def __init__(
        self, num_features: int, *, near: float, secret: bytes, versions: int = 4, nodes: int = 200_000
    ) -> None:
        seed = int.from_bytes(hashlib.sha256(b"guard" + secret).digest()[:16], "little")
        rng = np.random.default_rng(seed)
        self._projection: Float = rng.standard_normal((num_features, DIMENSIONS)) / np.sqrt(DIMENSIONS)
        self._near, self._versions, self._limit = near, versions, nodes
        self._seen: dict[int, list[tuple[int, Float]]] = {}

    def project(self, rows: Float) -> Float:
        """Sketches of rows."""
        out: Float = rows @ self._projection
        return out

    def judge(self, nodes: Int, rows: Float, stored: Float) -> tuple[list[Verdict], list[tuple[int, Float]]]:
        """Compare each row with the stored one and with earlier versions; also returns the marks for `remember`.

        ``near``: close to a different version, or a scaled copy of one. ``known``: sent before exactly like this.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not near anything
            return self._judge(nodes, rows, stored)

    def _judge(self, nodes: Int, rows: Float, stored: Float) -> tuple[list[Verdict], list[tuple[int, Float]]]:
        sketches, base = self.project(rows), self.project(stored)
        marks = [(hash(row.tobytes()), sketch.copy()) for row, sketch in zip(rows, sketches, strict=True)]
        verdicts: list[Verdict] = []
        for i, node in enumerate(nodes.tolist()):
            seen = self._seen.get(node, [])
            others = [sketch for name, sketch in seen if name != marks[i][0]]
            if self._is_near(sketches[i], np.stack([base[i], *others])):
                verdicts.append("near")
            else:
                verdicts.append("known" if len(others) < len(seen) else "fresh")
        return verdicts, marks

    def _is_near(self, row: Float, versions: Float) -> bool:
        gap = np.linalg.norm(versions - row, axis=1)
        size = np.linalg.norm(versions, axis=1)
        own = float(np.linalg.norm(row))
        if (gap <= self._near * np.maximum(size, own)).any():
            return True
        ratio = np.divide(own, size, out=np.full_like(size, np.inf), where=size > 0)
        cosine = np.divide(np.abs(versions @ row), size * own, out=np.zeros_like(size), where=(size > 0) & (own > 0))
        return bool(((cosine >= 1 - _PARALLEL) & (ratio < _RATIO) & (ratio > 1 / _RATIO)).any())

    def remember(self, nodes: Int, marks: list[tuple[int, Float]]) -> None:
        """Keep the newest versions; the oldest nodes are forgotten first when there are too many."""
        for node, mark in zip(nodes.tolist(), marks, strict=True):
            versions = [old for old in self._seen.pop(node, []) if old[0] != mark[0]]
            self._seen[node] = [*versions, mark][-self._versions :]
        while len(self._seen) > self._limit:
            del self._seen[next(iter(self._seen))]
