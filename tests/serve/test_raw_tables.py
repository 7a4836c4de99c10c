"""Asked in the owner's words: ids and raw tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    ids = [f"CUST-{i:05d}" for i in range(40)]
    tables = {
        "edges": "sender,receiver\n" + "".join(f"{ids[i]},{ids[(i * 7 + 1) % 40]}\n" for i in range(40)),
        "features": "customer,income,vip\n"
        + "".join(f"{c},{rng.integers(10**4, 10**5)},{'yes' if i % 2 else 'no'}\n" for i, c in enumerate(ids)),
        "labels": "customer,segment\n" + "".join(f"{c},{'keen' if i % 2 else 'calm'}\n" for i, c in enumerate(ids)),
    }
    folder = tmp_path_factory.mktemp("tables")
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return {name: folder / f"{name}.csv" for name in tables}


@pytest.fixture(scope="module")
def release(tables: dict[str, Path]) -> ev.Release:
    return ev.defend(ev.read_graph(**tables), "mlp")


@pytest.fixture(scope="module")
def noisy(tables: dict[str, Path]) -> ev.Release:
    return ev.defend(ev.read_graph(**tables), "lapgraph", epsilon=2.0, model="gcn")


def test_one_question_in_the_owners_words(live: Callable[..., Any], noisy: ev.Release) -> None:
    server = live(noisy)
    key, asked = server.key(), ["CUST-00021", "CUST-00003"]
    got = server.post("/v1/predict", key, json={"nodes": asked}).json()
    plain = server.post("/v1/predict", key, json={"nodes": [21, 3]}).json()
    assert got["nodes"] == asked and got["values"] == plain["values"] and plain["nodes"] == [21, 3]
    assert got["class_names"] == ["calm", "keen"] and "class_names" not in plain
    assert got["predicted"] == [["calm", "keen"][int(np.argmax(row))] for row in plain["values"]]
    table = {"income": [52_000], "vip": [True]}
    words = {"nodes": ["CUST-00021"], "columns": table, "answer": asked}
    got = server.post("/v1/predict", key, json=words).json()
    rows = noisy.transform({"income": ["52000"], "vip": ["yes"]})
    numbers = {"nodes": [21], "features": rows.tolist(), "answer": [21, 3]}
    assert got["nodes"] == asked and got["values"] == server.post("/v1/predict", key, json=numbers).json()["values"]
    assert got["values"] != plain["values"] and len(got["predicted"]) == 2
    by_number = server.post("/v1/predict", key, json={**numbers, "features": None, "columns": table}).json()
    assert by_number["values"] == got["values"] and by_number["nodes"] == [21, 3]


def test_named_answers_in_every_format(live: Callable[..., Any], noisy: ev.Release) -> None:
    import io

    import pyarrow as pa

    for output, extra in (("labels", {}), ("probabilities", {"top_k": 1}), ("logits", {})):
        server = live(noisy, output=output, **extra)
        key, body = server.key(), {"nodes": ["CUST-00007", "CUST-00002"]}
        first = server.post("/v1/predict", key, json=body).json()
        best = noisy.predict()[[7, 2]].argmax(axis=1)
        assert first["predicted"] == [["calm", "keen"][at] for at in best]
        packed = io.BytesIO()
        np.savez(packed, nodes=np.array(body["nodes"]))
        headers = {**key, "content-type": "application/x-npz", "accept": "application/x-npz"}
        answer = server.client.post("/v1/predict", headers=headers, content=packed.getvalue())
        with np.load(io.BytesIO(answer.content)) as arrays:
            assert arrays["nodes"].tolist() == body["nodes"] and arrays["predicted"].tolist() == first["predicted"]
            assert arrays["class_names"].tolist() == ["calm", "keen"]
        arrow = {**key, "accept": "application/vnd.apache.arrow.stream"}
        table = pa.ipc.open_stream(server.post("/v1/predict", arrow, json=body).content).read_all()
        assert table["predicted"].to_pylist() == first["predicted"] and table["nodes"].to_pylist() == body["nodes"]
        server.stop()


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"nodes": ["CUST-9"]}, "unknown_node", "unknown node 'CUST-9'"),
        ({"nodes": ["CUST-00001", 2]}, "bad_input", "nodes.1"),
        ({"nodes": ["CUST-00001", "CUST-00001"]}, "repeated_node", "name each node once"),
        ({"nodes": ["CUST-00001"], "columns": {"income": [1]}}, "bad_input", "vip"),
        ({"nodes": ["CUST-00001"], "columns": {"income": [1, 2], "vip": [True]}}, "bad_input", "same number of cells"),
        ({"nodes": ["CUST-00001"], "columns": {"income": [1, 2], "vip": ["yes", "no"]}}, "bad_shape", "[1, "),
        ({"nodes": ["CUST-00001"], "columns": {"income": [1], "vip": ["perhaps"]}}, "bad_input", "column 'vip'"),
        ({"nodes": ["x" * 300_000] + ["a"] * 20_000}, "unknown_node", "unknown node"),
    ],
)
def test_wrong_words_are_named_and_free(
    standing: Callable[..., Any], noisy: ev.Release, body: dict[str, Any], code: str, said: str
) -> None:
    server = standing(noisy)
    answer = server.post("/v1/predict", server.key(queries=50), json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == code and said in answer.json()["error"]["message"]
    assert server.service.leases.held("bob") == server.service.ledger.account("tenant:bob", "queries").used


def test_a_snapshot_in_the_owners_words(live: Callable[..., Any], noisy: ev.Release) -> None:
    server = live(noisy, epsilon_cap=100.0)
    key = server.key(role="curate", epsilon=50.0)
    edges = [[f"CUST-{i:05d}", f"CUST-{i + 1:05d}"] for i in range(30)]
    made = server.post("/v1/snapshots", key, json={"name": "monday", "edges": edges, "epsilon": 1.0}).json()
    assert made["num_nodes"] == 40 and made["epsilon"] == 1.0, made
    asked = {"nodes": ["CUST-00021"], "snapshot": made["id"]}
    got = server.post("/v1/predict", key, json=asked).json()
    assert got["nodes"] == ["CUST-00021"] and got["class_names"] == ["calm", "keen"]
    ids = [f"NEW-{i}" for i in range(5)]
    table = {"income": [10_000, 20_000, 30_000, 40_000, None], "vip": ["yes", "no", True, False, "no"]}
    fresh = {"name": "new", "nodes": ids, "edges": [["NEW-0", "NEW-4"]], "columns": table, "epsilon": 1.0}
    made = server.post("/v1/snapshots", key, json=fresh).json()
    assert made["num_nodes"] == 5, made
    engine = server.service.snapshots.engine(made["id"])
    rows = noisy.transform({k: [str(c).lower() if isinstance(c, bool) else c for c in v] for k, v in table.items()})
    np.testing.assert_allclose(engine.release.matrix.rows(np.arange(5)), rows)
    again = ev.Release.load(server.settings.state / "snapshots" / made["id"])
    assert again.node_ids is not None and again.node_ids.tolist() == ids
    got = server.post("/v1/predict", key, json={"nodes": ["NEW-3"], "snapshot": made["id"]})
    assert got.json()["nodes"] == ["NEW-3"]
    assert server.post("/v1/predict", key, json={"nodes": ["CUST-00001"], "snapshot": made["id"]}).status_code == 422


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"edges": [["CUST-00001", "CUST-9"]]}, "unknown node 'CUST-9'"),
        ({"edges": [[0, 1]]}, "num_nodes"),
        ({"edges": [["a", "b"]], "nodes": ["a", "b", "a"]}, "given twice"),
        ({"edges": [["a", "b"]], "nodes": ["a", "b"], "num_nodes": 3}, "3 nodes"),
        ({"edges": [["a", "b"]], "nodes": ["a", "b"]}, "send features"),
        ({"edges": [["a", "b"]], "nodes": ["a", "b"], "columns": {"income": [1], "vip": ["no"]}}, "shape"),
        ({"edges": [["a", 1]], "nodes": ["a", "b"]}, "edges"),
        ({"edges": [["a", "b"]], "nodes": ["a", "b" * 201]}, "nodes.1"),
    ],
)
def test_a_wrong_snapshot_in_words_is_named_and_free(
    standing: Callable[..., Any], noisy: ev.Release, body: dict[str, Any], said: str
) -> None:
    server = standing(noisy, epsilon_cap=100.0)
    answer = server.post("/v1/snapshots", server.key(role="curate", epsilon=50.0), json={"name": "x", **body})
    assert answer.status_code == 422 and said in answer.json()["error"]["message"], answer.text
    assert server.service.ledger.account("tenant:bob", "epsilon").used == 0


def test_ids_give_numbers_and_named_classes(live: Callable[..., Any], release: ev.Release) -> None:
    server = live(release)
    key = server.key()
    got = server.post("/v1/nodes", key, json={"names": ["CUST-00021", "CUST-00003"]})
    assert got.json() == {"nodes": [21, 3], "class_names": ["calm", "keen"]}
    assert server.post("/v1/predict", key, json={"nodes": got.json()["nodes"]}).status_code == 200
    wrong = server.post("/v1/nodes", key, json={"names": ["CUST-9"]})
    assert wrong.status_code == 422 and "unknown node 'CUST-9'" in wrong.text
    assert server.client.post("/v1/nodes", json={"names": ["CUST-00003"]}).status_code == 401


def test_a_raw_table_becomes_features_in_model_space(live: Callable[..., Any], release: ev.Release) -> None:
    server = live(release)
    key = server.key()
    table = {"income": [52_000, None], "vip": [True, "no"]}
    got = server.post("/v1/transform", key, json={"columns": table})
    expected = release.transform({"income": ["52000", ""], "vip": ["yes", "no"]})
    np.testing.assert_allclose(got.json()["features"], expected)
    wrong = server.post("/v1/transform", key, json={"columns": {**table, "vip": ["perhaps", "no"]}})
    assert wrong.status_code == 422 and "row 1, column 'vip'" in wrong.text
    assert server.post("/v1/transform", key, json={"columns": {"income": [1], "vip": []}}).status_code == 422
