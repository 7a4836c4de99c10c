"""What one can have without touching an edge: a GNN on the public feature graph, mixed with an MLP under a guard."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from edgeveil.defences.defence import DEFENCES, Defence, Faces, make_release
from edgeveil.defences.job import Job
from edgeveil.defences.renewal import Renewal, Renewed, Snapshot
from edgeveil.defences.veil.edge_free import alone, fit_edge_free, judged, moved
from edgeveil.errors import InputError
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.registry import Places
from edgeveil.release.release import Release
from edgeveil.values import is_whole

__all__ = ["FeatureGraph"]


@DEFENCES.register("feature-graph")
@dataclass(frozen=True, kw_only=True)
class FeatureGraph(Defence):
    """Every node hears the `neighbours` nodes whose features resemble its own most. No edge is read: epsilon is 0.

    On validation nodes the mixture must beat the MLP by more than one standard error, else the MLP alone answers.
    """

    neighbours: int = 15

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "edgeveil: the edge-free baseline of docs/defences.md"
    faces: ClassVar[Faces] = {"feature-graph": ("feature graph", 9)}
    audited: ClassVar[Places] = {"feature-graph": 20}
    edge_free: ClassVar[Places] = {"feature-graph": 20}

    def __post_init__(self) -> None:
        if not is_whole(self.neighbours) or self.neighbours < 1:
            raise InputError(f"neighbours must be a whole number >= 1, got {self.neighbours!r}")

    def release(self, job: Job) -> Release:
        """Train on features and labels alone."""
        started = time.perf_counter()
        held = judged(job)
        base = fit_edge_free(held, self.neighbours)
        guarantee = Guarantee(
            status="sound",
            claimed_epsilon=0.0,
            randomness="no noise is needed",
            reason="Neighbours are chosen by public features; the model never reads an edge",
            reference=self.reference,
        )
        return make_release(
            self, job, alone(job, held, base), guarantee, seconds=time.perf_counter() - started,
            notes=base.notes,
        )  # fmt: skip

    def renewal(self, seed: int | None = None) -> Renewal:
        """Free: the feature graph of the new nodes is as public as their features."""
        return Renewal(Fraction(0), self._answer)

    def _answer(self, snapshot: Snapshot) -> Renewed:
        predictor = moved(snapshot.release.predictor, snapshot.x, self.neighbours)
        return Renewed(predictor, snapshot.x, snapshot.release.guarantee)
