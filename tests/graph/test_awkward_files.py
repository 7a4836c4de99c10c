"""File sets as owners have them: each is read as meant, or refused with the row, the column and a remedy."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import edgeveil as ev
from edgeveil.errors import EdgeveilError
from edgeveil.graph.graph import Graph

EDGES = "CUST-1,CUST-2\nCUST-2,CUST-3\nCUST-3,CUST-4\n"
LABELS = "CUST-1,gold\nCUST-2,gold\nCUST-3,basic\nCUST-4,basic\n"
TABLE = "CUST-1,30,1.5\nCUST-2,40,2.5\nCUST-3,50,3.5\nCUST-4,60,4.5\n"
THREE = {("CUST-1", "CUST-2"), ("CUST-2", "CUST-3"), ("CUST-3", "CUST-4")}


def put(folder: Path, **files: str | bytes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, content in files.items():
        name, _, ending = key.partition("__")
        path = folder / f"{name}.{(ending or 'csv').replace('_', '.')}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        out[name] = path
    return out


def named_edges(graph: Graph) -> set[tuple[str, str]]:
    ids = np.arange(graph.num_nodes).astype(str) if graph.node_ids is None else graph.node_ids
    return {tuple(sorted((str(ids[u]), str(ids[v])))) for u, v in graph.edge_index.T}  # type: ignore[misc]


def zstd(text: str) -> bytes:
    return bytes(pa.compress(text.encode(), codec="zstd", asbytes=True))


READ: dict[str, dict[str, str | bytes]] = {
    "header that is no class": {"edges": "from,to\n" + EDGES, "labels": "customer,segment\n" + LABELS},
    "header that is no class, features too": {
        "edges": "customer,other\n" + EDGES, "labels": "customer,segment\n" + LABELS, "features": "customer,age,x\n" + TABLE,
    },
    "edge ids": {"edges": "edge_id,sender,receiver\n1,CUST-1,CUST-2\n2,CUST-2,CUST-3\n3,CUST-3,CUST-4\n"},
    "edge ids without known words": {
        "edges": "e,aa,bb\n1,CUST-1,CUST-2\n2,CUST-2,CUST-3\n3,CUST-3,CUST-4\n", "features": "who,age,x\n" + TABLE,
    },
    "semicolons": {"edges": "from;to\n" + EDGES.replace(",", ";"), "labels": "id;label\n" + LABELS.replace(",", ";")},
    "tabs in a .csv": {"edges": "from\tto\n" + EDGES.replace(",", "\t")},
    "bars": {"edges": "from|to\n" + EDGES.replace(",", "|")},
    "gzip": {"edges__csv_gz": gzip.compress(("from,to\n" + EDGES).encode()), "features": "id,age,x\n" + TABLE},
    "zstd": {"edges__csv_zst": zstd("from,to\n" + EDGES)},
    "byte-order mark and carriage returns": {
        "edges": b"\xef\xbb\xbf" + ("from,to\n" + EDGES).replace("\n", "\r\n").encode(), "labels": "id,label\n" + LABELS,
    },
    "excel: sep line, semicolons, decimal commas": {
        "edges": "sep=;\r\nfrom;to\r\n" + EDGES.replace(",", ";"),
        "features": "sep=;\nid;age;x\n" + TABLE.replace(",", ";").replace(".", ","),
    },
    "excel: unicode text": {"edges__txt": ("from\tto\n" + EDGES.replace(",", "\t")).encode("utf-16")},
    "id column not first": {
        "edges": "from,to\n" + EDGES, "labels": "segment,customer\ngold,CUST-1\ngold,CUST-2\nbasic,CUST-3\nbasic,CUST-4\n",
    },
    "quoted cells": {"edges": 'from,to\n"CUST-1","CUST-2"\n"CUST-2","CUST-3"\n"CUST-3","CUST-4"\n'},
    "comments and blank lines": {"edges": "# exported\n\nfrom,to\n" + EDGES + "\n# end\n"},
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_read_as_meant(tmp_path: Path, case: str) -> None:
    graph = ev.read_graph(**put(tmp_path, **READ[case]))
    assert named_edges(graph) == THREE and graph.num_nodes == 4
    if graph.y is not None:
        assert graph.class_names == ("basic", "gold") and sorted(graph.y.tolist()) == [0, 0, 1, 1]
    if graph.x is not None:
        by_id = dict(zip(graph.node_ids.tolist(), graph.x.tolist(), strict=True))  # type: ignore[union-attr]
        assert by_id["CUST-3"] == [50.0, 3.5]


@pytest.mark.parametrize("cell", ["", "NaN", "n/a", "#N/A", "NULL", "nil", "-"])
def test_a_missing_label_is_no_class_however_it_is_written(tmp_path: Path, cell: str) -> None:
    labels = "id,label\n" + LABELS.replace("CUST-4,basic", f"CUST-4,{cell}")
    graph = ev.read_graph(**put(tmp_path, edges="from,to\n" + EDGES, labels=labels))
    assert graph.class_names == ("basic", "gold") and graph.y is not None and sorted(graph.y.tolist()) == [-1, 0, 1, 1]


def test_leading_zeros_are_part_of_an_id_and_dates_keep_their_zone(tmp_path: Path) -> None:
    files = put(
        tmp_path, edges="when;from;to;weight\n2025-01-01T08:00:00Z;0001;0002;0.5\n2025-01-02T08:00:00Z;0002;0010;2\n",
        features="account;opened\n0001;1970-01-02T02:00:00+02:00\n0002;1970-01-03T00:00:00Z\n0010;1970-01-04\n",
    )  # fmt: skip
    graph = ev.read_graph(**files)
    assert named_edges(graph) == {("0001", "0002"), ("0002", "0010")}
    assert graph.x is not None and graph.x.ravel().tolist() == [1.0, 2.0, 3.0]


def test_ids_of_a_data_frame_with_floats(tmp_path: Path) -> None:
    files = put(tmp_path, edges="src,dst\n0,1\n1,2\n", labels="id,label\n0.0,a\n1.0,b\n2.0,a\n")
    graph = ev.read_graph(**files)
    assert graph.num_nodes == 3 and graph.y.tolist() == [0, 1, 0] and graph.public_nodes


def test_parquet_with_an_index_column(tmp_path: Path) -> None:
    table = pa.table(
        {"age": [30, 40, 50, 60], "vip": [True, False, None, True], "id": [f"CUST-{i}" for i in range(1, 5)]}
    )
    pq.write_table(table, tmp_path / "features.parquet")
    files = put(tmp_path, edges="from,to\n" + EDGES)
    graph = ev.read_graph(**files, features=tmp_path / "features.parquet")
    assert graph.table.outputs == ["age", "vip", "vip is missing"]
    assert graph.x.tolist() == [[30, 1, 0], [40, 0, 0], [50, 1, 1], [60, 1, 0]]


def test_options_settle_what_cannot_be_told(tmp_path: Path) -> None:
    files = put(tmp_path, edges="k1,k2,k3\n1,2,10\n2,3,20\n", labels="x;y;z\na;1;p\nb;2;q\nc;3;p\n")
    graph = ev.read_graph(files["edges"], source="k2", target="k1")
    assert named_edges(graph) == {("1", "2"), ("2", "3")}
    graph = ev.read_graph(**files, source="k1", target="k2", id_column="y", label_column="z", delimiter=None)
    assert graph.y.tolist() == [0, 1, 0] and graph.class_names == ("p", "q")


REFUSED: dict[str, tuple[dict[str, str | bytes], str]] = {
    "a word among numbers": (
        {"edges": EDGES, "features": "id,age,x\n" + TABLE.replace("50", "fifty")},
        r"features\.csv: row 4, column 'age': 'fifty' is no number; mend the cell",
    ),
    "a short row": ({"edges": "from,to\nCUST-1,CUST-2\nCUST-3\n"}, r"edges\.csv: row 3 has 1 columns instead of 2: 'CUST-3'"),
    "an empty id": ({"edges": "from,to\nCUST-1,CUST-2\n,CUST-3\n"}, r"row 3, column 'from'\); fill it in"),
    "an empty id of a customer": (
        {"edges": EDGES, "features": "id,age,x\n" + TABLE + ",1,2\n"}, r"row 6 lacks a node id in 'id'",
    ),
    "windows letters": ({"edges": b"from,to\na,b\nM\xfcller,b\n"}, r"line 3 is not UTF-8 \(byte 0xfc\).*iconv"),
    "a workbook": ({"edges": b"PK\x03\x04rest"}, "workbook.*save the sheet as 'CSV UTF-8'"),
    "a cut archive": ({"edges__csv_gz": gzip.compress(EDGES.encode() * 99)[:40]}, "damaged gzip data"),
    "two undecidable pairs of columns": (
        {"edges": "aa,bb,cc\nx1,p1,p2\nx2,p2,p3\nx3,p3,p1\n"}, r"between 'bb' and 'cc'\? Say --source and --target",
    ),
    "no such column": ({"edges": "from,to\n" + EDGES}, "has no column 'sender'.*it has from, to"),
    "an impossible date": (
        {"edges": EDGES, "features": "id,since\nCUST-1,2020-01-01\nCUST-2,2020-02-30\nCUST-3,2020-01-03\nCUST-4,2021-01-01\n"},
        r"row 3, column 'since': '2020-02-30' is no date",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_cell_and_a_remedy(tmp_path: Path, case: str) -> None:
    files, message = REFUSED[case]
    options: dict[str, Any] = {"source": "sender"} if "no such column" in case else {}
    options |= {"header": True} if "undecidable" in case else {}
    with pytest.raises(EdgeveilError, match=message):
        ev.read_graph(**put(tmp_path, **files), **options)
