"""Questions alone against releases that store statistics of neighbourhoods (LPGNet, veil-counts).

Such a model answers from a node's own features and from what is stored about its neighbours. Asked with all features
zero, nodes differ by what is stored alone: a node with many neighbours in class c leans to c. An edge makes i lean to
the class of j and j to the class of i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.attacks.attack import ATTACKS, Attack, Scored
from edgeveil.attacks.lsa2 import best_pairs, block_ends, pair_distance, posteriors, rows_of_pairs
from edgeveil.attacks.probing import resolution
from edgeveil.errors import InputError
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["FlatAnswers"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]
REFERENCE = 200_000  # pairs that say how rare a score is
DIGITS = 9  # so that equal distances, computed in different orders, rank equal
ALIKE = "asked with equal features, all nodes answer alike: nothing is stored about them, and only features speak"


@ATTACKS.register("flat-answers")
@dataclass(frozen=True, kw_only=True)
class FlatAnswers(Attack):
    """How rare so similar features are, plus kappa times how rare so much mutual leaning is, in logarithms.

    Kappa (Cohen 1960) is the agreement, beyond chance, of the classes that nodes lean to with those they are given
    when asked as usual: noise that hides the neighbours' classes lets the features speak alone. `keep`: how many best
    pairs a whole-graph run lists (default 20 per node).
    """

    keep: int | None = None

    reference: ClassVar[str] = "this package; one flat question to stored statistics, by ranks with features"
    strength: ClassVar[int] = 2
    assumes: ClassVar[str] = "sets all features once and sees every node's answer twice"
    needs: ClassVar[frozenset[str]] = frozenset({"graded answers", "features"})

    def idle(self, target: Target) -> str:
        """A model at hand that stores nothing about a node reads its neighbours, where others see more, or none."""
        at_hand = target.influence is not None or target.stored_graph is not None
        return "the release stores nothing about single nodes" if at_hand and not target.stores_rows else ""

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Two questions, then ranks of the view's pairs among pairs drawn from its nodes."""
        if view.controlled_features is not None:
            raise InputError("flat-answers sets whole feature rows; drop controlled_features=, or use linkteller")
        classes = posteriors(target, view.nodes).argmax(axis=1)
        lean = _leaning(target.query(features=_nothing(target)), target.answer_kind)[view.nodes]
        kappa = agreement(lean.argmax(axis=1), classes) if np.abs(lean).max() > 0 else 0.0
        ranks = _Ranks(view.rows(np.arange(len(view.nodes))), lean, classes, kappa, stream(seed, "flat-answers"))
        notes = () if np.abs(lean).max() > 0 else (ALIKE,)
        facts = {"kappa": round(kappa, 4)}
        if view.whole_graph:
            found = best_pairs(ranks.blocks(), view, self.keep, "black-box", notes)
            return Scored(found.scores, found.pairs, "black-box", found.notes, facts, found.unlisted, found.floor)
        if view.pairs is None:
            return Scored(np.concatenate([block for _, block in ranks.blocks()]), notes=notes, facts=facts)
        return Scored(ranks.of_pairs(*view.pair_positions()), notes=notes, facts=facts)


class _Ranks:
    """Scores by how rare they are among the pairs of some nodes."""

    def __init__(self, features: Float, lean: Float, classes: Int, kappa: float, rng: np.random.Generator) -> None:
        self._features, self._lean, self._classes, self._kappa = features, lean, classes, kappa
        n = len(lean)
        every = n * (n - 1) // 2 <= REFERENCE
        i, j = np.triu_indices(n, 1) if every else _drawn(n, rng)
        alike = np.concatenate([part for _, part in self._all_alike()]) if every else self._likeness(i, j)
        self._alike, self._mutual = np.sort(alike), np.sort(self._leaning(i, j))

    def of_pairs(self, i: Int, j: Int) -> Float:
        """Scores of the given pairs."""
        return self._combined(self._likeness(i, j), self._leaning(i, j))

    def blocks(self) -> Iterator[tuple[int, Float]]:
        """Scores of all pairs i < j, some rows at a time."""
        for start, alike in self._all_alike():
            yield start, self._combined(alike, self._leaning(*block_ends(len(self._lean), start)))

    def _all_alike(self) -> Iterator[tuple[int, Float]]:
        """Likeness of all pairs i < j, some rows at a time."""
        for start, distance in rows_of_pairs(self._features, "correlation"):
            yield start, -np.round(distance, DIGITS)

    def _likeness(self, i: Int, j: Int) -> Float:
        return -np.round(pair_distance(self._features, i, j, "correlation"), DIGITS)

    def _leaning(self, i: Int, j: Int) -> Float:
        out: Float = self._lean[i, self._classes[j]] + self._lean[j, self._classes[i]]
        return out

    def _combined(self, alike: Float, mutual: Float) -> Float:
        return _rarity(self._alike, alike) + self._kappa * _rarity(self._mutual, mutual)


def agreement(one: Int, other: Int) -> float:
    """Cohen's kappa of two labellings, never below 0."""
    kinds = int(max(one.max(), other.max())) + 1
    chance = float((np.bincount(one, minlength=kinds) * np.bincount(other, minlength=kinds)).sum()) / len(one) ** 2
    return max(0.0, (float((one == other).mean()) - chance) / (1 - chance)) if chance < 1 else 0.0


def _rarity(ordered: Float, scores: Float) -> Float:
    above = len(ordered) - np.searchsorted(ordered, scores, side="left")
    return np.asarray(-np.log((above + 0.5) / (len(ordered) + 1)), np.float64)


def _drawn(n: int, rng: np.random.Generator) -> tuple[Int, Int]:
    i, step = rng.integers(0, n, REFERENCE), rng.integers(1, n, REFERENCE)
    return i, (i + step) % n


def _nothing(target: Target) -> Any:
    """Features of zero for every node, in the form that the target's own have."""
    shape = (target.num_nodes, target.num_features or target.features.shape[1])
    return np.zeros(shape) if isinstance(target.features, np.ndarray) else sp.csr_matrix(shape)


def _leaning(answer: Float, kind: str) -> Float:
    """Centred logits, or centred logarithms of probabilities, beyond the mean of all nodes; 0 if all answer alike."""
    grain = resolution(answer)
    log = answer if kind == "logits" else np.log(answer + (grain.step if grain.rounded else 1e-300))
    out: Float = log - log.mean(axis=1, keepdims=True)
    out = out - out.mean(axis=0)
    least = 0.0 if grain.rounded else 10 * grain.step
    return out if np.abs(out).max(initial=0.0) > least else np.zeros_like(out)
