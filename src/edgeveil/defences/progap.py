"""ProGAP at edge level: GAP that learns between its hops (Sajadmanesh and Gatica-Perez, WSDM 2024).

Training is progressive: after every hop a classifier learns from the encoding and the noisy sums so far, and the next
hop sums what it says of each node instead of the noisy sums themselves. Stored sums are never asked for again.

Sensitivity is GAP's, the root of 2 per hop for one undirected edge: whatever rows a hop sums, they are no longer than 1
and were computed from features, labels and noisy sums alone. The rows of a hop depend on the noise before it, which
adaptive composition of zero-concentrated differential privacy allows. With one hop it is GAP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from edgeveil.defences.defence import DEFENCES, Faces
from edgeveil.defences.gap import GAP, stage_classifier, unit_rows
from edgeveil.defences.job import Job
from edgeveil.defences.lpgnet.lpgnet_stack import Phase
from edgeveil.graph.features import FeatureMatrix
from edgeveil.models.spec import ModelSpec
from edgeveil.release.lpgnet_predictor import row_logits

__all__ = ["ProGAP"]

Float = NDArray[np.float64]


@DEFENCES.register("progap")
@dataclass(frozen=True, kw_only=True)
class ProGAP(GAP):
    """Gaussian noise on `hops` rounds of neighbour sums, with a classifier trained between them.

    As in `gap`, what is summed are class scores, not the paper's hidden layer.
    """

    hops: int = 2
    """How many stages sum over neighbours; every stage is a query."""

    reference: ClassVar[str] = "Sajadmanesh and Gatica-Perez, ProGAP, WSDM 2024, Algorithm 1 at edge level"
    faces: ClassVar[Faces] = {"progap": ("ProGAP", None)}

    def next_rows(self, job: Job, spec: ModelSpec, phases: Sequence[Phase], seen: Sequence[Float]) -> list[Float]:
        """Class scores of the stage's own classifier."""
        stage = stage_classifier(job, spec, seen[0], seen[1])
        return [unit_rows(row_logits(stage, FeatureMatrix.wrap(rows))) for rows in seen]
