"""No defence: the model is trained on the private graph and answers with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgeveil.defences.defence import DEFENCES, Defence, Faces, train_gnn
from edgeveil.defences.job import Job, cut
from edgeveil.privacy.guarantee import Guarantee, Status
from edgeveil.registry import Places
from edgeveil.release.release import Release

__all__ = ["Undefended"]


@DEFENCES.register("none")
@dataclass(frozen=True)
class Undefended(Defence):
    """The unprotected baseline. Saving it keeps the private graph, because answering needs it."""

    status: ClassVar[Status] = "none"
    reference: ClassVar[str] = "Wu et al., LinkTeller, IEEE S&P 2022, section III"
    faces: ClassVar[Faces] = {"none": ("no defence", 0)}
    audited: ClassVar[Places] = {"none": 0}

    def release(self, job: Job) -> Release:
        """Train and answer on the true edges."""
        train = job.graph
        if job.setting == "inductive-evolving":
            train = cut(job.inference, job.train_mask)
        reason = "The model was trained on the private graph and answers with it, without any noise"
        guarantee = Guarantee(status="none", reason=reason, reference=self.reference)
        return train_gnn(self, job, train, job.inference, guarantee, contains_private_graph=True)
