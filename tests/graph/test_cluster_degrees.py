"""Cluster-degree vectors: right, of sensitivity 2, linear in edges, and the same from a file in chunks."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.errors import GraphError, StorageError
from edgeveil.graph import cluster_degrees as module
from edgeveil.graph.cluster_degrees import (
    SENSITIVITY,
    cluster_degrees,
    cluster_degrees_from_file,
    local_cluster_degrees,
)
from edgeveil.graph.edge_chunks import edge_chunks, simple_chunks
from edgeveil.graph.graph import Graph
from tries import tries


def random_graph(n: int, edges: int, seed: int = 0) -> tuple[Graph, np.ndarray]:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, n, (2, edges))
    raw = raw[:, raw[0] != raw[1]]
    raw = np.unique(np.sort(raw, axis=0), axis=1)
    return Graph.from_edges(raw, num_nodes=n), raw


@settings(max_examples=tries(50), deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 40), st.integers(0, 1000))
def test_equals_adjacency_times_one_hot(n: int, clusters: int, edges: int, seed: int) -> None:
    graph, _ = random_graph(n, edges, seed)
    labels = np.random.default_rng(seed).integers(0, clusters, n)
    assert np.array_equal(cluster_degrees(graph, labels, clusters), graph.adjacency @ np.eye(clusters)[labels])


@pytest.mark.fast("2", "4")
@pytest.mark.parametrize("n", [2, 4, 5])
def test_one_edge_changes_the_whole_matrix_by_exactly_two(n: int) -> None:
    """Every single-edge edit of every graph on n nodes (sampled for n = 5), every clustering into two clusters."""
    pairs = list(itertools.combinations(range(n), 2))
    rng = np.random.default_rng(0)
    subsets = range(2 ** len(pairs)) if n < 5 else rng.choice(2 ** len(pairs), 40, replace=False)
    changes = set()
    for code, labels in itertools.product(subsets, itertools.product(range(2), repeat=n)):
        present = [p for i, p in enumerate(pairs) if code >> i & 1]
        counts = [_counts(present, labels, n)] + [_counts(set(present) ^ {p}, labels, n) for p in pairs]
        changes |= {int(np.abs(counts[0] - other).sum()) for other in counts[1:]}
    assert changes == {SENSITIVITY}


def _counts(edges: object, labels: tuple[int, ...], n: int) -> np.ndarray:
    array = np.array(sorted(edges), np.int64).reshape(-1, 2).T  # type: ignore[call-overload]
    return cluster_degrees(Graph.from_edges(array, num_nodes=n), np.array(labels), 2)


def test_blocks_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = random_graph(50, 300)
    labels = np.arange(50) % 3
    whole = cluster_degrees(graph, labels, 3)
    for size in (1, 7, 64):
        monkeypatch.setattr(module, "CHUNK", size)
        assert np.array_equal(cluster_degrees(graph, labels, 3), whole)


@pytest.mark.parametrize("style", ["sorted.npy", "transposed.npy", "messy.npy", "edges.csv", "edges.txt"])
@pytest.mark.parametrize("chunk", [1, 9, 10_000])
def test_file_in_chunks_equals_the_graph(tmp_path: Path, style: str, chunk: int) -> None:
    graph, raw = random_graph(40, 150)
    labels = np.random.default_rng(1).integers(0, 3, 40)
    messy = np.concatenate([raw[::-1], raw[:, ::2], np.array([[3, 3], [3, 3]]).T.reshape(2, -1)], axis=1)
    messy = messy[:, np.random.default_rng(2).permutation(messy.shape[1])]
    path = tmp_path / style
    if style.endswith("npy"):
        np.save(path, {"sorted": raw, "transposed": raw.T.copy(), "messy": messy}[path.stem])
    elif style.endswith("csv"):
        path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in messy.T))
    else:
        path.write_text("# comment\n" + "".join(f"{u}\t{v}\n" for u, v in messy.T).rstrip("\n"))
    found = cluster_degrees_from_file(path, labels, 3, chunk=chunk)
    assert np.array_equal(found, cluster_degrees(graph, labels, 3))


def test_chunks_stay_small_whatever_the_order() -> None:
    _, raw = random_graph(200, 3000)
    shuffled = raw[:, np.random.default_rng(0).permutation(raw.shape[1])]
    sizes = [len(u) for u, _ in simple_chunks(lambda: iter([tuple(shuffled)]), 200, chunk=100)]
    assert sum(sizes) == raw.shape[1] and max(sizes) <= 200


def test_bad_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    labels = np.zeros(3, int)
    with pytest.raises(StorageError, match="no edge file"):
        cluster_degrees_from_file(tmp_path / "none.csv", labels, 2)
    for text, why in (
        ("0,1\n1,9\n", "names node 9"),
        ("0 1 5\n1 2 5\n", "two node numbers"),
        ("0,1\nx,2\n", "not two whole"),
    ):
        path = tmp_path / "bad.csv"
        path.write_text(text)
        with pytest.raises(GraphError, match=why):
            cluster_degrees_from_file(path, labels, 2)
    np.save(tmp_path / "bad.npy", np.zeros((3, 3)))
    with pytest.raises(GraphError, match="integer array"):
        list(edge_chunks(tmp_path / "bad.npy"))


def test_labels_must_name_a_cluster_for_every_node() -> None:
    graph, _ = random_graph(5, 6)
    for labels in (np.zeros(4, int), np.full(5, 3), np.full(5, -1), np.zeros(5)):
        with pytest.raises(GraphError, match="clusters"):
            cluster_degrees(graph, labels, 3)


def test_local_rows_are_the_central_matrix() -> None:
    graph, _ = random_graph(30, 100)
    labels = np.arange(30) % 4
    local = np.stack([local_cluster_degrees(graph.neighbours(v), labels, 4) for v in range(30)])
    assert np.array_equal(local, cluster_degrees(graph, labels, 4))
