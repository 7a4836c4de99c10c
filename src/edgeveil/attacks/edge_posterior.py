"""One calibrated probability per pair, through the noise of a published graph.

The noisy graph (read from the release, or recovered by flatroot) gives one bit per pair, whose law is public. What else
speaks for an edge (similar features, noisy neighbours in common) is weighed by EM on all pairs: no edge need be known.
Bits are independent given the edges, so a pair's neighbours say nothing about its own coin. Predicted classes are left
out: a model trained on the noisy graph makes pairs that only the noise joined agree, which would count a bit twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from edgeveil.attacks.attack import ATTACKS, Attack, Scored, check_prior
from edgeveil.attacks.flatroot import FlatRoot
from edgeveil.attacks.noise_law import Law, law_of
from edgeveil.errors import InputError, TooLarge, UnknownNameError
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["EdgePosterior"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
TAIL = 1 - np.array([1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5])
SAMPLE = 400_000
BLOCK = 2**23
MOST = 30_000  # nodes: all pairs are weighed
ROUNDS = 300
RIDGE = 2.0
NO_LAW = (
    "edge-posterior needs the public law of the mechanism (none, edgerand, lapgraph), and this target's is {}; use "
    "stored-graph or flatroot"
)
NO_GRAPH = "no noisy graph could be recovered, so only the features speak"


@ATTACKS.register("edge-posterior")
@dataclass(frozen=True, kw_only=True)
class EdgePosterior(Attack):
    """`source` of the noisy graph: ``stored`` (white box), ``questions`` (flatroot's), ``auto`` prefers stored.

    `prior`: probability of the asked `pairs` before their bits are seen, whatever their features say (1/2 for pairs
    that coins decided). `keep`: how many best pairs a whole-graph run lists (default 20 per node).
    """

    source: str = "auto"
    prior: float | None = None
    keep: int | None = None

    reference: ClassVar[str] = "this package; Bayes through the public law of the mechanism, prior fitted by EM"
    strength: ClassVar[int] = 5
    calibrated: ClassVar[bool] = True
    assumes: ClassVar[str] = "holds the release, knows the law of its noise and every node's features"
    needs: ClassVar[frozenset[str]] = frozenset({"mechanism"})

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Weigh all pairs among the view's nodes."""
        check_prior(self.prior, view)
        count = len(view.nodes)
        if count > MOST:
            raise TooLarge(
                f"edge-posterior weighs all pairs of at most {MOST:,} nodes, got {count:,}; name fewer nodes"
            )
        noisy, access, notes = self._noisy(target, view, seed)
        facts = _Facts(view, noisy)
        pairs, shown = target.num_nodes * (target.num_nodes - 1) // 2, int(sp.triu(noisy, 1).nnz)
        law = law_of(target.mechanism, shown, pairs)
        assert law is not None
        density = min(max((shown / pairs - law.false) / (law.kept - law.false), 1 / pairs), 0.5)
        weights: Any = None
        if law.false > 0 or law.kept < 1:
            given = self.prior
            weights = facts.fit(law, density, seed) if given is None else [np.array([np.log(given / (1 - given))])]
        told = {"law": law.source, "kept": law.kept, "false": law.false}
        return self._report(facts, law, weights, view, access, notes, told)

    def lacks(self, target: Target, view: AttackerView | None = None) -> str:
        """Also the law of the mechanism."""
        if law_of(target.mechanism, 1, 2) is None:
            return NO_LAW.format((target.mechanism or {}).get("name", "not described"))
        return super().lacks(target, view)

    def idle(self, target: Target) -> str:
        """Without noise there is nothing to see through, and a black box would be asked as flatroot asks it."""
        law = law_of(target.mechanism, 1, 2)
        if law is not None and law.false == 0:
            return "no noise to see through"
        return "" if target.stored_graph is not None else "the noisy graph must be recovered by flatroot first"

    def _noisy(self, target: Target, view: AttackerView, seed: int) -> tuple[Any, Any, tuple[str, ...]]:
        if self.source not in ("auto", "stored", "questions"):
            raise UnknownNameError("source of edge-posterior", self.source, ("auto", "stored", "questions"))
        if self.source == "stored" and target.stored_graph is None:
            raise InputError("this target shows no stored graph; use source='questions'")
        n = target.num_nodes
        if self.source != "questions" and target.stored_graph is not None:
            kept = sp.csr_matrix(target.stored_graph(), dtype=np.float64)
            kept.data = np.ones(kept.nnz)
            return ((kept + kept.T) > 0).astype(np.float64).tocsr(), "white-box", ()
        whole = AttackerView(nodes=np.arange(n), features=None, whole_graph=True)
        found = FlatRoot(mode="query").run(target, whole, seed).found if target.answer_kind != "labels" else None
        if found is None or not found.size:
            return sp.csr_matrix((n, n)), "black-box", (NO_GRAPH,)
        ones = np.ones(2 * found.shape[1])
        ends = (np.r_[found[0], found[1]], np.r_[found[1], found[0]])
        return sp.csr_matrix((ones, ends), shape=(n, n)), "black-box", ()

    def _report(
        self, facts: _Facts, law: Law, weights: Any, view: AttackerView, access: Any, notes: Any, told: Any
    ) -> Scored:
        if not view.whole_graph:
            if view.pairs is None:
                value = np.concatenate([facts.posterior(bit, e, law, weights) for _, _, bit, e in facts.blocks()])
            else:
                value = facts.posterior(*facts.of_pairs(*view.pair_positions()), law, weights)
            return Scored(value, access=access, notes=notes, facts=told)
        n = len(view.nodes)
        total = n * (n - 1) // 2
        keep = min(20 * n if self.keep is None else self.keep, total)
        best, ends = np.empty(0), np.empty((2, 0), np.int64)
        for i, j, bit, evidence in facts.blocks():
            value = facts.posterior(bit, evidence, law, weights)
            best, ends = np.r_[best, value], np.concatenate([ends, np.stack([i, j])], axis=1)
            if len(best) > keep:
                top = np.sort(np.argpartition(-best, keep - 1)[:keep])
                best, ends = best[top], ends[:, top]
        floor = float(best.min(initial=0.0)) if len(best) < total else 0.0
        return Scored(best, view.nodes[ends], access, notes, told, total - len(best), floor)


class _Facts:
    """Bits and evidence of all pairs among the view's nodes: noisy neighbours in common, similarity."""

    def __init__(self, view: AttackerView, noisy: Any) -> None:
        self._nodes = view.nodes
        n = len(view.nodes)
        rows = noisy[view.nodes]
        self._bits = rows[:, view.nodes].tocsr()
        degree = np.maximum(np.asarray(noisy.sum(axis=0)).ravel(), 1)
        self._common = (rows @ sp.diags(1 / np.log(1 + degree)) @ rows.T).tocsr()
        self._unit: Any = None
        if view.features is not None:
            x = view.rows(np.arange(n)).astype(np.float32)
            size = np.linalg.norm(x, axis=1, keepdims=True)
            self._unit = x / np.maximum(size, 1e-12)
        self._cuts: list[Float] = []

    def blocks(self) -> Iterator[tuple[Int, Int, Float, list[Float]]]:
        """All pairs i < j, some rows at a time."""
        n = len(self._nodes)
        step = max(1, BLOCK // max(n, 1))
        for start in range(0, n, step):
            rows = np.arange(start, min(start + step, n))
            later = np.arange(n)[None, :] > rows[:, None]
            i, j = rows[np.nonzero(later)[0]], np.nonzero(later)[1]
            yield i, j, *self._rows(rows, later)

    def _rows(self, rows: Int, which: Any) -> tuple[Float, list[Float]]:
        """Bits and evidence of the pairs of some rows that `which` [rows, n] selects."""
        evidence = [self._common[rows].toarray()[which]]
        if self._unit is not None:
            evidence.append((self._unit[rows] @ self._unit.T)[which].astype(np.float64))
        return self._bits[rows].toarray()[which], evidence

    def of_pairs(self, i: Int, j: Int) -> tuple[Float, list[Float]]:
        """Bits and evidence of the given pairs."""
        if not len(i):
            return np.empty(0), [np.empty(0)] * (1 + (self._unit is not None))
        bit, common = (np.asarray(m[i, j], np.float64).ravel() for m in (self._bits, self._common))
        evidence = [common]
        if self._unit is not None:
            parts = [
                np.einsum("ij,ij->i", self._unit[a], self._unit[b]) for a, b in zip(_split(i), _split(j), strict=True)
            ]
            evidence.append(np.concatenate(parts).astype(np.float64))
        return bit, evidence

    def _sample(self, seed: int) -> tuple[Float, list[Float]]:
        n = len(self._nodes)
        rng = stream(seed, "attack", "edge-posterior")
        rows = np.sort(rng.choice(n, min(n, max(1, SAMPLE // n)), replace=False))
        return self._rows(rows, np.arange(n)[None, :] != rows[:, None])

    def fit(self, law: Law, density: float, seed: int) -> list[Float]:
        """Log-odds of the prior, one effect per level of each kind of evidence, by EM on counts of pairs per cell."""
        _, sample = self._sample(seed)
        self._cuts = [_cuts(values) for values in sample]
        shape = tuple(len(c) + 1 for c in self._cuts)
        total, shown = np.zeros(shape), np.zeros(shape)
        for _, _, bit, evidence in self.blocks():
            cell = np.ravel_multi_index(self._levels(evidence), shape)
            total += np.bincount(cell, minlength=total.size).reshape(shape)
            shown += np.bincount(cell, weights=(bit > 0) * 1.0, minlength=total.size).reshape(shape)
        return _em(total, shown, law, density, self._expected(sample))

    def _expected(self, sample: list[Float]) -> Float:
        """Effects believed before any bit is seen: alike pairs are likelier, by the root of how rare that is."""
        parts = [np.zeros(1)]
        for kind, (cuts, values) in enumerate(zip(self._cuts, sample, strict=True)):
            above = np.array([1.0, *((values >= c).mean() for c in cuts)])
            lift = -0.5 * np.log(np.maximum(above, 1 / len(values)))
            parts.append(lift if kind else np.zeros(len(lift)))
        return np.concatenate(parts)

    def _levels(self, evidence: list[Float]) -> tuple[Int, ...]:
        return tuple(np.searchsorted(c, e, side="right") for c, e in zip(self._cuts, evidence, strict=True))

    def posterior(self, bit: Float, evidence: list[Float], law: Law, weights: Any) -> Float:
        """P(edge | bit, evidence)."""
        if weights is None:
            return np.asarray(bit > 0, np.float64)
        odds = np.full(len(bit), float(weights[0][0]))
        for effect, level in zip(weights[1:], self._levels(evidence) if weights[1:] else (), strict=True):
            odds += effect[level]
        fine = 1e-6 * sum(np.argsort(np.argsort(e)) / max(len(e), 1) for e in evidence[1:])
        ratio = np.where(bit > 0, law.kept / max(law.false, 1e-300), (1 - law.kept) / (1 - law.false))
        with np.errstate(over="ignore"):
            out: Float = 1 / (1 + np.exp(-np.clip(odds + np.log(np.maximum(ratio, 1e-300)), -700, 700)))
        return out if len(weights) == 1 else np.minimum(out * (1 + fine), 1.0)


def _split(values: Int) -> list[Int]:
    return np.array_split(values, max(1, len(values) // 200_000))


def _cuts(values: Float) -> Float:
    """Levels at the quantiles of a sample, fine in the upper tail; two levels for a yes or no."""
    out: Float = np.unique(np.quantile(values, TAIL[1:]))
    return out[out > values.min()] if len(out) else out


def _em(total: Float, shown: Float, law: Law, density: float, expected: Float) -> list[Float]:
    """Additive log-odds [constant, effects ...] that make the expected counts of shown pairs fit.

    The density follows from the number of shown pairs and is held; effects never fall from one level to the next: more
    alike is never less likely.
    """
    design = _design(total.shape)
    many, seen = total.ravel(), shown.ravel()
    weights = expected.copy()
    weights[0] = np.log(density / (1 - density))
    weights[0] += _shift(design @ weights, many, density)
    for _ in range(ROUNDS):
        prior = 1 / (1 + np.exp(-np.clip(design @ weights, -50, 50)))
        rate = prior * law.kept + (1 - prior) * law.false
        edges = seen * prior * law.kept / np.maximum(rate, 1e-300)
        edges += (many - seen) * prior * (1 - law.kept) / np.maximum(1 - rate, 1e-300)
        step = _newton(design, many, edges, prior, weights - expected)
        last, weights = weights, _rising(weights + step, total)
        weights[0] += _shift(design @ weights, many, density)
        if np.abs(weights - last).max() < 1e-6:
            break
    return [weights[:1], *np.split(weights[1:], np.cumsum(total.shape)[:-1])]


def _rising(weights: Float, total: Float) -> Float:
    """Effects made monotone, each kind of evidence by itself, levels weighed by their pairs."""
    out, at = weights.copy(), 1
    for axis, size in enumerate(total.shape):
        mass = total.sum(axis=tuple(k for k in range(total.ndim) if k != axis)) + 1.0
        out[at : at + size] = isotonic_regression(out[at : at + size], weights=np.sqrt(mass)).x
        at += size
    return out


def _shift(odds: Float, many: Float, density: float) -> float:
    """The constant that makes the mean prior equal the density."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = (many / (1 + np.exp(-np.clip(odds + middle, -60, 60)))).sum() / many.sum()
        low, high = (middle, high) if mean < density else (low, middle)
    return low


def _design(shape: tuple[int, ...]) -> Float:
    """One indicator per level of each kind of evidence, and a constant."""
    grid = np.stack(np.unravel_index(np.arange(int(np.prod(shape))), shape), axis=1)
    parts = [np.ones((len(grid), 1))]
    parts += [np.asarray(grid[:, k][:, None] == np.arange(size), np.float64) for k, size in enumerate(shape)]
    return np.concatenate(parts, axis=1)


def _newton(design: Float, many: Float, edges: Float, prior: Float, surprise: Float) -> Float:
    """One step of logistic regression on expected counts, with a ridge on what the effects differ from belief."""
    ridge = np.r_[0.0, np.full(design.shape[1] - 1, RIDGE)] + 1e-9
    hessian = (design * (many * prior * (1 - prior))[:, None]).T @ design + np.diag(ridge)
    gradient = design.T @ (edges - many * prior) - ridge * surprise
    out: Float = np.clip(np.linalg.solve(hessian, gradient), -2, 2)
    return out
