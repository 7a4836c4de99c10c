"""Answers of several models at once: a weighted sum of their logits, which is a log-linear mixture of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.release.predictors import PREDICTORS, Arrays, Logits, Predictor, predictor_from_state
from edgeveil.release.readout_predictor import StoredPredictor
from edgeveil.release.target import StoredCounts

__all__ = ["MixturePredictor"]


@PREDICTORS.register("mixture")
class MixturePredictor(Predictor):
    """sum_i weights[i] logits_i. At most one part may let a node's answer depend on other nodes' features."""

    kind = "mixture"

    def __init__(self, parts: Sequence[Predictor], weights: Sequence[float]) -> None:
        if len(parts) != len(weights) or not parts:
            raise InputError(f"a mixture needs one weight per model, got {len(parts)} models, {len(weights)} weights")
        self.parts, self.weights = tuple(parts), tuple(float(w) for w in weights)
        self.num_nodes, self.num_outputs = parts[0].num_nodes, parts[0].num_outputs
        self.rowwise = all(part.rowwise for part in parts)
        self.stores_rows = any(part.stores_rows for part in parts)
        self.stores_counts = any(isinstance(part, StoredPredictor) and part.noise is not None for part in parts)

    def logits(self, x: FeatureMatrix) -> Logits:
        return self._sum(x, self.parts)

    def _sum(self, x: FeatureMatrix, chosen: Sequence[Predictor]) -> Logits:
        out = np.zeros((x.shape[0], self.num_outputs))
        for part, weight in zip(self.parts, self.weights, strict=True):
            if part in chosen:
                out += weight * part.logits(x)
        return out

    def stored_counts(self, x: FeatureMatrix) -> tuple[StoredCounts, ...]:
        """Evidence of counts over the classes of all other parts, which were its clusters but for training nodes."""
        kept = [part for part in self.parts if isinstance(part, StoredPredictor) and part.noise is not None]
        if not kept:
            return ()
        clusters = self._sum(x, [part for part in self.parts if part not in kept]).argmax(axis=1)
        return tuple(part.noise.on(part.values, clusters, evidence=True) for part in kept if part.noise is not None)

    def induced(self, nodes: NDArray[np.int64]) -> MixturePredictor:
        return MixturePredictor([part.induced(nodes) for part in self.parts], self.weights)

    def influence(
        self,
        x: FeatureMatrix,
        nodes: NDArray[np.int64],
        targets: NDArray[np.int64],
        move: Any = None,
        along: Any = None,
    ) -> sp.csr_matrix:
        """Between different nodes only the part that mixes rows answers; its norms scale with its weight."""
        if sum(not part.rowwise for part in self.parts) > 1:
            return super().influence(x, nodes, targets, move, along)
        found = [w * p.influence(x, nodes, targets, move, along) for p, w in zip(self.parts, self.weights, strict=True)]
        total = sum(found[1:], start=found[0]).tocsr()
        return (total - total.multiply(_same(nodes, targets))).tocsr()

    @property
    def stored_graph(self) -> sp.csr_matrix | None:
        """Of the first part that keeps one: what was heard of edges stands before what is public."""
        return next((part.stored_graph for part in self.parts if part.stored_graph is not None), None)

    @property
    def offers_influence(self) -> bool:
        """Norms of two mixing parts do not add up, so at most one may mix rows."""
        mixing = [part for part in self.parts if not part.rowwise]
        return not mixing or (len(mixing) == 1 and mixing[0].offers_influence)

    def state(self) -> tuple[dict[str, Any], Arrays, Arrays]:
        settings: list[dict[str, Any]] = []
        weights: Arrays = {}
        structure: Arrays = {}
        for i, (part, weight) in enumerate(zip(self.parts, self.weights, strict=True)):
            own, arrays, places = part.state()
            settings.append({"kind": part.kind, "weight": weight, "settings": own})
            weights |= {f"{i}/{name}": value for name, value in arrays.items()}
            structure |= {f"{i}/{name}": value for name, value in places.items()}
        return {"parts": settings}, weights, structure

    @classmethod
    def from_state(cls, settings: dict[str, Any], weights: Arrays, structure: Arrays) -> MixturePredictor:
        parts = [
            predictor_from_state(part["kind"], part["settings"], _own(weights, i), _own(structure, i))
            for i, part in enumerate(settings["parts"])
        ]
        return cls(parts, [part["weight"] for part in settings["parts"]])


def _same(nodes: NDArray[np.int64], targets: NDArray[np.int64]) -> sp.csr_matrix:
    """1 where a row and a column are the same node."""
    _, i, j = np.intersect1d(nodes, targets, return_indices=True)
    return sp.csr_matrix((np.ones(len(i)), (i, j)), shape=(len(nodes), len(targets)))


def _own(arrays: Arrays, number: int) -> Arrays:
    mark = f"{number}/"
    return {name.removeprefix(mark): value for name, value in arrays.items() if name.startswith(mark)}
