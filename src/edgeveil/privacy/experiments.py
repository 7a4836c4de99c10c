"""What a mechanism offers to `edgeveil.privacy.verify`: its claim, and experiments that could refute it.

A mechanism is `Auditable` if it has two methods. Its experiments run the noise stage that its releases run: the same
budget split, streams, layers and phases, with training left out, because training is post-processing. There are three
kinds. `Coins`: one output, in which coins decided about many edges (Steinke, Nasr and Jagielski 2023).
`Neighbours`: many outputs on two graphs that differ in one edge. `Rounds`: many outputs, each with fresh coins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgeveil.graph.graph import Graph
from edgeveil.privacy.audit_bounds import guess_bound, mean_bound, views_bound
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.seeds import derive, stream

__all__ = [
    "Auditable",
    "Claim",
    "Coins",
    "Effort",
    "Experiment",
    "Finding",
    "Neighbours",
    "OtherUnit",
    "Rounds",
    "Sight",
    "Stated",
    "Views",
]

Int = NDArray[np.int64]
Tick = Callable[[float], None]
Views = Mapping[str, Sequence[Hashable]]


class Claim(NamedTuple):
    """What is to be tested: (epsilon, delta) for one unit. `note` is said with the verdict.

    gaussian: the claim is a whole curve, that of Gaussian noise which reaches (epsilon, delta). At a small delta the
    point itself shows only in outputs that never come up, so neighbours and rounds are judged by the curve: a shift mu
    seen in them is reported as the epsilon of such noise at this delta.
    """

    epsilon: float
    delta: float
    unit: str
    note: str = ""
    gaussian: bool = False

    def of_shift(self, mu: float) -> float:
        """Epsilon at this delta of Gaussian noise with shift mu."""
        from edgeveil.privacy.gaussian import analytic_epsilon

        return float(analytic_epsilon(mu**2, self.delta)) if mu > 0 else 0.0

    def of_share(self, right: float) -> float:
        """Epsilon at this delta of the weakest promise under which that share of fair coins can be guessed.

        A coin of a mechanism with shift mu is guessed with chance Phi(mu/2) at most, one of an (epsilon, delta)-DP
        mechanism with chance (e^epsilon + delta)/(1 + e^epsilon), whatever its noise couples.
        """
        from scipy.special import ndtri

        if self.gaussian:
            return self.of_shift(2 * float(ndtri(right)))
        return math.log((right - self.delta) / (1 - right)) if 2 * right > 1 + self.delta else 0.0


@dataclass(frozen=True)
class Effort:
    """How hard to look, and at which noise.

    runs: outputs per neighbouring graph. canaries: coins per planted graph. secure: the operating-system noise of real
    releases; else the seeded noise of experiments. graph: plant coins in this graph as well.
    """

    runs: int = 20_000
    canaries: int = 50_000
    seed: int = 0
    secure: bool = True
    graph: Graph | None = None

    @property
    def rounds(self) -> int:
        """Outputs with fresh coins in each."""
        return max(1_000, self.runs // 10)

    def rng(self, *path: str | int) -> np.random.Generator:
        """The auditor's own randomness (coins, halves), apart from the mechanism's noise."""
        return stream(self.seed, "auditor", *path)

    def noise_seed(self, *path: str | int) -> int | None:
        """Seed of the audited mechanism's noise; None is the secure source."""
        return None if self.secure else derive(self.seed, "audited", *path)


class Finding(NamedTuple):
    """What one experiment proved, and the largest epsilon that it could have shown.

    `named` pairs were said to be edges, `named_right` of them rightly (planted pairs only).
    """

    test: str
    lower_bound: float
    detail: str
    ceiling: float = 0.0
    named: int = 0
    named_right: int = 0


class Stated(NamedTuple):
    """The epsilon and delta that came with an output, where they are put together at run time (a renewal)."""

    epsilon: float = math.inf
    delta: float = math.inf

    @classmethod
    def of(cls, guarantee: Guarantee) -> Stated:
        """What a guarantee states, in its own unit."""
        claimed = guarantee.claimed_epsilon
        return cls(0.0 if claimed is None else float(claimed), guarantee.delta)

    def least(self, other: Stated) -> Stated:
        """The smaller of both statements."""
        return Stated(min(self.epsilon, other.epsilon), min(self.delta, other.delta))

    def shortfall(self, claim: Claim) -> str:
        """Why less is stated than what was asked costs, beyond the last digits; empty if it is not."""
        for word, said, cost in (("epsilon", self.epsilon, claim.epsilon), ("delta", self.delta, claim.delta)):
            if said < cost * (1 - 1e-9):
                return f"the output states {word} {said:g}, but what was asked costs {cost:g}"
        return ""


class Sight(NamedTuple):
    """One output with planted coins: how each coin fell, codes read off the output, public groups of coins.

    stated: what came with the output; less than the tested claim is a fault in itself.
    """

    coins: NDArray[np.bool_]
    views: Mapping[str, Int]
    strata: Sequence[Int] = ()
    stated: Stated = Stated()


class Experiment(Protocol):
    """One test of a claim."""

    @property
    def name(self) -> str:
        """What is looked at."""
        ...

    def run(self, miss: float, claim: Claim, effort: Effort, tick: Tick) -> Finding:
        """The finding; its bound is wrong with probability at most `miss`. `tick` gets the finished share."""
        ...


@dataclass(frozen=True)
class Coins:
    """`look` plants coins, runs the noise stage once and reads codes off what it released.

    inserted: whether a coin inserts one edge, so that a guess names an edge; else it chooses between two others.
    """

    name: str
    look: Callable[[], Sight]
    inserted: bool = True

    def run(self, miss: float, claim: Claim, effort: Effort, tick: Tick) -> Finding:
        """Guess half of the coins by a rule learnt on the other half."""
        seen = self.look()
        if short := seen.stated.shortfall(claim):
            return Finding(self.name, math.inf, short, math.inf)
        found = guess_bound(seen.views, seen.strata, seen.coins, miss, effort.rng("halves", self.name), claim.delta)
        how = f"by the {found.view}" if found.guesses else "nothing to guess by"
        detail = f"{found.right:,} of {found.guesses:,} guesses right among {found.tested:,} coins, {how}"
        tick(1.0)
        named = (found.named, found.named_right) if self.inserted else (0, 0)
        return Finding(self.name, found.lower_bound, detail, found.ceiling, *named)


@dataclass(frozen=True)
class Neighbours:
    """`sample(side, count)` gives codes of `count` fresh outputs on the first (0) or second (1) of two neighbours.

    `reachable(side, code)`, where known, says whether a code of the view "output" has positive probability there: one
    that is seen on a graph and impossible on its neighbour refutes every finite epsilon at once. `stated()`, asked
    after the last output, is what came with them.
    """

    name: str
    sample: Callable[[int, int], Views]
    reachable: Callable[[int, Hashable], bool] | None = None
    stated: Callable[[], Stated] = Stated

    def run(self, miss: float, claim: Claim, effort: Effort, tick: Tick) -> Finding:
        """Bound the likelihood ratio of an event that the first half of the outputs chooses."""
        seen: tuple[dict[str, list[Hashable]], dict[str, list[Hashable]]] = ({}, {})
        step = max(2, math.ceil(effort.runs / 20))
        for start in range(0, effort.runs, step):
            for side in (0, 1):
                for view, codes in self.sample(side, min(step, effort.runs - start)).items():
                    seen[side].setdefault(view, []).extend(codes)
            tick(min(1.0, (start + step) / effort.runs))
        found = views_bound(*seen, miss, claim.delta, gaussian=claim.gaussian)
        read = claim.of_shift if claim.gaussian else float
        stray = self._unreachable(seen) or self.stated().shortfall(claim)
        if stray:
            return Finding(self.name, math.inf, stray, math.inf)
        times = f"{found.hits:,} against {found.hits_other:,} times" if found.hits else "no event stands out"
        detail = f"{times} in {found.trials:,} runs each, by the {found.view}"
        return Finding(self.name, read(found.lower_bound), detail, read(found.ceiling))

    def _unreachable(self, seen: Sequence[Views]) -> str:
        if self.reachable is None:
            return ""
        for side in (0, 1):
            for code in set(seen[side]["output"]):
                if not self.reachable(1 - side, code):
                    times = sum(c == code for c in seen[side]["output"])
                    return f"output {code!r} occurs {times:,} times on one graph and cannot occur on its neighbour"
        return ""


@dataclass(frozen=True)
class Rounds:
    """`play()` throws fresh coins, runs the noise stage on them and says which share each view guesses right.

    The expected share is bounded whatever the noise couples, and independent rounds bound the expectation. So the
    middle of a trade-off curve is seen, where Gaussian noise is told from half of it; `Coins` and a small delta only
    see its far end.
    """

    name: str
    play: Callable[[], Mapping[str, float]]

    def run(self, miss: float, claim: Claim, effort: Effort, tick: Tick) -> Finding:
        """The first quarter of the rounds chooses the view, the others bound its share."""
        shares: dict[str, list[float]] = {}
        for number in range(effort.rounds):
            for view, share in self.play().items():
                shares.setdefault(view, []).append(share)
            tick((number + 1) / effort.rounds)
        looks = effort.rounds // 4
        view = max(shares, key=lambda v: sum(shares[v][:looks]))
        tested = shares[view][looks:]
        detail = f"{np.mean(tested):.2%} of the coins in {len(tested):,} rounds guessed right, by the {view}"
        bound, most = (claim.of_share(mean_bound(seen, miss)) for seen in (tested, [1.0] * len(tested)))
        return Finding(self.name, bound, detail, most)


@dataclass(frozen=True)
class OtherUnit:
    """An experiment on a promise in another unit, such as a node's features, that comes with the tested claim.

    Its epsilon does not compare with the claim's. A bound above its own promise refutes the whole; one that saw too
    little of it leaves the whole without power.
    """

    promise: Claim
    inner: Experiment

    @property
    def name(self) -> str:
        """What is looked at."""
        return self.inner.name

    def run(self, miss: float, claim: Claim, effort: Effort, tick: Tick) -> Finding:
        """The inner finding, as infinite or as nothing."""
        found, own = self.inner.run(miss, self.promise, effort, tick), self.promise.epsilon
        said = f"{found.detail}: at least {found.lower_bound:.2f} of {own:g} for {self.promise.unit}"
        if found.lower_bound > own:
            return Finding(self.name, math.inf, said, math.inf)
        enough = own <= found.ceiling and 2 * found.lower_bound >= own
        return Finding(self.name, 0.0, said, math.inf if enough else 0.0)


@runtime_checkable
class Auditable(Protocol):
    """A mechanism whose claim can be tested."""

    def audit_claim(self) -> Claim:
        """The claim; `InputError` where there is none."""
        ...

    def experiments(self, effort: Effort) -> Sequence[Experiment]:
        """Experiments on the noise stage of a release, the most telling first; together they see every way out."""
        ...
