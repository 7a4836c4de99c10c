"""What a release answers, refuses and keeps to itself."""

from __future__ import annotations

import gc
import hashlib
import json
import stat
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.defences.defence import DEFENCES
from edgeveil.errors import InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.models.settings import TrainSpec
from edgeveil.release.release import Release
from zoo import toy


@pytest.fixture(scope="module")
def release() -> Release:
    return ev.defend(toy(), "none", model="gcn", seed=0)


def test_features_and_nodes_select_and_replace(release: Release) -> None:
    base = release.predict()
    assert base.shape == (60, 3) and base.dtype == np.float64
    np.testing.assert_array_equal(release.predict(nodes=[5, 2]), base[[5, 2]])
    np.testing.assert_allclose(release.predict(features=release.features), base, atol=1e-12)
    rows = np.asarray(release.features.todense() if hasattr(release.features, "todense") else release.features)
    changed = rows.copy()
    changed[7] *= 1.5
    one = release.predict(features=changed[[7]], nodes=[7])
    np.testing.assert_allclose(one, release.predict(features=changed), atol=1e-12)
    assert np.abs(one - base).max() > 0


def test_only_the_two_hop_of_a_changed_node_moves(release: Release) -> None:
    graph = toy()
    reach = graph.adjacency + graph.adjacency @ graph.adjacency
    node = 3
    rows = 2 * np.asarray(release.matrix.rows([node]))
    moved = np.abs(release.predict(features=rows, nodes=[node]) - release.predict()).max(axis=1) > 0
    allowed = np.asarray(reach[node].todense()).ravel() > 0
    allowed[node] = True
    assert not (moved & ~allowed).any() and moved.any()


def test_an_induced_single_node_answer_does_not_depend_on_its_neighbours(release: Release) -> None:
    alone = release.predict(nodes=[4], induced=True)
    assert alone.shape == (1, 3)
    assert not np.allclose(alone, release.predict(nodes=[4]))


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"nodes": [99]}, "unknown node 99"),
        ({"nodes": [1, 1]}, "repeated"),
        ({"nodes": []}, "non-empty"),
        ({"features": np.zeros((2, 2))}, "shape"),
        ({"features": np.full((60, 24), np.nan)}, "NaN"),
        ({"induced": True}, "needs nodes"),
    ],
)
def test_bad_queries_are_named(release: Release, query: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        release.predict(**query)  # type: ignore[arg-type]


def test_utility_needs_labels_and_a_mask_that_selects(release: Release) -> None:
    assert {"accuracy", "micro_f1", "macro_f1"} <= set(release.utility("test"))
    with pytest.raises(InputError, match="unknown mask"):
        release.utility("tset")
    with pytest.raises(InputError, match="no labelled node"):
        release.utility(np.zeros(60, dtype=bool))


def test_a_saved_release_predicts_the_same_bits_and_carries_no_labels(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "r")
    again = Release.load(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(), release.predict())
    assert again.guarantee == release.guarantee
    with pytest.raises(InputError, match="pass the graph"):
        again.utility("test")
    assert again.utility("test", graph=toy()) == release.utility("test")


def test_only_the_undefended_release_keeps_the_private_graph(release: Release, tmp_path: Path) -> None:
    bare = release.save(tmp_path / "bare")
    assert json.loads((bare / "manifest.json").read_text())["contains_private_graph"] is True
    for file in ("private_graph.npz", "private_graph.sha256"):
        assert stat.S_IMODE((bare / file).stat().st_mode) == 0o600
    graph = toy()
    for name, epsilon in (("lapgraph", 2.0), ("mlp", None), ("lpgnet-1", 2.0)):
        model = "mlp" if name == "mlp" else "gcn"
        made = ev.defend(graph, name, epsilon=epsilon, model=model, seed=0, train=TrainSpec(epochs=5))
        kept = made.save(tmp_path / name)
        assert not (kept / "private_graph.npz").exists()
        assert json.loads((kept / "manifest.json").read_text())["contains_private_graph"] is False
        for file in kept.glob("*.npz"):
            with np.load(file, allow_pickle=False) as arrays:
                for array in arrays.values():
                    assert not np.array_equal(np.asarray(array).ravel(), graph.adjacency.indices)


def held(thing: object, seen: set[int] | None = None) -> Iterator[object]:
    """Everything that can be reached from an object through data, not through modules, classes or functions."""
    seen = set() if seen is None else seen
    queue = [thing]
    while queue:
        one = queue.pop()
        skip = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType)
        if id(one) in seen or isinstance(one, skip):
            continue
        seen.add(id(one))
        yield one
        queue += gc.get_referents(one)


@pytest.mark.parametrize("name", [n for n in DEFENCES.names() if DEFENCES.get(n).status == "sound"])
@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.usefixtures("short_read_outs")
def test_a_sound_release_holds_no_private_edge_in_memory(name: str, grown: bool) -> None:
    graph = toy()
    epsilon = None if "epsilon" not in DEFENCES.get(name).__dataclass_fields__ else 2.0  # type: ignore[attr-defined]
    how: dict[str, Any] = {"train": TrainSpec(epochs=5)} | ({"setting": "inductive-evolving"} if grown else {})
    made = ev.defend(graph, name, epsilon=epsilon, model="mlp" if name == "mlp" else "gcn", seed=0, **how)
    secret = (graph.indices, graph.adjacency.indices, graph.edge_index[0], graph.edge_index[1], graph.edge_ranks)
    for thing in held(made):
        assert not isinstance(thing, Graph), thing
        if isinstance(thing, np.ndarray):
            assert not any(thing.size == part.size and np.array_equal(thing.ravel(), part) for part in secret)
    assert made.evaluation is not None and made.utility("test") == made.utility("test", graph=graph)


def test_an_undefended_release_holds_the_graph_on_purpose_and_says_so(release: Release) -> None:
    assert release.contains_private_graph
    assert any(
        isinstance(thing, np.ndarray) and np.array_equal(thing, toy().adjacency.indices) for thing in held(release)
    )
    assert not any(isinstance(thing, Graph) for thing in held(release))


def test_a_manifest_tells_no_time_and_no_hash_of_private_edges(release: Release, tmp_path: Path) -> None:
    assert release.seconds_train is not None and release.seconds_train > 0
    path = release.save(tmp_path / "r")
    manifest = (path / "manifest.json").read_text()
    assert "seconds" not in manifest and "private_graph.npz" not in manifest
    digest = hashlib.sha256((path / "private_graph.npz").read_bytes()).hexdigest()
    assert digest not in manifest and digest == (path / "private_graph.sha256").read_text()
    assert Release.load(path).seconds_train is None
    data = bytearray((path / "private_graph.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "private_graph.npz").write_bytes(bytes(data))
    with pytest.raises(StorageError, match="checksum"):
        Release.load(path)
    (path / "private_graph.sha256").unlink()
    with pytest.raises(StorageError, match="incomplete"):
        Release.load(path)


def test_damage_is_noticed(release: Release, tmp_path: Path) -> None:
    path = release.save(tmp_path / "r")
    data = bytearray((path / "weights.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "weights.npz").write_bytes(bytes(data))
    with pytest.raises(StorageError, match="checksum"):
        Release.load(path)
    (path / "manifest.json").write_text("{")
    with pytest.raises(StorageError, match="damaged"):
        Release.load(path)
    with pytest.raises(StorageError, match="not a release"):
        Release.load(tmp_path)


def test_saving_never_overwrites_something_else(release: Release, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(StorageError, match="not a release"):
        release.save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "important"
