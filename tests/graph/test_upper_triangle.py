from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.graph import pairs, upper_triangle
from edgeveil.graph.upper_triangle import UpperBuilder, degrees, edge_ranks, has_pairs, propagate, row_starts
from zoo import bare


@given(st.integers(1, 40), st.floats(0, 1), st.integers(1, 7), st.integers(0, 99))
def test_builder_gives_the_same_graph_as_all_ranks_at_once(n: int, share: float, pieces: int, seed: int) -> None:
    total = pairs.num_pairs(n)
    graph = bare(n, int(share * total), seed)
    builder = UpperBuilder(n)
    for piece in np.array_split(graph.edge_ranks, pieces):
        builder.add(piece)
    built = graph.with_upper(*builder.finish())
    assert built == graph
    assert built.indices.dtype == np.int32
    assert (edge_ranks(graph) == graph.edge_ranks).all()


def test_row_starts_are_the_ranks_of_first_pairs() -> None:
    starts = row_starts(6)
    u = np.arange(5)
    assert (starts[:5] == pairs.rank(u, u + 1, 6)).all() and starts[-1] == starts[-2] == 15


@pytest.mark.parametrize("edges", [0, 1, 200, 780])
def test_blockwise_results_equal_the_whole(edges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upper_triangle, "CHUNK", 17)
    graph = bare(40, edges)
    x = np.random.default_rng(1).random((40, 3))
    assert np.allclose(propagate(graph, x), graph.adjacency @ x)
    assert (degrees(graph) == graph.degrees).all()
    u, v = np.triu_indices(40, 1)
    assert (has_pairs(graph, u, v) == graph.has_edges(u, v)).all()
