"""What an attack is: a frozen set of parameters that turns a target and a view into scored pairs."""

from __future__ import annotations

import html
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.registry import Registry
from edgeveil.release.target import AttackerView, Target

__all__ = ["ATTACKS", "Access", "Attack", "AttackResult", "Scored", "assumed_by", "by_strength", "check_prior"]

Access = Literal["none", "black-box", "white-box"]
Int = NDArray[np.int64]
Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AttackResult:
    """Scores of node pairs, higher = more likely an edge, and what they cost.

    A whole-graph result is sparse: `unlisted` pairs are left out because all of them score at most `floor`. An attack
    that asserts edges gives them as `found` [2, m]; `certified` says that every decision was forced by sound rules, so
    that `found` is the stored graph. `undecided` pairs have a `probability` each.
    """

    pairs: Int
    scores: Float
    queries: int
    rows: int
    access: Access
    seconds: float
    attack: str
    params: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unlisted: int = 0
    floor: float = 0.0
    density: float | None = None
    found: Int | None = None
    certified: bool | None = None
    undecided: Int | None = None
    probability: Float | None = None

    @property
    def num_pairs(self) -> int:
        """All pairs the attack is about, listed or not."""
        return len(self.scores) + self.unlisted

    def top(self, count: int) -> Int:
        """Columns of the `count` best pairs, best first; ties in listed order."""
        return np.argsort(-self.scores, kind="stable")[:count]

    def predicted(self, density: float | None = None) -> Int:
        """The pairs [2, m] that Algorithm 1 calls edges: the ceil(belief x pairs) best ones."""
        belief = self.density if density is None else density
        if belief is None or not 0 <= belief <= 1:
            raise InputError(f"predicting edges needs a density belief in [0, 1], got {belief!r}; pass density=")
        out: Int = self.pairs[:, self.top(math.ceil(belief * self.num_pairs - 1e-9))]
        return out

    def rest(self, edges_in_total: int, edges_listed: int) -> tuple[int, int]:
        """(edges, non-edges) among the unlisted pairs: the `rest` argument of the metrics."""
        edges = edges_in_total - edges_listed
        return edges, self.unlisted - edges

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><td>{u} - {v}</td><td>{score:.4g}</td></tr>" for u, v, score in self._best(10))
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        head = "<tr><th scope='col'>pair</th><th scope='col'>score</th></tr>"
        return f"<p><b>{html.escape(repr(self))}</b></p><table>{head}{cells}</table>{notes}"

    def _best(self, count: int) -> list[tuple[int, int, float]]:
        return [(int(self.pairs[0, i]), int(self.pairs[1, i]), float(self.scores[i])) for i in self.top(count)]

    def __repr__(self) -> str:
        return f"AttackResult({self.attack}, {self.num_pairs:,} pairs, {self.queries} queries, {self.access})"


@dataclass(frozen=True, eq=False)
class Scored:
    """What an attack's own code returns; `Attack.run` adds costs and names."""

    scores: Float
    pairs: Int | None = None  # None: the view's pairs, in order
    access: Access = "black-box"
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    unlisted: int = 0
    floor: float = 0.0
    density: float | None = None  # a belief formed on the way; the view's own comes first
    found: Int | None = None
    certified: bool | None = None
    undecided: Int | None = None
    probability: Float | None = None


class Attack(ABC):
    """One published or new attack. Fields are its parameters; class facts say what it needs and how it works.

    `needs`: of "answers", "graded answers", "features", "stored graph", "stored counts", "mechanism" (its public
    law), "shadow graph", "known edges", "known non-edges" and "knowledge" (known edges or a shadow graph). `watches`:
    it moves a node's features and watches other nodes' answers, so it is blind where an answer depends on the node's
    own features alone, and needs features wherever no derivative is offered. `strength` orders attacks by what they
    find where they apply; with 0 an audit tries the attack only if it is named. `assumes` finishes the sentence
    "someone who ...". `each_node`: the parameters with which it asks one question per node;
    `saves_queries`: it asks fewer, as many as `queries` says.
    """

    reference: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()
    watches: ClassVar[bool] = False
    strength: ClassVar[int] = 0
    assumes: ClassVar[str] = ""
    calibrated: ClassVar[bool] = False  # scores are probabilities
    each_node: ClassVar[dict[str, Any] | None] = None
    saves_queries: ClassVar[bool] = False
    whole: ClassVar[bool] = False  # asks about the whole graph, whichever nodes matter

    @abstractmethod
    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Score the view's pairs."""

    @property
    def needed(self) -> frozenset[str]:
        """What this instance needs; a parameter may add to the class's needs."""
        return self.needs

    @property
    def assumed(self) -> str:
        """What the attacker is taken to have; a parameter may change it."""
        return self.assumes

    def run(self, target: Target, view: AttackerView, seed: int = 0) -> AttackResult:
        """Score the view's pairs and account for queries, rows and time."""
        self._check(target, view)
        queries, rows, started = target.queries, target.rows, time.perf_counter()
        got = self.score(target, view, seed)
        pairs = got.pairs
        if pairs is None:
            i, j = view.pair_positions()
            pairs = np.stack([view.nodes[i], view.nodes[j]])
        return AttackResult(
            pairs=pairs,
            scores=got.scores,
            queries=target.queries - queries,
            rows=target.rows - rows,
            access=got.access,
            seconds=time.perf_counter() - started,
            attack=_name(self),
            params={**asdict(self), **got.facts},  # type: ignore[call-overload]
            notes=got.notes,
            unlisted=got.unlisted,
            floor=got.floor,
            density=got.density if view.density is None else view.density,
            found=got.found,
            certified=got.certified,
            undecided=got.undecided,
            probability=got.probability,
        )

    def lacks(self, target: Target, view: AttackerView | None = None) -> str:
        """What the attack needs and does not get, in words; empty if it can run. No view: by the target alone."""
        needed, name = self.needed, _name(self)
        known = target.features if view is None else view.features
        for need, attribute, option in (
            ("shadow graph", "shadow", "shadow=, or --shadow GRAPH"),
            ("known edges", "known_edges", "known_edges=, or --knows 5%"),
            ("known non-edges", "known_non_edges", "known_non_edges="),
        ):
            if need in needed and getattr(view, attribute, None) is None:
                return f"{name} needs {need}; pass {option}"
        if "stored graph" in needed and target.stored_graph is None:
            return (
                f"{name} reads the graph that a release keeps, and this target shows none (it keeps statistics "
                "or no edges at all, or it is a black box)"
            )
        if "stored counts" in needed and target.stored_counts is None:
            return (
                f"{name} reads the noisy neighbour counts that a release keeps, and this target shows none (it "
                "keeps a graph or no edges at all, it was made before the noise was recorded, or it is a black box)"
            )
        if "features" in needed and known is None:
            return f"{name} needs the nodes' features; pass features= (model space, one row per node)"
        if "graded answers" in needed and target.answer_kind == "labels":
            return f"{name} needs logits or probabilities, but this target answers labels only; use linkteller-labels"
        return ""

    def idle(self, target: Target) -> str:
        """Why an audit need not try it on this target although it could run; empty if it should."""
        del target
        return ""

    def _check(self, target: Target, view: AttackerView) -> None:
        if reason := self.lacks(target, view):
            raise InputError(reason)


CALL = (
    "name", "nodes", "seed", "density", "pairs", "features", "known_edges", "known_non_edges", "shadow",
    "controlled_features",
)  # fmt: skip
ATTACKS: Registry[Attack] = Registry("attack", "edgeveil.attacks", "edgeveil.attacks", reserved=CALL)


def check_prior(prior: float | None, view: AttackerView) -> None:
    """A prior is a probability, and belongs to pairs that were asked for one by one."""
    if prior is None:
        return
    if not 0 < prior < 1:
        raise InputError(f"prior must lie between 0 and 1, got {prior!r}")
    if view.pairs is None:
        raise InputError("prior= is about the pairs that are asked for; pass pairs=")


def by_strength() -> tuple[str, ...]:
    """Attacks that an audit tries wherever they apply, the strongest first; it reports the first of equals."""
    tried = [entry for entry in ATTACKS if entry.cls.strength]
    return tuple(e.name for e in sorted(tried, key=lambda e: (-e.cls.strength, e.name)))


def assumed_by(name: str) -> str:
    """What the attacker is taken to have: finishes the sentence "someone who ..."."""
    return (ATTACKS.create(name).assumed if name in ATTACKS else "") or "asks nothing, compares features"


def _name(attack: Attack) -> str:
    """The registered name that fits best: a preset that the attack matches, else its class's own."""
    fits = [e for e in ATTACKS if e.cls is type(attack) and all(getattr(attack, k) == v for k, v in e.preset.items())]
    return max(fits, key=lambda e: len(e.preset)).name if fits else type(attack).__name__.lower()
