"""Answers of one release: stored ones looked up, changed ones recomputed only where they can differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import StorageError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.release.identity import release_identity
from edgeveil.release.release import Release
from edgeveil.serve.khop import gcn_update
from edgeveil.serve.problems import Problem
from edgeveil.serve.wire import Query

__all__ = ["Change", "Engine", "check_reach"]

_TOGETHER = 64
Float = NDArray[np.float64]
Int = NDArray[np.int64]


class Change:
    """Rows of a query that really differ from the stored features: `nodes` [m] and `rows` [m, d]."""

    __slots__ = ("nodes", "rows", "stored")

    def __init__(self, nodes: Int, rows: Float, stored: Float) -> None:
        self.nodes, self.rows, self.stored = nodes, rows, stored

    def written(self, asked: Int) -> bytes:
        """The question in bytes, in whatever order it was sent: no two questions have the same."""
        order = np.argsort(self.nodes)
        sizes = np.array([len(asked), *self.rows.shape], np.int64)
        parts = (sizes, np.sort(asked), self.nodes[order], self.rows[order])
        return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


class Engine:
    """A release made ready for serving. All methods are safe to call from several threads."""

    def __init__(self, release: Release, name: str = "release") -> None:
        self.release, self.name = release, name
        self.num_nodes = release.num_nodes
        self.num_features = release.matrix.shape[1]
        self._update = gcn_update(release.predictor, release.matrix)
        self.base: Float = release.predict() if self._update is None else self._update.base
        if not np.isfinite(self.base).all():
            raise StorageError(f"{name}: its own answers are not finite numbers; make a new release")
        self.largest = _largest(release.matrix)
        self.rowwise = release.predictor.rowwise
        self.strategy = "rows" if self.rowwise else "k-hop" if self._update is not None else "full"

    @cached_property
    def identity(self) -> str:
        """What it answers with: another model or graph has another one."""
        return release_identity(self.release)

    def check(self, query: Query, max_nodes: int, reach: float = np.inf) -> None:
        """Refuse a question that names unknown or repeated nodes, has the wrong shape, or is too large.

        `reach`: how far features may go, in multiples of the largest stored one.
        """
        for what, ids in (("nodes", query.nodes), ("answer", query.answer)):
            if ids is not None and ids is not (query.nodes if what == "answer" else None):
                self._check_ids(ids, what)
        asked = self.num_nodes if query.answer is None else len(query.answer)
        if max(asked, 0 if query.nodes is None else len(query.nodes)) > max_nodes:
            raise Problem(413, "too_many_nodes", f"one request may concern at most {max_nodes} nodes; split it")
        if query.features is not None:
            want = [self.num_nodes if query.nodes is None else len(query.nodes), self.num_features]
            if list(query.features.shape) != want:
                got = list(query.features.shape)
                raise Problem(422, "bad_shape", f"features must have shape {want}, got {got}")
            check_reach(query.features, reach * self.largest)

    def _check_ids(self, ids: Int, what: str) -> None:
        low, high = (int(ids[0]), int(ids[0])) if len(ids) == 1 else (int(ids.min()), int(ids.max()))
        if low < 0 or high >= self.num_nodes:
            bad = low if low < 0 else high
            raise Problem(422, "unknown_node", f"{what}: node {bad} is unknown; nodes are 0..{self.num_nodes - 1}")
        if len(ids) > 1 and len(np.unique(ids)) != len(ids):
            raise Problem(422, "repeated_node", f"{what}: nodes are repeated; name each node once")

    def change(self, query: Query) -> Change | None:
        """What a query really changes, or None when it only repeats stored rows."""
        if query.features is None:
            return None
        nodes = np.arange(self.num_nodes) if query.nodes is None else query.nodes
        stored = np.asarray(self.release.matrix.rows(nodes), np.float64)
        differs = (stored != query.features).any(axis=1)
        if not differs.any():
            return None
        return Change(nodes[differs], query.features[differs], stored[differs])

    def asked(self, query: Query) -> Int:
        """The nodes an answer is about."""
        return np.arange(self.num_nodes) if query.answer is None else query.answer

    def stored(self, query: Query) -> Float:
        """Rows of the stored answer."""
        return self.base if query.answer is None else self.base[query.answer]

    def answer(self, query: Query, change: Change | None) -> Float:
        """Logits for a checked query, maybe not finite; may take long, so not for the event loop."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._answer(query, change)

    def answers(self, questions: Sequence[tuple[Query, Change | None]]) -> list[Float]:
        """As `answer`, for many questions; none depends on another, to the last bit."""
        update, found = self._update, {}
        if update is not None and len(questions) > 1:
            moved = [(i, c) for i, (q, c) in enumerate(questions) if c is not None and not q.induced]
            with np.errstate(over="ignore", invalid="ignore"):
                parts = [(*_sorted(change), self.asked(questions[i][0])) for i, change in moved]
                found = dict(zip((i for i, _ in moved), update.changed_each(parts) if parts else (), strict=True))
        return [found[i] if i in found else self.answer(*question) for i, question in enumerate(questions)]

    def _answer(self, query: Query, change: Change | None) -> Float:
        if query.induced and not self.rowwise:
            return self.release.predict(query.features, query.nodes, induced=True)
        if change is None:
            return self.stored(query)
        asked = self.asked(query)
        if self.rowwise:
            return self._rowwise(asked, change)
        if self._update is not None:
            return self._update.changed(*_sorted(change), asked)
        return self.release.predict(change.rows, change.nodes)[asked]

    def effort(self, query: Query, change: Change | None) -> float:
        """Entries of the graph that an answer touches at most, where that is known beforehand; else infinite."""
        if self._update is None or query.induced or change is None or query.answer is None:
            return math.inf
        return self._update.effort(change.nodes, query.answer)

    def alone(self, asked: Int, change: Change) -> Float:
        """Logits of every asked node as if its own row alone had changed: none shows another's change."""
        out = self.base[asked]
        place = {int(node): i for i, node in enumerate(change.nodes)}
        mine = [(at, place[int(node)]) for at, node in enumerate(asked) if int(node) in place]
        most = 1024 if self._update is not None else 64
        if len(mine) > most:
            raise Problem(413, "too_many_nodes", f"this server answers for {most} changed nodes at a time; split it")
        rows = [(change.nodes[i : i + 1], change.rows[i : i + 1]) for _, i in mine]
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(mine), _TOGETHER):
                part = rows[start : start + _TOGETHER]
                if self._update is not None:
                    found = [got[0] for got in self._update.changed_each([(node, row, node) for node, row in part])]
                else:
                    found = [self.release.predict(row, node)[node[0]] for node, row in part]
                out[[at for at, _ in mine[start : start + _TOGETHER]]] = found
        return out

    def _rowwise(self, asked: Int, change: Change) -> Float:
        out = self.base[asked]
        place = np.full(self.num_nodes, -1, np.int64)
        place[change.nodes] = np.arange(len(change.nodes))
        at = place[asked]
        mine = at[at >= 0]
        if len(mine):
            out[at >= 0] = self.release.predict(change.rows[mine], change.nodes[mine], induced=True)
        return out


def _largest(matrix: FeatureMatrix) -> float:
    """The largest magnitude among the stored features, at least 1."""
    if not matrix.shape[0]:
        return 1.0
    size = max(1, 2**22 // max(1, matrix.shape[1]))
    parts = (matrix.rows(np.arange(at, min(at + size, matrix.shape[0]))) for at in range(0, matrix.shape[0], size))
    return max(1.0, *(float(np.abs(part).max(initial=0.0)) for part in parts))


def check_reach(features: Float, limit: float) -> None:
    """Refuse values so large that a sum over neighbours could overflow and show who the neighbours are."""
    worst = float(np.abs(features).max(initial=0.0))
    if worst > limit:
        raise Problem(
            422, "out_of_range", f"features: values may reach {limit:g} in magnitude, got {worst:g}; scale them as the "
            "stored features are scaled",
        )  # fmt: skip


def _sorted(change: Change) -> tuple[Int, Float]:
    order = np.argsort(change.nodes)
    return change.nodes[order], change.rows[order]
