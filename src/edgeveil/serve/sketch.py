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
Verdict = Literal["repeat", "near", "fresh"]
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
        """Compare each row with the stored one and with earlier versions; also returns the marks for `remember`."""
        sketches, base = self.project(rows), self.project(stored)
        marks = [(hash(row.tobytes()), sketch.copy()) for row, sketch in zip(rows, sketches, strict=True)]
        verdicts: list[Verdict] = []
        for i, node in enumerate(nodes.tolist()):
            earlier = self._seen.get(node, [])
            if any(name == marks[i][0] for name, _ in earlier):
                verdicts.append("repeat")
            else:
                verdicts.append(self._judge(sketches[i], np.stack([base[i], *(sketch for _, sketch in earlier)])))
        return verdicts, marks

    def _judge(self, row: Float, known: Float) -> Verdict:
        gap = np.linalg.norm(known - row, axis=1)
        size = np.linalg.norm(known, axis=1)
        own = float(np.linalg.norm(row))
        if (gap <= self._near * np.maximum(size, own)).any():
            return "near"
        ratio = np.divide(own, size, out=np.full_like(size, np.inf), where=size > 0)
        cosine = np.divide(np.abs(known @ row), size * own, out=np.zeros_like(size), where=(size > 0) & (own > 0))
        scaled = (cosine >= 1 - _PARALLEL) & (ratio < _RATIO) & (ratio > 1 / _RATIO)
        return "near" if scaled.any() else "fresh"

    def remember(self, nodes: Int, marks: list[tuple[int, Float]]) -> None:
        """Keep the newest versions; the oldest nodes are forgotten first when there are too many."""
        for node, mark in zip(nodes.tolist(), marks, strict=True):
            versions = [old for old in self._seen.pop(node, []) if old[0] != mark[0]]
            self._seen[node] = [*versions, mark][-self._versions :]
        while len(self._seen) > self._limit:
            del self._seen[next(iter(self._seen))]
