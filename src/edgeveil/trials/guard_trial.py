"""The guard on trial: our own attacks and made-up honest users, run against it in one process.

Honest users are a model of traffic, not traffic. Recorded traffic is better evidence; `edgeveil guard` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import TargetError
from edgeveil.release.release import Release
from edgeveil.release.target import Target
from edgeveil.seeds import stream
from edgeveil.serve.config import GuardSettings
from edgeveil.serve.engine import Change, Engine
from edgeveil.serve.guard import Decision, Guard
from edgeveil.serve.policy import OutputPolicy
from edgeveil.serve.wire import Query

__all__ = ["HONEST", "Bench", "GuardedTarget", "Session", "honest_sessions"]

Int = NDArray[np.int64]


class Bench:
    """A release behind a fresh guard, without HTTP."""

    def __init__(self, release: Release, settings: GuardSettings, engine: Engine | None = None) -> None:
        self.engine = engine or Engine(release)
        self.guard = Guard(
            settings, num_nodes=self.engine.num_nodes, num_features=self.engine.num_features, secret=b"trial"
        )
        self.changed = False  # whether the last query really changed a row: scaling an empty one does not

    def judge(self, key: str, tenant: str, query: Query) -> tuple[Change | None, Decision]:
        """What the guard thinks of a query, without answering it."""
        change = self.engine.change(query)
        return change, self.guard.watch(key, tenant, change, self.engine.asked(query))

    def ask(self, key: str, tenant: str, query: Query) -> tuple[Any, Decision]:
        """The answer (None if refused) and the decision."""
        change, decision = self.judge(key, tenant, query)
        self.changed = change is not None
        return (None if decision.action == "refuse" else self.engine.answer(query, change)), decision


class GuardedTarget(Target):
    """Bob in front of the guard, with one key or several colluding ones used in turn.

    `silent=False`: a refusal raises. `silent=True`: refused probes count as "no change", which leaves an attack with
    what it had learned by then.
    """

    def __init__(
        self,
        bench: Bench,
        nodes: Int,
        *,
        keys: int = 1,
        tenants: int | None = None,
        policy: OutputPolicy | None = None,
        silent: bool = True,
    ) -> None:
        super().__init__()
        self._bench, self._nodes = bench, nodes
        self._policy = policy or OutputPolicy("logits")
        self._names = [(f"bob-{i}", f"tenant-{i % (tenants or keys)}") for i in range(keys)]
        self._silent = silent
        self.num_nodes = bench.engine.num_nodes
        self.features = bench.engine.release.matrix
        self.answer_kind = self._policy.kind
        self.answered = self.refused = 0
        self.first_alarm: int | None = None

    def _answer(self, features: Any, nodes: Any, induced: bool) -> Any:
        if features is None:
            return self._read(self._bench.engine.base)
        key, tenant = self._names[(self.answered + self.refused) % len(self._names)]
        logits, decision = self._bench.ask(key, tenant, Query(nodes, np.asarray(features), self._nodes))
        if decision.action in ("review", "refuse") and self.first_alarm is None:
            self.first_alarm = self.answered + self.refused + 1
        if logits is None:
            self.refused += 1
            if not self._silent:
                raise TargetError(f"guard_refused: {decision.detector}")
            return self._read(self._bench.engine.base)
        self.answered += self._bench.changed
        out = self._bench.engine.base.copy()
        out[self._nodes] = logits
        return self._read(out)

    def _read(self, logits: Any) -> Any:
        answer = self._policy.apply(logits)
        return answer.labels if answer.values is None else answer.values


@dataclass(frozen=True)
class Session:
    """One honest user's queries."""

    kind: str
    tenant: str
    queries: tuple[Query, ...]


Maker = Callable[[Engine, np.random.Generator], Iterator[Query]]


def _group(engine: Engine, rng: np.random.Generator, most: int = 40) -> Int:
    return rng.choice(engine.num_nodes, int(rng.integers(2, most)), replace=False)


def _fresh(engine: Engine, rng: np.random.Generator) -> Iterator[Query]:
    """New features for a group every time: rows of other nodes, shuffled in, with a little noise."""
    nodes = _group(engine, rng)
    for _ in range(20):
        rows = np.asarray(engine.release.matrix.rows(rng.choice(engine.num_nodes, len(nodes), replace=False)))
        yield Query(nodes, rows * rng.uniform(0.9, 1.1, rows.shape), nodes)


def _repeated(engine: Engine, rng: np.random.Generator) -> Iterator[Query]:
    """The same question with own features again and again."""
    nodes = _group(engine, rng)
    rows = np.asarray(engine.release.matrix.rows(rng.choice(engine.num_nodes, len(nodes), replace=False)))
    for _ in range(20):
        yield Query(nodes, rows, nodes)


def _stored(engine: Engine, rng: np.random.Generator) -> Iterator[Query]:
    """Questions about stored features."""
    for _ in range(20):
        nodes = _group(engine, rng)
        yield Query(nodes, None, nodes)


def _what_if(engine: Engine, rng: np.random.Generator) -> Iterator[Query]:
    """One user tries small changes of her own row and looks at her own answer."""
    node = rng.integers(0, engine.num_nodes, 1)
    row = np.asarray(engine.release.matrix.rows(node), np.float64)
    for _ in range(20):
        yield Query(node, row * rng.uniform(0.9, 1.1, row.shape), node)


def _drifting(engine: Engine, rng: np.random.Generator) -> Iterator[Query]:
    """A group whose features drift by a few percent between questions: honest, and close to the grouped attack."""
    nodes = _group(engine, rng)
    rows = np.asarray(engine.release.matrix.rows(nodes), np.float64)
    for _ in range(4):
        rows = rows * rng.uniform(0.97, 1.03, rows.shape)
        yield Query(nodes, rows, nodes)


def _partial(engine: Engine, rng: np.random.Generator) -> Iterator[Query]:
    """A group of which a few get new features, while the whole group is read: honest, and a finite difference."""
    nodes = _group(engine, rng)
    for _ in range(8):
        rows = np.asarray(engine.release.matrix.rows(rng.choice(engine.num_nodes, 1)))
        yield Query(rng.choice(nodes, 1), rows * rng.uniform(0.9, 1.1, rows.shape), nodes)


HONEST: dict[str, Maker] = {
    "fresh features": _fresh,
    "same query again": _repeated,
    "stored features": _stored,
    "what-if on oneself": _what_if,
    "slow drift": _drifting,
    "partial update": _partial,
}


def honest_sessions(engine: Engine, count: int, seed: int, kinds: tuple[str, ...] = tuple(HONEST)) -> Iterator[Session]:
    """`count` sessions of every kind, each of its own tenant."""
    for kind in kinds:
        for i in range(count):
            rng = stream(seed, "honest", kind, i)
            yield Session(kind, f"{kind}-{i}", tuple(HONEST[kind](engine, rng)))
