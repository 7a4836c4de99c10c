"""Not using the graph at all: perfectly private for edges, and the utility that any other defence must beat."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from edgeveil.defences.defence import DEFENCES, Defence, Faces, fit_model, make_release
from edgeveil.defences.job import Job
from edgeveil.defences.renewal import Renewal, Renewed, Snapshot
from edgeveil.models.presets import preset
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.registry import Places
from edgeveil.release.predictors import TabularPredictor
from edgeveil.release.release import Release

if TYPE_CHECKING:
    from edgeveil.defences.stored.stored_job import StoredJob

__all__ = ["FeatureOnly"]


@DEFENCES.register("mlp")
@dataclass(frozen=True)
class FeatureOnly(Defence):
    """An MLP on node features. Edges are never read, so epsilon is 0 whatever is released."""

    status: ClassVar[Status] = "sound"
    reference: ClassVar[str] = "Kolluri et al., LPGNet, ACM CCS 2022, section 5"
    faces: ClassVar[Faces] = {"mlp": ("MLP (no graph)", 1)}
    audited: ClassVar[Places] = {"mlp": 10}
    edge_free: ClassVar[Places] = {"mlp": 10}
    own_model: ClassVar[str | None] = "mlp"

    def release(self, job: Job) -> Release:
        """Train the MLP of the job's preset; a GNN asked for is replaced, an own model with a word about it."""
        started = time.perf_counter()
        own = not job.model.architecture.layered
        notes = (f"The defence mlp trains its own MLP: the model {job.model.name!r} is ignored",) if own else ()
        asked = preset("default", job.graph.dataset, "mlp").model if own else job.model
        spec = asked if asked.name == "mlp" else replace(asked, name="mlp")
        model = fit_model(job, spec, job.train_features, None)
        predictor = TabularPredictor(spec, model, job.inference.num_nodes)
        return make_release(self, job, predictor, self._claim(), seconds=time.perf_counter() - started, notes=notes)

    def release_stored(self, job: StoredJob) -> Release:
        """The same from blocks of rows; the edges' files are not opened."""
        from edgeveil.defences.stored.count_releases import release_mlp

        return release_mlp(self, job, self._claim())

    def _claim(self) -> Guarantee:
        return Guarantee(
            status="sound",
            claimed_epsilon=0.0,
            randomness="no noise is needed",
            reason="The model never reads an edge",
            reference=self.reference,
        )

    def renewal(self, seed: int | None = None) -> Renewal:
        """Free: only features are read, and they are public."""
        return Renewal(Fraction(0), _answer)


def _answer(snapshot: Snapshot) -> Renewed:
    old = snapshot.release.predictor
    assert isinstance(old, TabularPredictor)
    predictor = TabularPredictor(old.spec, old.model, snapshot.graph.num_nodes)
    return Renewed(predictor, snapshot.x, snapshot.release.guarantee)
