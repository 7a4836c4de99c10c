"""Does a mechanism keep its claim? Empirical lower bounds on epsilon, beside the claimed one.

Hooks for authors of mechanisms. A class with ``perturb(graph, seed) -> Graph`` needs none of them. Others offer one
or both of the first two; what is missing is skipped, and a mechanism without any is refused.

``audit_outcomes(graph, runs, rng) -> sequence of hashables``
    `runs` independent outputs on a tiny graph, coarsened as much as helps (post-processing never hides a refutation).
    `rng` is a NumPy generator, or None for operating-system noise.
``canary_scores(graph, pairs, rng) -> array [m]``
    One output on a large graph, then a signed score per canary pair [2, m]: > 0 speaks for "edge", < 0 for "no edge",
    0 abstains; its size is the certainty. Log-likelihood ratios are best.
``canary_silence``
    Why `canary_scores` abstains from every canary, if it does; printed with the finding.
``audit_variant()``
    The mechanism to use on tiny graphs instead of itself, with the same claimed epsilon.
``audit_neighbours()``
    List of (label, graph, neighbour), where the default graphs do not suit (features needed, a worst case known).
``reachable(graph, outcome) -> bool``
    Whether an outcome of `audit_outcomes` has positive probability on a graph. An outcome seen on one neighbour and
    unreachable from the other refutes every finite epsilon at once.

The claim is ``mechanism_guarantee(None).claimed_epsilon`` (or the attribute ``epsilon``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.compact import edge_ranks, has_pairs
from edgeveil.graph.graph import Graph
from edgeveil.privacy.audit_bounds import likelihood_bound
from edgeveil.privacy.canaries import Canaries, audit_scores, plant, synthetic_graph
from edgeveil.seeds import stream

__all__ = [
    "Finding",
    "Verdict",
    "Verification",
    "claim",
    "judge",
    "likelihood_test",
    "neighbours",
    "one_run_test",
    "verify",
]

Verdict = Literal["consistent", "refuted", "inconclusive"]
Rng = np.random.Generator | None
POWERLESS = 0.1  # a bound below this share of the claim says nothing about the claim


class Finding(NamedTuple):
    """What one test proved."""

    test: str
    lower_bound: float
    detail: str


@dataclass(frozen=True)
class Verification:
    """All findings about one claim. The whole is wrong about a sound mechanism with probability <= 1 - confidence."""

    mechanism: str
    claimed: float
    confidence: float
    findings: tuple[Finding, ...]

    @property
    def lower_bound(self) -> float:
        """The best bound of any test; each test has its share of the error probability."""
        return max((f.lower_bound for f in self.findings), default=0.0)

    @property
    def verdict(self) -> Verdict:
        """See `judge`."""
        return judge(self.lower_bound, self.claimed)


def judge(lower_bound: float, claimed: float) -> Verdict:
    """Refuted above the claim; inconclusive if the tests had no power; otherwise consistent."""
    if lower_bound > claimed:
        return "refuted"
    return "consistent" if lower_bound >= POWERLESS * claimed else "inconclusive"


def verify(
    mechanism: Any,
    *,
    confidence: float = 0.99,
    runs: int = 20_000,
    canaries: int = 5_000,
    guesses: int | None = None,
    seed: int = 0,
    secure: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Verification:
    """Run every test that the mechanism offers. `secure` audits the operating-system noise instead of seeded noise."""
    claimed, delta = claim(mechanism)
    tests: list[Callable[[float], Finding]] = []
    if _offers(mechanism, "audit_outcomes"):
        tests.append(lambda miss: likelihood_test(mechanism, runs, miss, seed=seed, secure=secure, delta=delta))
    if _offers(mechanism, "canary_scores"):
        limit = canaries if guesses is None else guesses
        tests.append(lambda miss: one_run_test(mechanism, canaries, limit, miss, seed=seed, secure=secure, delta=delta))
    if not tests:
        raise InputError(
            f"{type(mechanism).__name__} cannot be verified on its own: it has neither perturb() nor the hooks "
            "audit_outcomes() and canary_scores(); audit a trained model with --through instead"
        )
    findings = []
    for test in tests:
        findings.append(test((1 - confidence) / len(tests)))
        progress(f"{findings[-1].test}: {findings[-1].detail}")
    return Verification(type(mechanism).__name__, claimed, confidence, tuple(findings))


def claim(mechanism: Any) -> tuple[float, float]:
    """Claimed epsilon and delta."""
    if hasattr(mechanism, "mechanism_guarantee"):
        guarantee = mechanism.mechanism_guarantee(None)
        epsilon, delta = guarantee.claimed_epsilon, guarantee.delta
    else:
        epsilon, delta = getattr(mechanism, "epsilon", None), 0.0
    if epsilon is None or not math.isfinite(epsilon):
        raise InputError(f"{type(mechanism).__name__} claims no epsilon, so there is nothing to verify")
    return float(epsilon), float(delta)


def _offers(mechanism: Any, hook: str) -> bool:
    return hasattr(mechanism, hook) or hasattr(mechanism, "perturb")


# -- small graphs -------------------------------------------------------------------------------------------------


def neighbours() -> list[tuple[str, Graph, Graph]]:
    """Neighbouring graphs on 4 to 6 nodes: sparse, in between and complete."""
    path = [(0, 1), (1, 2), (2, 3)]
    full = [(u, v) for u in range(5) for v in range(u)]
    return [
        ("4 nodes, path or broken path", _tiny(path, 4), _tiny([path[0], path[2]], 4)),
        ("5 nodes, complete or one edge less", _tiny(full, 5), _tiny(full[1:], 5)),
        ("6 nodes, one edge or none", _tiny([(0, 1)], 6), _tiny([], 6)),
    ]


def _tiny(edges: Sequence[tuple[int, int]], n: int) -> Graph:
    return Graph.from_edges(np.array(edges, np.int64).reshape(-1, 2).T, num_nodes=n, name=f"{n} nodes")


def likelihood_test(
    mechanism: Any, runs: int, miss: float, *, seed: int = 0, secure: bool = False, delta: float = 0.0
) -> Finding:
    """Sample outputs on neighbouring tiny graphs and bound the likelihood ratio of an event chosen beforehand."""
    chosen = mechanism.audit_variant() if hasattr(mechanism, "audit_variant") else mechanism
    cases = chosen.audit_neighbours() if hasattr(chosen, "audit_neighbours") else neighbours()
    best = Finding("small-graph likelihood test", 0.0, f"{runs:,} runs per graph, no event stands out")
    for number, (label, first, second) in enumerate(cases):
        samples = [
            outcomes(chosen, g, runs, None if secure else stream(seed, "small", number, side))
            for side, g in enumerate((first, second))
        ]
        for mine, other, target in ((0, 1, second), (1, 0, first)):
            stray = _unreachable(chosen, samples[mine], target)
            if stray:
                return best._replace(lower_bound=math.inf, detail=f"{label}: {stray}")
            bound, hits, rival = likelihood_bound(samples[mine], samples[other], miss / (2 * len(cases)), delta)
            if bound > best.lower_bound:
                detail = f"{label}: one event {hits:,} against {rival:,} times in {runs // 2:,} runs"
                best = best._replace(lower_bound=bound, detail=detail)
    return best


def outcomes(mechanism: Any, graph: Graph, runs: int, rng: Rng) -> Sequence[Hashable]:
    """Independent outputs; a perturbed graph is coded by the set of its pairs."""
    if hasattr(mechanism, "audit_outcomes"):
        given: Sequence[Hashable] = mechanism.audit_outcomes(graph, runs, rng)
        return given
    return [edge_ranks(mechanism.perturb(graph, seed=rng)).tobytes() for _ in range(runs)]


def _unreachable(mechanism: Any, seen: Sequence[Hashable], graph: Graph) -> str:
    if not hasattr(mechanism, "reachable"):
        return ""
    for outcome in set(seen):
        if not mechanism.reachable(graph, outcome):
            times = sum(o == outcome for o in seen)
            return f"output {outcome!r} occurs {times:,} times on one graph and cannot occur on its neighbour"
    return ""


# -- one run on a large graph ---------------------------------------------------------------------------------------


def one_run_test(
    mechanism: Any,
    canaries: int,
    limit: int,
    miss: float,
    *,
    seed: int = 0,
    secure: bool = False,
    delta: float = 0.0,
    graph: Graph | None = None,
) -> Finding:
    """Plant canaries in a synthetic graph, run the mechanism once, guess the coins."""
    planted = plant(graph or synthetic_graph(max(20_000, 2 * canaries + 100)), canaries, stream(seed, "canaries"))
    scores = canary_scores(mechanism, planted, None if secure else stream(seed, "release"))
    run = audit_scores(scores, planted.coins, limit=limit, miss=miss, rng=stream(seed, "guesses"), delta=delta)
    detail = f"{run.right:,} of {run.guesses:,} guesses right" if run.guesses else _silence(mechanism)
    return Finding("one-run audit", run.lower_bound, f"{run.canaries:,} canaries, {detail}")


def _silence(mechanism: Any) -> str:
    why = getattr(mechanism, "canary_silence", "")
    return f"no guess: {why}" if why else "no guess: the mechanism abstains from every canary"


def canary_scores(mechanism: Any, planted: Canaries, rng: Rng) -> NDArray[np.float64]:
    """Signed scores; for a perturbed graph simply whether the pair is an edge of it."""
    if hasattr(mechanism, "canary_scores"):
        return np.asarray(mechanism.canary_scores(planted.graph, planted.pairs, rng), np.float64)
    noisy = mechanism.perturb(planted.graph, seed=rng)
    return np.where(has_pairs(noisy, *planted.pairs), 1.0, -1.0)
