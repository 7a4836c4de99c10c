"""Names and raw tables travel with a release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import edgeveil as ev
from edgeveil.errors import InputError
from edgeveil.graph.graph import Graph
from edgeveil.graph.npz import read_npz, write_npz


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    ids = [f"CUST-{i:05d}" for i in range(60)]
    rows = [
        f"{c},{rng.integers(10**4, 10**5)},{'gold' if i % 3 else ''},{'yes' if i % 2 else 'no'}\n"
        for i, c in enumerate(ids)
    ]
    tables = {
        "edges": "sender,receiver\n" + "".join(f"{ids[i]},{ids[(i * 7 + 1) % 60]}\n" for i in range(60)),
        "features": "customer,income,plan,vip\n" + "".join(rows),
        "labels": "customer,segment\n" + "".join(f"{c},{'keen' if i % 2 else 'calm'}\n" for i, c in enumerate(ids)),
    }
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return {name: tmp_path / f"{name}.csv" for name in tables}


def test_raw_tables_become_the_stored_features(files: dict[str, Path], tmp_path: Path) -> None:
    made = ev.defend(ev.read_graph(**files), "lapgraph", epsilon=4.0, seed=0)
    assert made.scaling == "standard"
    made.save(tmp_path / "release")
    loaded = ev.Release.load(tmp_path / "release")
    for release in (made, loaded):
        np.testing.assert_allclose(release.transform(files["features"]), made.features, atol=1e-12)
    later = {"income": [50_000], "plan": ["silver"], "vip": ["no"]}
    row = loaded.transform(later)
    np.testing.assert_array_equal(loaded.predict(row, nodes=[3]), loaded.predict(row, nodes=["CUST-00003"]))
    rules = json.loads((tmp_path / "release" / "manifest.json").read_text())["inputs"]["table"]["rules"]
    assert [rule["kind"] for rule in rules] == ["number", "category", "boolean"]


def test_nodes_are_asked_by_name_and_classes_have_theirs(files: dict[str, Path], tmp_path: Path) -> None:
    made = ev.defend(ev.read_graph(**files), "mlp", seed=0)
    loaded = ev.Release.load(made.save(tmp_path / "release"))
    np.testing.assert_array_equal(loaded.predict(nodes=["CUST-00041"]), made.predict()[[41]])
    assert loaded.class_names == ("calm", "keen")
    with pytest.raises(InputError, match="unknown node 'CUST-9'"):
        loaded.predict(nodes=["CUST-9"])


def test_nodes_that_perturb_their_own_features_have_no_transform(files: dict[str, Path]) -> None:
    made = ev.defend(ev.read_graph(**files), "gp-t", epsilon=2.0, seed=0)
    with pytest.raises(InputError, match="model space"):
        made.transform(files["features"])


def test_names_and_rules_travel_through_graph_files(files: dict[str, Path], tmp_path: Path) -> None:
    graph = ev.read_graph(**files)
    back = read_npz(write_npz(graph, tmp_path / "g.npz"))
    assert back == graph and back.class_names == graph.class_names and back.table == graph.table
    assert back.subgraph([5, 2]).node_ids.tolist() == ["CUST-00005", "CUST-00002"]


def test_names_travel_through_networkx_and_pyg(files: dict[str, Path]) -> None:
    pytest.importorskip("torch_geometric")
    pytest.importorskip("networkx")
    from edgeveil.graph.nx import from_networkx, to_networkx

    graph = ev.read_graph(**files)
    for back in (ev.from_pyg(ev.to_pyg(graph)), from_networkx(to_networkx(graph))):
        assert isinstance(back, Graph) and back.class_names == ("calm", "keen")
        assert back.node_ids.tolist() == graph.node_ids.tolist()


def test_a_release_made_from_an_array_takes_arrays_only(files: dict[str, Path]) -> None:
    graph = ev.read_graph(**files)
    made = ev.defend(graph.with_features(np.asarray(graph.x)), "mlp", seed=0)
    np.testing.assert_allclose(made.transform(graph.x), made.features, atol=1e-12)
    with pytest.raises(InputError, match="made from numbers"):
        made.transform({"income": [1]})
