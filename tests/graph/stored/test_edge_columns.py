"""Edge tables as owners have them, left in their files: read as the same files are in memory, or refused with a remedy."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgeveil.errors import EdgeveilError, GraphError
from edgeveil.graph.files.read_graph import read_graph
from edgeveil.graph.stored.graph_in_files import open_graph

N = 12
U, V = [0, 1, 2, 3, 11], [1, 2, 3, 4, 0]
HUGE = np.array([2**63 + 2**40 * k for k in range(N)], np.uint64)
NOW = dt.datetime(2026, 1, 1)
NONE = pa.nulls(0)


def write(folder: Path, files: dict[str, dict[str, Any]], ids: Any = range(N)) -> tuple[Path, Path]:
    """``edges/NAME`` for every file, and a list of nodes."""
    for name, columns in files.items():
        path = folder / "edges" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)
    pq.write_table(pa.table({"id": pa.array(ids), "f": np.arange(len(ids)) * 1.0}), folder / "nodes.parquet")
    return folder / "edges", folder / "nodes.parquet"


def typed(values: list[int], kind: Any) -> Any:
    return pa.array(values, kind)


READ: dict[str, tuple[dict[str, Any], Any]] = {
    "the name of a folder is no column": ({"src=9/a.parquet": {"src": U, "dst": V}}, range(N)),
    "a time before the ends": ({"a.parquet": {"at": [NOW] * 5, "person": U, "friend": V}}, range(N)),
    "a weight before the ends": ({"a.parquet": {"weight": [1, 2, 3, 4, 5], "person": U, "friend": V}}, range(N)),
    "an empty file without types": (
        {"day=1/a.parquet": {"src": NONE, "dst": NONE}, "day=2/a.parquet": {"src": U, "dst": V}}, range(N),
    ),
    "columns in another order, one more": (
        {"a.parquet": {"src": U[:2], "dst": V[:2]}, "b.parquet": {"dst": V[2:], "kind": ["x"] * 3, "src": U[2:]}}, range(N),
    ),
    "numbers beyond 63 bits": ({"a.parquet": {"src": HUGE[U], "dst": HUGE[V]}}, HUGE),
    "negative numbers": ({"a.parquet": {"src": [k - 5 for k in U], "dst": [k - 5 for k in V]}}, [k - 5 for k in range(N)]),
    "a narrow type first": (
        {"a.parquet": {"src": typed([0], pa.int16()), "dst": typed([10**6], pa.int64())}, "b.parquet": {"src": [10**6], "dst": [5]}},
        [0, 5, 10**6],
    ),
    "categories": ({"a.parquet": {"src": pa.array(["a", "b"]).dictionary_encode(), "dst": ["b", "c"]}}, ["c", "b", "a"]),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_awkward_files_are_read_as_in_memory(case: str, tmp_path: Path) -> None:
    edges, nodes = write(tmp_path, *READ[case])
    loaded = read_graph(edges, nodes)
    with open_graph(edges, nodes, threads=1) as stored:
        assert stored.edge_index.tolist() == loaded.edge_index.tolist() and loaded.num_edges > 1
        names = None if stored.node_ids is None else stored.node_ids.tolist()
        assert names == (None if loaded.node_ids is None else loaded.node_ids.tolist())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "fractions in a later file": (
        {"a.parquet": {"src": U, "dst": V}, "b.parquet": {"src": [1.4], "dst": [2]}},
        "b.parquet: column 'src' holds double.*cast the column",
    ),
    "text in a later file": (
        {"a.parquet": {"src": U, "dst": V}, "b.parquet": {"src": U, "dst": ["x"] * 5}},
        "'dst' holds whole numbers in .*a.parquet, but text in .*b.parquet; write all files with one type",
    ),
    "other names in a later file": (
        {"a.parquet": {"src": U, "dst": V}, "b.parquet": {"from": U, "to": V}},
        r"b.parquet has no column 'src' as .*a.parquet has \(it has from, to\); write all",
    ),
    "one column twice but for its case": ({"a.parquet": {"src": U, "dst": V, "SRC": V}}, "several columns 'src'.*rename"),
    "times": ({"a.parquet": {"src": [NOW], "dst": [NOW]}}, r"'src' holds timestamp.*--source"),
    "decimals": ({"a.parquet": {"src": [Decimal(1)], "dst": [Decimal(2)]}}, "'src' holds decimal"),
    "bytes": ({"a.parquet": {"src": [b"1"], "dst": [b"2"]}}, "'src' holds binary"),
    "lists": ({"a.parquet": {"src": [[1]], "dst": [[2]]}}, "'src' holds list"),
    "nothing but missing ids": ({"a.parquet": {"src": pa.nulls(2), "dst": [1, 2]}}, "'src' holds null"),
    "a column in the names of folders": ({"src=1/a.parquet": {"dst": V}}, "folder names carry 'src'.*write it into"),
    "no row at all": ({"a.parquet": {"src": NONE, "dst": NONE}}, "holds no rows"),
    "a missing end": ({"a.parquet": {"src": [1, None], "dst": [2, 7]}}, r"lacks a node id \(its other end is '7'\); fill"),
    "a stray end": ({"a.parquet": {"src": [1, 2], "dst": [2, 99]}}, r"'99' \(in an edge with '2'\), which .* 12 nodes lacks; add"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_named_with_its_remedy(case: str, tmp_path: Path) -> None:
    files, said = REFUSED[case]
    edges, nodes = write(tmp_path, files)
    with pytest.raises(GraphError, match=said), open_graph(edges, nodes, threads=1) as stored:
        stored.prepare()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([["a", ""]], "'' in row 1 is empty"),
        ([["a", "b\0"]], "row 1 holds a NUL character"),
        ([["a", None]], "row 1 lacks a node id in 'id'; fill"),
        ([[1, 2], ["3"]], "column 'id' has several types.*write all"),
        ([["a"], ["b", "a"]], "lists node 'a' twice; keep one"),
    ],
)
def test_ids_that_cannot_name_a_node_are_refused(parts: list[list[Any]], said: str, tmp_path: Path) -> None:
    edges, _ = write(tmp_path, {"a.parquet": {"src": ["a"], "dst": ["b"]}})
    (tmp_path / "nodes").mkdir()
    for number, ids in enumerate(parts):
        pq.write_table(pa.table({"id": ids, "f": [0.5] * len(ids)}), tmp_path / "nodes" / f"{number}.parquet")
    with pytest.raises(EdgeveilError, match=said), open_graph(edges, tmp_path / "nodes", threads=1):
        pass


def test_a_file_of_features_that_lacks_a_column_is_named(tmp_path: Path) -> None:
    edges, _ = write(tmp_path, {"a.parquet": {"src": [0], "dst": [1]}})
    (tmp_path / "nodes").mkdir()
    for number, name in enumerate("fg"):
        pq.write_table(pa.table({"id": [number], name: [0.5]}), tmp_path / "nodes" / f"{number}.parquet")
    with (
        pytest.raises(GraphError, match=r"1.parquet has no column 'f' as .*0.parquet has; write all files"),
        open_graph(edges, tmp_path / "nodes", threads=1),
    ):
        pass


def test_columns_can_be_named(tmp_path: Path) -> None:
    edges, nodes = write(tmp_path, {"a.parquet": {"src": V, "dst": V, "x": U}})
    with open_graph(edges, nodes, source="x", target="dst", threads=1) as stored:
        assert stored.num_edges == 5
    with pytest.raises(GraphError, match=r"no column 'y' \(--source\); it has src, dst, x"), open_graph(
        edges, nodes, source="y"
    ):  # fmt: skip
        pass
