from __future__ import annotations

import numpy as np
import pytest
import torch

from edgeveil.errors import TooLarge
from edgeveil.graph.graph import Graph
from edgeveil.graph.pairs import num_pairs, sample_distinct
from edgeveil.graph.sparse import NORMALISATIONS
from edgeveil.models.assemble import build
from edgeveil.models.kernels.triangle_products import TriangleStructure
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure


def graph(n: int = 50, e: int = 140) -> Graph:
    """Random, with some isolated nodes."""
    empty = Graph.from_edges(np.empty((2, 0), np.int64), num_nodes=n + 5)
    return empty.with_edge_ranks(sample_distinct(num_pairs(n), e, np.random.default_rng(0)))


@pytest.mark.parametrize("kind", sorted(NORMALISATIONS))
def test_products_and_gradients_equal_those_of_the_stored_matrix(kind: str) -> None:
    g = graph()
    x = torch.randn(g.num_nodes, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(g.num_nodes, 3, dtype=torch.float64)
    results = []
    for structure in (Structure(g.adjacency), TriangleStructure(g)):
        out = structure.matrix(kind) @ x
        (gradient,) = torch.autograd.grad((out * weights).sum(), x)
        results.append((out.detach(), gradient, structure.matrix(kind).row_sums(torch.float64)))
    for stored, triangle in zip(*results, strict=True):
        assert torch.allclose(stored, triangle, atol=1e-12)


@pytest.mark.parametrize("name", ["gcn", "sage", "graphconv"])
def test_models_give_the_same_logits(name: str) -> None:
    g = graph()
    model = build(ModelSpec(name=name), 4, 3, seed=0).double().eval()
    x = torch.randn(g.num_nodes, 4, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(model(x, model.prepare(g.adjacency)), model(x, model.prepare(TriangleStructure(g))))


def test_attention_is_refused_with_the_way_out() -> None:
    g = graph()
    model = build(ModelSpec(name="gat"), 4, 3, seed=0).double()
    with pytest.raises(TooLarge, match="GraphSAGE"):
        model(torch.randn(g.num_nodes, 4, dtype=torch.float64), TriangleStructure(g))
