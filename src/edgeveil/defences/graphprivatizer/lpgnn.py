"""LPGNN: private features and labels, edges as they are. GraphPrivatizer with epsilon = infinity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgeveil.defences.defence import DEFENCES, Faces
from edgeveil.defences.graphprivatizer.local import LPGNN, Lists, LocalMechanism
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.privacy.guarantee import SECURE, SEEDED, Guarantee, Status
from edgeveil.privacy.noise import Noise
from edgeveil.seeds import Seed

__all__ = ["LocallyPrivateGNN"]


@DEFENCES.register("lpgnn")
@dataclass(frozen=True, kw_only=True)
class LocallyPrivateGNN(LocalMechanism):
    """Multi-bit features, randomised labels, KProp and Drop on the true graph. Saving it keeps the private graph."""

    status: ClassVar[Status] = "none"
    reference: ClassVar[str] = LPGNN
    faces: ClassVar[Faces] = {"lpgnn": ("LPGNN", None)}

    @property
    def hides_edges(self) -> bool:
        """Never."""
        return False

    def lists(self, graph: Graph, features: FeatureMatrix, noise: Noise) -> Lists:
        """The true lists."""
        return graph.adjacency, {}

    def mechanism_guarantee(self, seed: Seed = None) -> Guarantee:
        """None for edges, sound ones for features and labels."""
        return Guarantee(
            status="none",
            reason="The neighbour lists are used as they are; only features and labels are noisy",
            randomness=SECURE if seed is None else SEEDED,
            also=self.node_guarantees(seed),
            reference=self.reference,
        )
