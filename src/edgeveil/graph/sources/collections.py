"""Readers of the MUSAE, gnn-benchmark, Geom-GCN, GraphSAINT and GraphSAGE files."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from edgeveil.graph.sources.readers import Arrays, Raw, _one, pack, reader, spans

__all__ = ["facebook", "geom_gcn", "gnn_benchmark", "graphsage", "graphsaint", "lastfm", "twitch"]

TWITCH_FEATURES = 3170  # the same for all six countries
FACEBOOK_CLASSES = ("company", "tvshow", "politician", "government")  # codes that GraphPrivatizer reads
LASTFM_CLASSES = (17, 10, 0, 6, 14, 3, 8, 5, 15, 16)  # the ten largest, largest first


def _pairs(content: bytes, delimiter: str = ",") -> NDArray[np.int64]:
    """Two integer columns below one header line, as [2, E]."""
    rows = content.decode().replace(delimiter, " ").split("\n", 1)[1]
    return np.array(rows.split(), np.int64).reshape(-1, 2).T


def _rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8"))))


def _multi_hot(lists: dict[str, list[int]], width: int | None = None) -> sp.csr_matrix:
    """0/1 rows from lists of feature ids; an id repeated within a node counts once."""
    rows = np.repeat([int(node) for node in lists], [len(ids) for ids in lists.values()])
    columns = np.concatenate([np.asarray(ids, np.int64) for ids in lists.values()])
    shape = (len(lists), width if width is not None else int(columns.max()) + 1)
    x = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    x.data[:] = 1
    return x


@reader("musae-twitch")
def twitch(raw: Raw) -> Arrays:
    """``*_edges.csv``, ``*_target.csv`` (label ``mature`` by ``new_id``) and a JSON file of feature lists."""
    x = _multi_hot(json.loads(_one(raw, ".json")), TWITCH_FEATURES)
    y = np.zeros(x.shape[0], np.int64)
    for row in _rows(_one(raw, "_target.csv")):
        y[int(row["new_id"])] = row["mature"].strip().lower() == "true"
    return pack(_pairs(_one(raw, "_edges.csv")), x, y)


@reader("musae-facebook")
def facebook(raw: Raw) -> Arrays:
    """``facebook_{edges.csv,target.csv,features.json}``."""
    x = _multi_hot(json.loads(_one(raw, "_features.json")))
    y = np.zeros(x.shape[0], np.int64)
    for row in _rows(_one(raw, "_target.csv")):
        y[int(row["id"])] = FACEBOOK_CLASSES.index(row["page_type"].strip().lower())
    return pack(_pairs(_one(raw, "_edges.csv")), x, y)


@reader("lastfm")
def lastfm(raw: Raw) -> Arrays:
    """``lastfm_asia_{edges.csv,target.csv,features.json}``, cut to the ten largest classes as GraphPrivatizer does."""
    x = _multi_hot(json.loads(_one(raw, "_features.json")))
    target = np.zeros(x.shape[0], np.int64)
    for row in _rows(_one(raw, "_target.csv")):
        target[int(row["id"])] = int(row["target"])
    kept = np.flatnonzero(np.isin(target, LASTFM_CLASSES))
    place = np.full(len(target), -1)
    place[kept] = np.arange(len(kept))
    edges = place[_pairs(_one(raw, "_edges.csv"))]
    y = np.array([LASTFM_CLASSES.index(int(label)) for label in target[kept]])
    return pack(edges[:, (edges >= 0).all(axis=0)], x[kept], y)


def _archive(content: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        wanted = [key for key in archive.files if key not in ("format", "class_names", "attr_names", "node_names")]
        return {key: archive[key] for key in wanted}


@reader("gnn-benchmark")
def gnn_benchmark(raw: Raw) -> Arrays:
    """One ``.npz`` with adjacency and attributes in CSR parts."""
    a = _archive(_one(raw, ".npz"))
    u = np.repeat(np.arange(len(a["labels"])), np.diff(a["adj_indptr"]))
    x = sp.csr_matrix((a["attr_data"], a["attr_indices"], a["attr_indptr"]), shape=tuple(a["attr_shape"]))
    return pack(np.stack([u, a["adj_indices"]]), x, a["labels"])


@reader("geom-gcn")
def geom_gcn(raw: Raw) -> Arrays:
    """``out1_graph_edges.txt``, ``out1_node_feature_label.txt`` and ten split files."""
    lines = [line.split("\t") for line in _one(raw, "out1_node_feature_label.txt").decode().splitlines()[1:]]
    lines.sort(key=lambda line: int(line[0]))
    x = np.array([line[1].split(",") for line in lines]).astype(np.float32)
    y = np.array([int(line[2]) for line in lines])
    splits = [_archive(_one(raw, f"_{k}.npz")) for k in range(10)]
    masks = {
        part: np.stack([split[f"{part}_mask"].astype(bool) for split in splits], axis=1)
        for part in ("train", "val", "test")
    }
    return pack(_pairs(_one(raw, "out1_graph_edges.txt"), "\t"), x, y, masks)


@reader("graphsaint")
def graphsaint(raw: Raw) -> Arrays:
    """``adj_full.npz``, ``feats.npy``, ``class_map.json``, ``role.json``."""
    a = _archive(_one(raw, "adj_full.npz"))
    n = len(a["indptr"]) - 1
    u = np.repeat(np.arange(n), np.diff(a["indptr"]))
    classes = json.loads(_one(raw, "class_map.json"))
    role = json.loads(_one(raw, "role.json"))
    x = np.load(io.BytesIO(_one(raw, "feats.npy")), allow_pickle=False)
    y = np.array([classes[str(node)] for node in range(n)])
    return pack(np.stack([u, a["indices"]]), x, y, spans(n, train=role["tr"], val=role["va"], test=role["te"]))


@reader("graphsage")
def graphsage(raw: Raw) -> Arrays:
    """``*-G.json``, ``*-feats.npy``, ``*-class_map.json``, ``*-id_map.json``; links name nodes by their place."""
    graph = json.loads(_one(raw, "-G.json"))
    ids = json.loads(_one(raw, "-id_map.json"))
    classes = json.loads(_one(raw, "-class_map.json"))
    place = np.array([ids[str(node["id"])] for node in graph["nodes"]])
    n = len(place)
    edges = place[np.array([[link["source"], link["target"]] for link in graph["links"]]).T]
    y = np.zeros((n, len(next(iter(classes.values())))), np.uint8)
    for node, labels in classes.items():
        y[ids[node]] = labels
    test = place[np.array([bool(node["test"]) for node in graph["nodes"]])]
    val = place[np.array([bool(node["val"]) for node in graph["nodes"]])]
    train = np.setdiff1d(np.arange(n), np.concatenate([test, val]))
    x = np.load(io.BytesIO(_one(raw, "-feats.npy")), allow_pickle=False)
    return pack(edges, x, y, spans(n, train=train, val=val, test=test))
