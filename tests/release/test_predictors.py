"""Predictors state what their answers depend on; what is unknown is asked by queries and never taken for private."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import edgeveil as ev
from edgeveil.attacks.linkteller import BLIND, BY_QUERIES
from edgeveil.errors import InputError, StorageError
from edgeveil.models.architectures import MODELS
from edgeveil.models.assemble import build
from edgeveil.models.gcn import GCNLayer
from edgeveil.models.influence import has_influence, influence
from edgeveil.models.spec import ModelSpec
from edgeveil.release.mixture_predictor import MixturePredictor
from edgeveil.release.predictors import PREDICTORS, Predictor


class Averages(Predictor):
    """Each node's answer is the mean of its own and its neighbours' features: it mixes rows and says nothing of it."""

    kind = "averages"

    def __init__(self, matrix: sp.csr_matrix) -> None:
        self.matrix = matrix
        self.num_nodes, self.num_outputs = matrix.shape[0], 3

    def logits(self, x: Any) -> Any:
        rows = np.asarray(x.toarray(), np.float64)
        return self.matrix @ (rows @ np.cos(np.arange(3 * rows.shape[1])).reshape(-1, 3))

    def induced(self, nodes: Any) -> Averages:
        return Averages(self.matrix[nodes][:, nodes].tocsr())

    def state(self) -> Any:
        return {}, {}, {"dense": self.matrix.toarray()}

    @classmethod
    def from_state(cls, settings: Any, weights: Any, structure: Any) -> Averages:
        return cls(sp.csr_matrix(structure["dense"]))


@pytest.fixture
def mixed(toy: ev.Graph) -> ev.Release:
    release = ev.defend(toy, "mlp", model="mlp", seed=0)
    return replace(release, predictor=Averages((toy.adjacency + sp.identity(toy.num_nodes)).tocsr()))


def test_who_mixes_rows_without_influence_is_asked_by_queries(toy: ev.Graph, mixed: ev.Release) -> None:
    assert not mixed.offers_influence
    with pytest.raises(InputError, match="offers no exact influence"):
        mixed.influence()
    found = ev.attack(mixed, "linkteller", nodes=np.arange(30))
    truth = toy.has_edges(*found.pairs)
    assert found.access == "black-box" and found.queries > 30
    assert ev.metrics.ranking(found.scores, truth)["auc"] > 0.99
    assert BY_QUERIES in found.notes and BLIND not in found.notes
    with pytest.raises(InputError, match="no exact influence"):
        ev.attack(mixed, "linkteller", mode="exact", nodes=np.arange(30))


def test_only_who_declares_rows_apart_is_blind(toy: ev.Graph) -> None:
    release = ev.defend(toy, "mlp", model="mlp", seed=0)
    assert release.predictor.rowwise and release.offers_influence and release.influence([0, 1]).nnz == 0
    assert BY_QUERIES not in ev.attack(release, "linkteller", nodes=np.arange(10)).notes


def test_a_mixture_offers_what_its_parts_do(toy: ev.Graph, mixed: ev.Release) -> None:
    rows = ev.defend(toy, "mlp", model="mlp", seed=0).predictor
    gnn = ev.defend(toy, "none", seed=0).predictor
    assert MixturePredictor([rows, rows], [1, 1]).rowwise
    assert MixturePredictor([rows, gnn], [1, 1]).offers_influence
    for parts in ([rows, mixed.predictor], [gnn, gnn]):
        mixture = MixturePredictor(parts, [1, 1])
        assert not mixture.rowwise and not mixture.offers_influence
    with pytest.raises(InputError, match="offers no exact influence"):
        MixturePredictor([gnn, gnn], [1, 1]).influence(mixed.matrix, np.arange(2), np.arange(2))


def test_a_layer_of_somebody_else_has_no_known_derivative(toy: ev.Graph) -> None:
    class Doubled(GCNLayer):
        def forward(self, x: Any, structure: Any) -> Any:
            return 2 * super().forward(x, structure)

    model = build(ModelSpec(), 4, 2, seed=0)
    assert has_influence(model)
    model.layers[0] = Doubled(4, 16, norm="aug")
    assert not has_influence(model)
    with pytest.raises(InputError, match="no exact influence for a Doubled"):
        influence(model, None, toy.adjacency, np.arange(2))  # type: ignore[arg-type]


def test_an_unregistered_predictor_names_the_remedy_and_a_registered_one_reloads(
    mixed: ev.Release, tmp_path: Path
) -> None:
    mixed.save(tmp_path / "r")
    with pytest.raises(StorageError, match=r"unknown predictor 'averages'.*--plugin FILE\.py"):
        ev.Release.load(tmp_path / "r")
    PREDICTORS.register("averages")(Averages)
    assert np.array_equal(ev.Release.load(tmp_path / "r").predict(), mixed.predict())


def test_models_are_registered_with_their_facts() -> None:
    assert {"gcn", "mlp", "sage", "gat"} <= set(MODELS.names())
    assert [e.name for e in MODELS if e.cls.rowwise] == ["mlp"] and [e.name for e in MODELS if e.cls.samples] == [
        "sage"
    ]
    assert ModelSpec(name="transformer").has_skip and not ModelSpec(name="gcn").has_skip
    with pytest.raises(InputError, match=r"unknown model 'gnc'.*'gcn'"):
        ModelSpec(name="gnc")
