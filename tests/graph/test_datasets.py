"""Datasets by name: every contract name, real graphs as published, records that agree with the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.catalog import dataset, names
from edgeveil.graph.checks import check_file, check_root
from edgeveil.graph.datasets import load
from edgeveil.graph.npz import read_arrays, write_arrays
from edgeveil.graph.sources import where

CONTRACT = [
    "amazon-photo", "bipartite", "chameleon", "citeseer", "cora", "facebook", "flickr", "lastfm", "ppi", "pubmed",
    "twitch-de", "twitch-engb", "twitch-es", "twitch-fr", "twitch-ptbr", "twitch-ru",
]  # fmt: skip
HERE = [n for n in CONTRACT if n not in ("lastfm", "flickr", "ppi", "bipartite")]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEVEIL_OFFLINE", "1")


def test_all_contract_names_have_a_record() -> None:
    assert sorted(CONTRACT) == list(names())
    for name in CONTRACT:
        record = dataset(name)
        assert record.title and record.licence and record.citation and record.reported
        assert dataset(f"{name}-twin") == record and dataset(name.replace("-", "_").upper()) == record
        assert record.default_split is None or record.default_split in record.splits
        assert record.generated or record.upstream


@pytest.mark.data
@pytest.mark.parametrize("name", HERE)
def test_real_graphs_have_the_published_statistics(name: str) -> None:
    record, graph = dataset(name), load(name)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        record.nodes, record.edges, record.features, record.classes)  # fmt: skip
    u, v = graph.edge_index
    assert float((graph.y[u] == graph.y[v]).mean()) == pytest.approx(record.homophily, abs=5e-5)
    assert graph.name == name and not graph.is_twin and graph.split == record.default_split
    assert np.bincount(graph.y).tolist() == record.twin["class_sizes"]
    for split in record.splits:
        load(name, split)


@pytest.mark.data
def test_splits_of_the_papers() -> None:
    def sizes(name: str, split: str | int | None = None) -> list[int]:
        graph = load(name, split)
        assert graph.masks is not None
        return [int(mask.sum()) for mask in graph.masks]

    assert (
        sizes("cora") == [140, 500, 1000]
        and sizes("citeseer") == [120, 500, 1000]
        and sizes("pubmed") == [60, 500, 1000]
    )
    assert sizes("chameleon", 7) == [1092, 729, 456]
    assert sizes("twitch-es", "80:20") == [3718, 930, 0]
    assert sizes("facebook", "lpgnet-text") == [80, 500, 1000] and sizes("facebook", "lpgnet-code") == [
        14381,
        3595,
        4494,
    ]
    assert load("cora", "50:25:25", split_seed=1).fingerprint != load("cora", "50:25:25", split_seed=2).fingerprint
    assert load("cora").node_ids is not None and load("cora").node_ids[:2].tolist() == [1110563, 446271]


@pytest.mark.data
def test_checking_a_folder(tmp_path: Path) -> None:
    found = where(dataset("cora"))
    assert found is not None
    verdicts = check_root(found.path.parents[1])
    assert len(verdicts) >= 12 and all(v.good for v in verdicts)
    assert {v.checksum for v in verdicts} == {"equal"}
    arrays = read_arrays(found.path)
    repacked = tmp_path / "cora" / "graph.npz"
    repacked.parent.mkdir()
    np.savez(repacked, **arrays)
    assert check_file(repacked).checksum == "repacked" and check_file(repacked).good
    arrays["y"] = np.roll(arrays["y"], 1)
    write_arrays(repacked, arrays)
    verdict = check_file(repacked)
    assert verdict.checksum == "differs" and not verdict.good and "differ" in verdict.problems[0]
    arrays["edge_index"] = arrays["edge_index"][:, ::-1]
    assert any("sorted" in problem for problem in check_file(write_arrays(repacked, arrays)).problems)
    arrays["edge_index"] = arrays["edge_index"][::-1]
    assert any("u < v" in problem for problem in check_file(write_arrays(repacked, arrays)).problems)
    repacked.write_bytes(b"broken")
    assert check_file(repacked).checksum == "unreadable" and not check_file(repacked).good


def test_checks_of_foreign_files(tmp_path: Path) -> None:
    good = {"edge_index": np.array([[0], [1]], np.int32), "y": np.array([0, 1])}
    verdict = check_file(write_arrays(tmp_path / "mine" / "graph.npz", good))
    assert verdict.good and verdict.checksum == "unknown"
    for bad in (
        {"edge_index": np.zeros(3)},
        {**good, "train_mask": np.array([True, False])},
        {**good, "y": np.array([0, -5])},
    ):
        assert not check_file(write_arrays(tmp_path / "mine" / "graph.npz", bad)).good


def test_misspelt_names_get_suggestions() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'coar'\. Did you mean 'cora'"):
        load("coar")
    with pytest.raises(UnknownNameError, match="unknown dataset"):
        load("../cora")
    with pytest.raises(UnknownNameError, match="unknown split of 'cora-twin'"):
        load("cora-twin", "pubic")
    with pytest.raises(InputError, match="named by a string"):
        load("")
    with pytest.raises(InputError, match="named by a string"):
        load(3)  # type: ignore[arg-type]
