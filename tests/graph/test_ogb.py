"""An OGB folder on disk is read as it lies there."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import GraphError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "ogbn_toy"
    tables = {
        "raw/edge": "0,1\n1,2\n2,1\n",
        "raw/num-node-list": "4\n",
        "raw/num-edge-list": "3\n",
        "raw/node-feat": "0.5,1\n1,0\n0,0\n2,2\n",
        "raw/node-label": "0\n2\nnan\n1\n",
        "split/time/train": "0\n3\n",
        "split/time/valid": "1\n",
        "split/time/test": "2\n",
        "mapping/nodeidx2paperid": "node idx,paper id\n0,900\n1,901\n2,77\n3,5\n",
        "mapping/labelidx2category": "label idx,category\n0,cs.AI\n1,cs.LG\n2,cs.CR\n3,cs.DB\n",
    }
    for name, text in tables.items():
        path = root / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            file.write(text)
    return root


def test_everything_in_the_folder_is_read(folder: Path) -> None:
    graph = ev.read_graph(folder)
    assert graph.name == "ogbn-toy" and graph.num_nodes == 4 and graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.y.tolist() == [0, 2, -1, 1] and graph.x.dtype == np.float32 and graph.public_nodes
    assert graph.split == "time" and graph.train_mask.tolist() == [True, False, False, True]
    assert graph.node_ids.tolist() == ["900", "901", "77", "5"]
    assert graph.class_names == ("cs.AI", "cs.LG", "cs.CR", "cs.DB") and graph.num_classes == 4
    assert graph.collapsed.one_way == 1


def test_a_damaged_table_is_named(folder: Path) -> None:
    (folder / "raw" / "node-feat.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(GraphError, match="node-feat"):
        ev.read_graph(folder)
