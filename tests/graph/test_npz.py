"""Our graph file: equal graphs back, the same bytes for the same content, and no half or foreign file read."""

from __future__ import annotations

import json
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgeveil.errors import StorageError
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import atomic_write, read_arrays, read_npz, write_arrays, write_npz
from edgeveil.graph.validate import Collapsed


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(2, 9))
    edges = draw(hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 20)), elements=st.integers(0, n - 1)))
    cells = st.floats(-9, 9, width=32)
    x = draw(
        st.one_of(st.none(), hnp.arrays(np.float32, (n, 3), elements=cells), hnp.arrays(float, (n, 2), elements=cells))
    )
    if x is not None and draw(st.booleans()):
        x = sp.csr_matrix(x)
    y = draw(st.one_of(st.none(), st.just(np.arange(n) % 3), hnp.arrays(np.uint8, (n, 2), elements=st.integers(0, 1))))
    names = draw(st.lists(st.sampled_from(["public", "0", "50:25:25", "ähnlich"]), unique=True))
    splits = {name: {"train": np.arange(n) % 2 == 0, "test": np.arange(n) % 2 == 1} for name in names}
    ids = draw(st.one_of(st.none(), st.just([f"node {i}" for i in range(n)]), st.just(list(range(5, n + 5)))))
    return Graph.from_edges(
        edges, x, y, num_nodes=n, splits=splits, split=draw(st.sampled_from([None, *names])), node_ids=ids,
        name="g-twin", is_twin=draw(st.booleans()),
    )  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs())
def test_round_trip(tmp_path: Path, graph: Graph) -> None:
    path = write_npz(graph, tmp_path / "graph.npz")
    back = read_npz(path)
    assert back == graph and back.split == graph.split and list(back.splits) == list(graph.splits)
    assert (back.name, back.is_twin, back.num_classes) == (graph.name, graph.is_twin, graph.num_classes)
    assert back.collapsed == graph.collapsed
    assert sp.issparse(back.x) == sp.issparse(graph.x) and (graph.x is None or back.x.dtype == graph.x.dtype)
    ids, again = graph.node_ids, back.node_ids
    assert (ids is None and again is None) or (ids is not None and again is not None and ids.tolist() == again.tolist())
    first = path.read_bytes()
    write_npz(back, path)
    assert path.read_bytes() == first


def test_folder_or_file_and_names(tmp_path: Path) -> None:
    graph = Graph.from_edges([[0], [1]], y=[0, 1], train_mask=np.array([True, False]))
    arrays = read_arrays(write_npz(graph, tmp_path / "mine" / "graph.npz"))
    del arrays["meta"]
    write_arrays(tmp_path / "mine" / "graph.npz", arrays)
    assert read_npz(tmp_path / "mine").name == "mine"
    assert read_npz(tmp_path / "mine" / "graph.npz", split="public").split == "public"
    assert read_npz(tmp_path / "mine", name="other").name == "other"


def test_two_dimensional_masks_are_numbered_splits(tmp_path: Path) -> None:
    masks = {
        f"{part}_mask": np.array([[part == "train", False], [False, part == "test"]])
        for part in ("train", "val", "test")
    }
    path = write_arrays(
        tmp_path / "g.npz", {"edge_index": np.array([[0], [1]], np.int32), "y": np.array([0, 1]), **masks}
    )
    graph = read_npz(path)
    assert list(graph.splits) == ["0", "1"] and graph.split == "0"
    assert graph.with_split("1").test_mask.tolist() == [False, True]


def test_file_mode_and_atomicity(tmp_path: Path) -> None:
    path = write_npz(Graph.from_edges([[0], [1]]), tmp_path / "private.npz", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["private.npz"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        atomic_write(tmp_path / "file" / "below", b"x")
    assert (tmp_path / "file").read_text() == "x"


def corrupt(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "flipped":
        middle = len(content) // 2
        path.write_bytes(
            content[:middle] + bytes(b ^ 0xFF for b in content[middle : middle + 40]) + content[middle + 40 :]
        )
    elif how == "text":
        path.write_text("source,target\n0,1\n")
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "pickle":
        path.write_bytes(pickle.dumps({"edge_index": [[0], [1]]}))
    elif how == "array":
        with path.open("wb") as file:
            np.save(file, np.eye(2))


@pytest.mark.parametrize("how", ["truncated", "flipped", "text", "empty", "pickle", "array"])
def test_corrupt_files_are_storage_errors(tmp_path: Path, how: str) -> None:
    graph = Graph.from_edges(np.arange(400).reshape(2, 200), np.arange(4000.0).reshape(400, 10))
    path = write_npz(graph, tmp_path / "graph.npz")
    corrupt(path, how)
    with pytest.raises(StorageError, match=r"graph\.npz"):
        read_npz(path)


def test_pickled_members_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", edge_index=np.array([[0], [1]]), y=np.array([{"evil": 1}, None], dtype=object))
    with pytest.raises(StorageError, match="not a readable graph archive"):
        read_npz(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": np.array([[0], [9]])}, "names node 9"),
        ({"x_indptr": np.array([0, 2, 1])}, "row starts"),
        ({"x_indices": np.array([7], np.int32)}, "outside the 2 columns"),
        ({"x_data": np.array([1.0, 2.0])}, "different lengths"),
        ({"x_data": np.array([np.nan])}, "is nan"),
        ({"val_mask": np.array([True, False])}, "both the train and the val"),
        ({"meta": np.frombuffer(b"{nonsense", np.uint8)}, "does not hold a valid graph"),
        ({"meta": np.frombuffer(json.dumps({"num_nodes": 5}).encode(), np.uint8)}, "contradictory"),
    ],
)
def test_inconsistent_arrays_are_storage_errors(tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
    arrays = {
        "edge_index": np.array([[0], [1]]), "y": np.array([0, 1]), "x_data": np.array([1.0]),
        "x_indices": np.array([0], np.int32), "x_indptr": np.array([0, 1, 1]), "x_shape": np.array([2, 2]),
        "train_mask": np.array([True, False]), "val_mask": np.array([False, False]),
        "test_mask": np.array([False, True]),
    }  # fmt: skip
    assert read_npz(write_arrays(tmp_path / "g.npz", arrays)).num_edges == 1
    with pytest.raises(StorageError, match=message):
        read_npz(write_arrays(tmp_path / "g.npz", arrays | change))


def test_missing_parts(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such graph file"):
        read_npz(tmp_path / "absent.npz")
    with pytest.raises(StorageError, match="lacks the array 'edge_index'"):
        read_npz(write_arrays(tmp_path / "g.npz", {"y": np.array([0])}))
    with pytest.raises(StorageError, match="lacks the array 'val_mask'"):
        lone = {"edge_index": np.zeros((2, 0), int), "y": np.array([0]), "train_mask": np.array([True])}
        read_npz(write_arrays(tmp_path / "g.npz", lone))


def test_losses_are_remembered(tmp_path: Path) -> None:
    graph = Graph.from_edges([[0, 0], [1, 0]], collapsed=Collapsed(weights=True, one_way=1))
    assert read_npz(write_npz(graph, tmp_path / "g.npz")).collapsed == Collapsed(1, 0, 0, True, 1)
