"""Edge-private graphs in a PyTorch Geometric pipeline: ``edgeveil.pyg.LapGraph(epsilon=8)`` is a transform.

    dataset = Planetoid(root, "Cora", pre_transform=edgeveil.pyg.LapGraph(epsilon=8))

The noisy graph is drawn once where it belongs, in `pre_transform`. As `transform` PyG calls it at every access, and
every call is another release that spends its epsilon again; a transform therefore refuses to answer for the same edges
twice unless it is seeded.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from edgeveil.defences.defence import EdgeMechanism
from edgeveil.defences.edgerand import EdgeRand as _EdgeRand
from edgeveil.defences.lapgraph import LapGraph as _LapGraph
from edgeveil.errors import BudgetExceeded, MissingExtra
from edgeveil.graph.pyg_data import from_pyg, to_pyg
from edgeveil.privacy.budget import exact

try:
    from torch_geometric.transforms import BaseTransform
except ImportError as _error:
    raise MissingExtra("PyTorch Geometric transforms", "pyg") from _error

__all__ = ["EdgeRand", "LapGraph", "Private"]

log = logging.getLogger("edgeveil")
PUBLIC = {
    "x", "y", "pos", "num_nodes", "node_ids", "class_names", "is_twin", "edge_index",
    *(f"{part}_{kind}" for part in ("train", "val", "test") for kind in ("mask", "idx")),
}  # fmt: skip


class Private(BaseTransform):  # type: ignore[misc]
    """A transform that replaces the edges by the mechanism's noisy ones and puts its `guarantee` on the `Data` object.

    ``seed=None`` draws private noise; a seeded transform is reproducible and not private. `keep` names further
    attributes that stay, as the caller's word that they are public.
    """

    def __init__(self, mechanism: EdgeMechanism, seed: int | None = None, keep: Iterable[str] = ()) -> None:
        self.mechanism, self.seed, self.keep = mechanism, seed, frozenset(keep)
        self._answered: set[str] = set()
        self._key, self._process = secrets.token_bytes(32), os.getpid()

    def forward(self, data: Any) -> Any:
        """A copy of the data with noisy edges; features, labels and masks stay, anything else might tell of edges."""
        graph = from_pyg(data)
        graph.check_public_nodes()
        claim = self.mechanism.mechanism_guarantee(self.seed)
        if self.seed is None:
            edges = hashlib.blake2b(graph.edge_index.tobytes(), key=self._key).hexdigest()
            self._charge(edges, claim.claimed_epsilon)
        noisy = self.mechanism.perturb(graph, seed=self.seed)
        out = data.clone()
        out.edge_index = to_pyg(replace(noisy, x=None, y=None)).edge_index
        dropped = sorted(set(out.keys()) - PUBLIC - self.keep)
        for name in dropped:
            del out[name]
        if dropped:
            log.warning("left out, as it might tell of edges (keep= if it is public): %s", ", ".join(dropped))
        out.guarantee = claim
        return out

    def _charge(self, edges: str, epsilon: float | None) -> None:
        """A second draw on the same edges would double what the guarantee on either says."""
        cost = exact(epsilon or 0.0)
        if os.getpid() != self._process:
            why = "drawing noise in another process, which cannot know what was drawn already (use pre_transform)"
            raise BudgetExceeded(cost, cost, cost, why)
        if edges in self._answered:
            raise BudgetExceeded(cost, cost, cost, "drawing noise for the same edges again (use pre_transform)")
        self._answered.add(edges)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mechanism!r})"


class LapGraph(Private):
    """The edges of `edgeveil.LapGraph`; parameters are its own, `seed` and `keep`."""

    def __init__(self, epsilon: float, *, seed: int | None = None, keep: Iterable[str] = (), **params: Any) -> None:
        super().__init__(_LapGraph(epsilon=epsilon, **params), seed, keep)


class EdgeRand(Private):
    """The edges of `edgeveil.EdgeRand`; parameters are its own, `seed` and `keep`."""

    def __init__(self, epsilon: float, *, seed: int | None = None, keep: Iterable[str] = (), **params: Any) -> None:
        super().__init__(_EdgeRand(epsilon=epsilon, **params), seed, keep)
