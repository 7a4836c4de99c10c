"""Noisy edges streamed from files have the law of those drawn in memory, and are charged and written once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from edgeveil.defences.edgerand import EdgeRand
from edgeveil.defences.graphprivatizer.gp_sound import BucketResponse
from edgeveil.defences.lapgraph import LapGraph
from edgeveil.defences.stored import streamed_noise
from edgeveil.defences.stored.perturb_stored import perturb_stored
from edgeveil.errors import InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.graph.stored.graph_in_files import StoredGraph, open_graph
from edgeveil.graph.stored.heavy_tailed import HeavyTailed
from edgeveil.privacy.ledger import open_ledger


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredGraph]:
    folder = tmp_path_factory.mktemp("graph")
    edges, nodes, _ = HeavyTailed(nodes=300, edges=900, features=2, classes=3).write(folder)
    with open_graph(edges, nodes, threads=1) as graph:
        yield graph


def ranks(stored: StoredGraph, method: Any, seed: int | None) -> np.ndarray[Any, Any]:
    parts = list(method.noisy_chunks(stored, seed, stored.work))
    out = np.concatenate([*parts, np.empty(0, np.int64)])
    assert (np.diff(out) > 0).all(), "ranks must come out strictly sorted"
    return out


@pytest.mark.parametrize("chunk", [1 << 22, 64])
def test_edgerand_with_the_same_seed_is_that_in_memory(
    stored: StoredGraph, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    from edgeveil.defences import edgerand

    monkeypatch.setattr(streamed_noise, "CHUNK", chunk)
    monkeypatch.setattr(edgerand, "CHUNK", chunk)
    whole = stored.to_graph()
    for seed, epsilon in ((0, 3.0), (1, 5.0), (2, 0.5)):
        method = EdgeRand(epsilon=epsilon)
        np.testing.assert_array_equal(ranks(stored, method, seed), method.perturb(whole, seed=seed).edge_ranks)


def kept_and_degree(noisy: np.ndarray[Any, Any], whole: Graph, hub: int) -> tuple[int, int, int]:
    graph = whole.with_edge_ranks(noisy)
    return len(noisy), int(np.isin(noisy, whole.edge_ranks).sum()), int(graph.degrees[hub])


def test_lapgraph_has_the_law_of_the_one_in_memory(stored: StoredGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output size, true edges kept and a hub's degree over 150 draws each way; three tests at 10^-4, two-sided."""
    monkeypatch.setattr(streamed_noise, "CHUNK", 256)
    method, whole = LapGraph(epsilon=4.0), stored.to_graph()
    hub = int(np.argmax(whole.degrees))
    ours = np.array([kept_and_degree(ranks(stored, method, 1000 + k), whole, hub) for k in range(150)])
    theirs = np.array([kept_and_degree(method.perturb(whole, seed=k).edge_ranks, whole, hub) for k in range(150)])
    for column in range(3):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-4
    assert 0.2 < ours[:, 1].mean() / whole.num_edges < 0.95


def test_real_noise_comes_from_the_operating_system(stored: StoredGraph) -> None:
    for method in (LapGraph(epsilon=4.0), EdgeRand(epsilon=4.0)):
        first, second = (ranks(stored, method, None) for _ in range(2))
        assert not np.array_equal(first, second)
        assert abs(len(first) / stored.num_edges - (1 if isinstance(method, LapGraph) else 1.9)) < 0.7


def test_without_noise_worth_the_name_the_edges_come_out(stored: StoredGraph) -> None:
    whole = stored.to_graph()
    for method in (LapGraph(epsilon=2000.0, count_share=0.5), EdgeRand(epsilon=50.0)):
        np.testing.assert_array_equal(ranks(stored, method, None), whole.edge_ranks)


def test_too_few_revealed_cells_stop_before_anything_is_written(
    stored: StoredGraph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(streamed_noise, "_first_level", lambda cells, zeros, top: 3000)
    with pytest.raises(StorageError, match="nothing came out"):
        perturb_stored(LapGraph(epsilon=4.0), stored, tmp_path / "noisy", seed=0)
    assert not (tmp_path / "noisy").exists()


def test_files_and_manifest_and_one_charge(
    stored: StoredGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgeveil.defences.stored import perturb_stored as module

    monkeypatch.setattr(module, "ROWS", 100)
    monkeypatch.setattr(module, "FILE", 3)
    ledger, out = tmp_path / "ledger.sqlite", tmp_path / "noisy"

    def broken(self: Any, graph: Any, seed: Any, scratch: Any) -> Iterator[Any]:
        yield np.arange(250)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(LapGraph, "noisy_chunks", broken)
        with pytest.raises(RuntimeError, match="killed"):
            perturb_stored(LapGraph(epsilon=3.0), stored, out, ledger=str(ledger), edge_set="mine")
    assert not out.exists()
    guarantee, count = perturb_stored(LapGraph(epsilon=3.0), stored, out, ledger=str(ledger), edge_set="mine")
    assert guarantee.status == "sound" and guarantee.claimed_epsilon == 3.0
    table = pq.read_table(out / "edges")
    assert table.num_rows == count == json.loads((out / "manifest.json").read_text())["num_edges"]
    sizes = [
        group.num_rows
        for file in sorted((out / "edges").iterdir())
        for about in [pq.read_metadata(file)]
        for group in [about.row_group(k) for k in range(about.num_row_groups)]
    ]
    assert set(sizes[:-1]) == {100} and sum(sizes) == count
    with open_ledger(str(ledger)) as opened:
        assert [(c["what"], c["status"]) for c in opened.charges()] == [("perturb lapgraph", "done")]
    perturb_stored(LapGraph(epsilon=3.0), stored, tmp_path / "again", ledger=str(ledger), edge_set="mine")
    with open_ledger(str(ledger)) as opened:
        assert len(opened.charges()) == 2


def test_what_cannot_be_streamed_says_so(stored: StoredGraph, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs all edges in memory"):
        BucketResponse(epsilon=2.0).noisy_chunks(stored, None, tmp_path)
