"""The attack on releases that store noisy counts (LPGNet, veil-counts): white box, no question asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgeveil.attacks.attack import ATTACKS, Attack, Scored, check_prior
from edgeveil.attacks.counts.beliefs import infer
from edgeveil.attacks.counts.levels import PairLevels, unit_rows
from edgeveil.attacks.counts.likelihood import as_counts
from edgeveil.errors import InputError, TooLarge
from edgeveil.release.target import AttackerView, Target
from edgeveil.seeds import stream

__all__ = ["CountInference"]

MOST = 32_000  # nodes; a byte per ordered pair is then one gigabyte
PAIRS = 500_000
EVIDENCE = "the release keeps evidence of its counts, not counts; they are guessed from it, so probabilities are rough"
NO_FEATURES = "no features are known, so only counts and classes speak"


@ATTACKS.register("count-inference")
@dataclass(frozen=True, kw_only=True)
class CountInference(Attack):
    """P(edge) of every pair given the stored noisy counts, their public law, similar features and classes.

    `rounds` of belief propagation and EM. Known edges are taken off the counts. `prior`: probability of the asked
    `pairs` before anything is read, whatever their features say (1/2 for pairs that coins decided); with known edges
    besides, everything but the asked pairs is known, as differential privacy allows. `keep`: how many best pairs a
    whole-graph run lists (default 20 per node).
    """

    rounds: int = 6
    prior: float | None = None
    keep: int | None = None

    reference: ClassVar[str] = "this package; belief propagation on the statistics of LPGNet (Kolluri et al. 2022)"
    strength: ClassVar[int] = 5
    calibrated: ClassVar[bool] = True
    assumes: ClassVar[str] = "holds the release, knows the law of its noise and every node's features"
    needs: ClassVar[frozenset[str]] = frozenset({"stored counts", "mechanism"})

    def score(self, target: Target, view: AttackerView, seed: int) -> Scored:
        """Weigh all pairs of the graph, report the view's."""
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, got {self.rounds!r}")
        check_prior(self.prior, view)
        n = target.num_nodes
        if n > MOST:
            raise TooLarge(f"count-inference weighs all pairs of at most {MOST:,} nodes, got {n:,}")
        assert target.stored_counts is not None
        given = target.stored_counts()
        stored = tuple(map(as_counts, given))
        whole = len(view.nodes) == n
        features = view.features if whole and view.features is not None else target.features
        unit = None if features is None else unit_rows(features)
        if unit is not None and whole and features is view.features:
            unit = unit[np.argsort(view.nodes)]
        marked = None if self.prior is None else view.pairs
        odds = 0.0 if self.prior is None else math.log(self.prior / (1 - self.prior))
        rng = stream(seed, "attack", "count-inference")
        levels = PairLevels(unit, stored[0].clusters, rng, marked, odds, view.known_edges)
        beliefs = infer(levels, stored, self.rounds, view.known_edges)
        facts = {"queries_stored": len(stored), "law": stored[0].law, "scale": stored[0].scale}
        told = ((NO_FEATURES, unit is None), (EVIDENCE, any(s.evidence for s in given)))
        notes = tuple(note for note, holds in told if holds)
        if view.whole_graph:
            count = len(view.nodes)
            total = count * (count - 1) // 2
            keep = min(20 * count if self.keep is None else self.keep, total)
            best, pairs = beliefs.best(view.nodes, keep)
            floor = float(best.min(initial=0.0)) if len(best) < total else 0.0
            return Scored(best, pairs, "white-box", notes, facts, total - len(best), floor)
        i, j = view.pair_positions()
        parts = [slice(a, a + PAIRS) for a in range(0, max(len(i), 1), PAIRS)]
        scores = np.concatenate([beliefs.of_pairs(view.nodes[i[p]], view.nodes[j[p]]) for p in parts])
        return Scored(scores, access="white-box", notes=notes, facts=facts)
