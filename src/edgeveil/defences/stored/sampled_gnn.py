"""A GNN on a graph that stays in files: trained on batches of it, asked about a few nodes through their neighbourhoods.

The outputs of k layers at some nodes depend on the features within k hops of them and on the degrees there, on nothing
else. `part_adjacency` keeps exactly that: the edges among the nodes of a part, and for every node with edges out of it
one arc, as heavy as those edges are many, to a node that has no features and hears nobody. Row sums are then true
degrees, so that every normalisation is that of the whole graph, wherever the model's answers can depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.errors import InputError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.stored.graph_in_files import Neighbourhood, StoredGraph
from edgeveil.models.assemble import build
from edgeveil.models.network import Model
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure
from edgeveil.models.train import fit
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.seeds import derive, stream

__all__ = ["SampledGNN", "fit_on_samples", "part_adjacency"]

Int = NDArray[np.int64]
FITTED = 20_000  # training rows that the scaling is learnt from
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
        near, matrix = _near(graph, nodes, self.spec.layers, self.scaler)
        predictor = GraphPredictor(self.spec, self.model, part_adjacency(near.graph, near.degrees))
        release = Release(
            defence="none", guarantee=Guarantee(status="none", reason=UNPROTECTED), predictor=predictor,
            matrix=FeatureMatrix.wrap(matrix), model=self.spec.name, layers=self.spec.layers, dataset=graph.name,
            scaling=self.scaler.kind, contains_private_graph=True,
        )  # fmt: skip
        return np.searchsorted(near.nodes, np.asarray(nodes, np.int64)), release


def _near(graph: StoredGraph, nodes: Int, hops: int, scaler: Scaling) -> tuple[Neighbourhood, NDArray[np.float64]]:
    """A neighbourhood and its features, with a row of zeros for the last node of `part_adjacency`."""
    near = graph.neighbourhood(nodes, hops)
    rows = scaler.apply(_rows(graph, near.nodes)).toarray()
    return near, np.concatenate([rows, np.zeros((1, rows.shape[1]))])


def part_adjacency(part: Graph, degrees: Int) -> sp.csr_matrix:
    """The adjacency among a part's nodes, and one last node for all edges that leave the part."""
    n, missing = part.num_nodes, np.asarray(degrees) - part.degrees
    if (missing < 0).any():
        raise InputError(f"node {int(np.argmin(missing))} has more edges inside the part than in the whole graph")
    out = np.flatnonzero(missing)
    leaving = sp.csr_matrix((missing[out].astype(np.float32), (out, np.full(len(out), 0))), shape=(n, 1))
    return sp.bmat([[part.adjacency, leaving], [sp.csr_matrix((1, n)), None]], format="csr", dtype=np.float32)


def fit_on_samples(
    graph: StoredGraph, spec: ModelSpec, train: TrainSpec, *, batch: int = 500, rounds: int = 20, seed: int
) -> SampledGNN:
    """Train in mini-batches: `rounds` times, `train.epochs` steps on a fresh draw of `batch` training nodes.

    A batch comes with all that lies within as many hops as the model has layers, and with true degrees, so that its
    gradient is that of the whole graph for these nodes; memory is that of their neighbourhoods.
    """
    y, masks = graph.nodes.y, graph.nodes.masks
    if y is None or masks is None or not (masks.train & (y >= 0)).any():
        raise InputError(f"{graph.name} needs labelled training nodes: --labels, and a split")
    everyone = np.flatnonzero(masks.train & (y >= 0))
    fitted = np.sort(stream(seed, "scaling").permutation(everyone)[:FITTED])
    scaler = Scaling.fit("auto", _rows(graph, fitted))
    model: Model | None = None
    for turn in range(rounds):
        drawn = np.sort(stream(seed, "batch", turn).permutation(everyone)[:batch])
        near, x = _near(graph, drawn, spec.layers, scaler)
        model = model or build(spec, x.shape[1], graph.nodes.num_classes, seed=derive(seed, "model"))
        at, labels = np.searchsorted(near.nodes, drawn), np.zeros(len(x), np.int64)
        mask = np.zeros(len(x), bool)
        mask[at], labels[at] = True, y[drawn]
        structure, steps = Structure(part_adjacency(near.graph, near.degrees)), train.without_validation()
        fit(model, x, structure, labels, mask, None, steps, seed=derive(seed, "fit", turn))
    assert model is not None
    return SampledGNN(spec, model.eval(), scaler)


def _rows(graph: StoredGraph, nodes: Int) -> NDArray[np.float32]:
    if graph.table is None:
        raise InputError(f"{graph.name} has no features, and every model here needs them: --features")
    return graph.table.rows(nodes)
