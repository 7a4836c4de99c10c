"""A GNN on a graph that stays in files: trained on samples of it, asked about a few nodes through their neighbourhoods.

The outputs of k layers at some nodes depend on the features within k hops of them and on the degrees there, on nothing
else. `part_adjacency` keeps exactly that: the edges among the nodes of a part, and for every node with edges out of it
one arc, as heavy as those edges are many, to a node that has no features and hears nobody. Row sums are then true
degrees, so that every normalisation is that of the whole graph, wherever the model's answers can depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.models.assemble import build
from edgeveil.models.network import Model
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure
from edgeveil.models.train import fit
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import derive

__all__ = ["SampledGNN", "Sampler", "fit_on_samples", "part_adjacency"]

Int = NDArray[np.int64]
Sampler = Callable[[StoredGraph, int, int], tuple[Int, Graph]]
"""(graph, number of nodes, seed) -> the nodes, and the graph among them."""
UNPROTECTED = "Trained on private edges without noise, and every answer reads them"


@dataclass(frozen=True, eq=False)
class SampledGNN:
    """A trained model and how features reach it."""

    spec: ModelSpec
    model: Model
    scaler: Scaling

    def around(self, graph: StoredGraph, nodes: Int) -> tuple[Int, Release]:
        """Answers near `nodes` as on the whole graph: a release of their neighbourhood, and where they stand in it.

        For attacks by the owner: it holds private edges. Its answers are those of the whole graph for `nodes` only.
        """
        near = graph.neighbourhood(nodes, self.spec.layers)
        matrix = self.scaler.apply(_rows(graph, near.nodes)).toarray()
        matrix = np.concatenate([matrix, np.zeros((1, matrix.shape[1]))])
        predictor = GraphPredictor(self.spec, self.model, part_adjacency(near.graph, near.degrees))
        release = Release(
            defence="none", guarantee=Guarantee(status="none", reason=UNPROTECTED), predictor=predictor,
            matrix=FeatureMatrix.wrap(matrix), model=self.spec.name, layers=self.spec.layers, dataset=graph.name,
            scaling=self.scaler.kind, contains_private_graph=True,
        )  # fmt: skip
        return np.searchsorted(near.nodes, np.asarray(nodes, np.int64)), release


def part_adjacency(part: Graph, degrees: Int) -> sp.csr_matrix:
    """The adjacency among a part's nodes, and one last node for all edges that leave the part."""
    n, missing = part.num_nodes, np.asarray(degrees) - part.degrees
    if (missing < 0).any():
        raise InputError(f"node {int(np.argmin(missing))} has more edges inside the part than in the whole graph")
    out = np.flatnonzero(missing)
    leaving = sp.csr_matrix((missing[out].astype(np.float32), (out, np.full(len(out), 0))), shape=(n, 1))
    return sp.bmat([[part.adjacency, leaving], [sp.csr_matrix((1, n)), None]], format="csr", dtype=np.float32)


def fit_on_samples(
    graph: StoredGraph, spec: ModelSpec, train: TrainSpec, sample: Sampler, *, size: int, seed: int, rounds: int = 1
) -> SampledGNN:
    """Train on `rounds` samples of `size` nodes, one after the other, each with the true degrees of its nodes.

    Training reads one sample at a time: memory is that of `size` nodes. What is lost are the edges that leave a sample.
    """
    model: Model | None = None
    scaler: Scaling | None = None
    for turn in range(rounds):
        nodes, part = sample(graph, size, derive(seed, "sample", turn))
        if part.y is None or part.masks is None or not part.masks.train.any():
            raise InputError(f"a sample of {size} nodes holds no training node; take a larger one, or give a split")
        degrees = graph.degrees_of(nodes)
        scaler = scaler or Scaling.fit("auto", part.x, rows=part.masks.train)
        x = np.concatenate([scaler.apply(part.x).toarray(), np.zeros((1, part.num_features))])
        model = model or build(spec, x.shape[1], part.num_classes, seed=derive(seed, "model"))
        val = part.masks.val if part.masks.val.any() else None
        masks = (None if mask is None else np.append(mask & (part.y >= 0), False) for mask in (part.masks.train, val))
        learn, judge = masks
        assert learn is not None
        fit(
            model, x, Structure(part_adjacency(part, degrees)), np.append(part.y, 0), learn, judge,
            train if judge is not None else train.without_validation(), seed=derive(seed, "training", turn),
        )  # fmt: skip
    assert model is not None and scaler is not None
    return SampledGNN(spec, model.eval(), scaler)


def _rows(graph: StoredGraph, nodes: Int) -> NDArray[np.float32]:
    if graph.table is None:
        raise InputError(f"{graph.name} has no features, and every model here needs them: --features")
    return graph.table.rows(nodes)
