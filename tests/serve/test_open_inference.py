"""The Open Inference Protocol: the same answers, limits, guard and ledger as our own routes, in its own form."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edgeveil as ev

INFER = "/v2/models/release/infer"


def tensor(name: str, datatype: str, data: Any, shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape or [len(data)], "data": data}


def outputs(answer: Any) -> dict[str, Any]:
    return {part["name"]: np.array(part["data"]).reshape(part["shape"]) for part in answer.json()["outputs"]}


def test_health_and_metadata(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, top_k=2)
    key, get = server.key(), server.client.get
    assert get("/v2").json()["name"] == "edgeveil" and "binary_tensor_data" in get("/v2").json()["extensions"]
    assert get("/v2/health/live").json()["live"] is True and get("/v2/health/ready").json()["ready"] is True
    for path in ("/v2/models/release", "/v2/models/release/versions/1"):
        facts = get(path, headers=key).json()
        assert facts["name"] == "release" and facts["versions"] == ["1"]
        assert {part["name"]: (part["datatype"], part["shape"]) for part in facts["inputs"]} == {
            "nodes": ("INT64", [-1]), "features": ("FP32", [-1, 12]), "answer": ("INT64", [-1]),
        }  # fmt: skip
        assert [part["name"] for part in facts["outputs"]] == ["nodes", "values", "classes"]
        assert get(f"{path}/ready", headers=key).json() == {"ready": True, "name": "release"}
        assert get(path).status_code == get(f"{path}/ready").status_code == 401
    for path in ("/v2/models/other", "/v2/models/release/versions/2", "/v2/nothing"):
        got = get(path, headers=key)
        assert got.status_code == 404 and isinstance(got.json()["error"], str) and got.json()["request_id"]


def test_answers_are_those_of_predict(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, output="logits")
    key = server.key()
    body = {"id": "mine", "inputs": [tensor("nodes", "INT64", [7, 3])]}
    answer = server.post(INFER, key, json=body)
    plain = server.post("/v1/predict", key, json={"nodes": [7, 3]}).json()
    assert answer.json()["id"] == "mine" and answer.json()["model_name"] == "release"
    assert answer.json()["parameters"] == {"charged_queries": 1, "charged_epsilon": 0.0}
    assert outputs(answer)["values"].tolist() == plain["values"] and outputs(answer)["nodes"].tolist() == [7, 3]
    row = np.random.default_rng(0).standard_normal((1, 12)).astype(np.float32)
    for data in (row.ravel().tolist(), row.tolist()):
        moved = [tensor("nodes", "INT64", [7]), tensor("features", "FP32", data, [1, 12])]
        moved.append(tensor("answer", "INT64", [7, 3]))
        got = server.post("/v2/models/release/versions/1/infer", key, json={"inputs": moved})
        expected = noisy_release.predict(row.astype(float), [7])[[7, 3]]
        np.testing.assert_allclose(outputs(got)["values"], expected, atol=1e-9)
    one = server.post(INFER, key, json={**body, "outputs": [{"name": "values"}]})
    assert list(outputs(one)) == ["values"]
    everyone = {"inputs": [tensor("nodes", "INT64", [7]), tensor("features", "FP64", row.tolist(), [1, 12])]}
    everyone["parameters"] = {"answer_all": True}
    assert outputs(server.post(INFER, key, json=everyone))["values"].shape == (80, 3)


def test_ids_are_bytes_and_named(live: Callable[..., Any], graph: ev.Graph) -> None:
    named = ev.Graph.from_edges(
        graph.edge_index, x=graph.x, y=graph.y, node_ids=np.array([f"c{i}" for i in range(80)]),
        class_names=("calm", "keen", "lost"), train_mask=np.arange(80) % 2 == 0, test_mask=np.arange(80) % 2 == 1,
    )  # fmt: skip
    server = live(ev.defend(named, "lapgraph", epsilon=2.0, model="gcn"))
    key = server.key()
    got = outputs(server.post(INFER, key, json={"inputs": [tensor("nodes", "BYTES", ["c7", "c3"])]}))
    plain = server.post("/v1/predict", key, json={"nodes": ["c7", "c3"]}).json()
    assert got["nodes"].tolist() == ["c7", "c3"] and got["predicted"].tolist() == plain["predicted"]
    wrong = server.post(INFER, key, json={"inputs": [tensor("nodes", "BYTES", ["x"])]})
    assert wrong.status_code == 422 and wrong.json()["code"] == "unknown_node" and "'x'" in wrong.json()["error"]


def test_binary_tensors(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, output="logits")
    row = np.random.default_rng(0).standard_normal((2, 12)).astype("<f4")
    nodes = np.array([7, 3], "<i8")
    parts = [("nodes", "INT64", nodes), ("features", "FP32", row)]
    head = {
        "inputs": [
            {"name": n, "datatype": d, "shape": list(a.shape), "parameters": {"binary_data_size": a.nbytes}}
            for n, d, a in parts
        ],
        "parameters": {"binary_data_output": True},
    }
    text = json.dumps(head).encode()
    headers = {**server.key(), "inference-header-content-length": str(len(text))}
    answer = server.client.post(INFER, headers=headers, content=text + nodes.tobytes() + row.tobytes())
    assert answer.status_code == 200, answer.text
    size = int(answer.headers["inference-header-content-length"])
    described, rest = json.loads(answer.content[:size])["outputs"], answer.content[size:]
    assert [part["name"] for part in described] == ["nodes", "values"]
    split = described[0]["parameters"]["binary_data_size"]
    assert np.frombuffer(rest[:split], "<i8").tolist() == [7, 3]
    values = np.frombuffer(rest[split:], "<f8").reshape(described[1]["shape"])
    np.testing.assert_allclose(values, noisy_release.predict(row.astype(float), [7, 3])[[7, 3]], atol=1e-9)
    ids = b"".join(struct.pack("<I", len(t)) + t for t in (b"7", b"3"))
    for blob, size, status in ((ids, len(ids), 200), (ids[:-1], len(ids) - 1, 422), (ids, 10**6, 422), (ids, 3, 422)):
        entry = {"name": "nodes", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": size}}
        text = json.dumps({"inputs": [entry]}).encode()
        headers["inference-header-content-length"] = str(len(text))
        got = server.client.post(INFER, headers=headers, content=text + blob)
        assert got.status_code == status, got.text
    headers["inference-header-content-length"] = "99999999"
    assert server.client.post(INFER, headers=headers, content=text).status_code == 400


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ([], "bad_input"),
        ([tensor("nodes", "INT64", [])], "bad_input"),
        ([tensor("nodes", "BYTES", [], [0])], "bad_input"),
        ([tensor("nodes", "INT64", [1], [2])], "bad_input"),
        ([tensor("nodes", "INT64", [1.5])], "bad_input"),
        ([tensor("nodes", "INT64", ["1"])], "bad_input"),
        ([tensor("nodes", "INT8", [300])], "bad_input"),
        ([tensor("nodes", "BOOL", [1])], "bad_input"),
        ([tensor("nodes", "INT64", [1]), tensor("nodes", "INT64", [2])], "bad_input"),
        ([tensor("other", "INT64", [1])], "bad_input"),
        ([tensor("nodes", "INT64", [999])], "unknown_node"),
        ([tensor("nodes", "INT64", [1, 1])], "repeated_node"),
        ([tensor("nodes", "INT64", [1]), tensor("features", "FP32", [1.0], [1, 1])], "bad_shape"),
        ([tensor("nodes", "INT64", [1]), tensor("features", "FP32", [1e308] * 12, [1, 12])], "out_of_range"),
        ([{"name": "nodes", "datatype": "INT64", "shape": [2**31, 2**31], "data": [1]}], "bad_input"),
    ],
)
def test_wrong_tensors_are_named_and_free(standing: Callable[..., Any], inputs: list[Any], code: str) -> None:
    server = standing()
    answer = server.post(INFER, server.key(queries=50), json={"inputs": inputs})
    assert answer.status_code == 422 and answer.json()["code"] == code, answer.text
    account = server.service.ledger.account("tenant:bob", "queries")
    assert server.service.leases.held("bob") == account.used


@pytest.mark.parametrize("flag", [{"answer_all": "yes"}, {"induced": 1}])
def test_a_flag_that_is_no_flag_is_refused(standing: Callable[..., Any], flag: dict[str, Any]) -> None:
    body = {"inputs": [tensor("nodes", "INT64", [1])], "parameters": flag}
    server = standing()
    answer = server.post(INFER, server.key(queries=50), json=body)
    assert answer.status_code == 422 and "is true or false" in answer.json()["error"]
    assert server.service.ledger.account("tenant:bob", "queries").used == 0


def test_an_unknown_output_is_refused_before_it_is_charged(live: Callable[..., Any]) -> None:
    server = live()
    body = {"inputs": [tensor("nodes", "INT64", [1])], "outputs": [{"name": "edges"}]}
    answer = server.post(INFER, server.key(queries=50), json=body)
    assert answer.status_code == 422 and "edges" in answer.json()["error"]
    assert server.service.ledger.account("tenant:bob", "queries").used == 0


def test_the_same_limits_and_the_same_guard(live: Callable[..., Any], plain_release: ev.Release) -> None:
    server = live(changed_features=None)
    stored = {"inputs": [tensor("nodes", "INT64", [3])]}
    moved = {"inputs": [*stored["inputs"], tensor("features", "FP64", [0.5] * 12, [1, 12])]}
    key = server.key(queries=3)
    closed = server.post(INFER, key, json=moved)
    assert closed.status_code == 403 and closed.json()["code"] == "changed_features_closed"
    ways = [(INFER, stored), ("/v1/predict", {"nodes": [3]}), (INFER, stored), (INFER, stored)]
    assert [server.post(path, key, json=body).status_code for path, body in ways] == [200, 200, 200, 429]
    assert server.post(INFER, {}, json=stored).status_code == 401
    assert server.post(INFER, server.key("eve", "monitor"), json=stored).status_code == 403
    lines = [json.loads(line) for line in server.settings.audit_path.read_text().splitlines()]
    routes = [line["route"] for line in lines if line["event"] == "request" and line["status"] == 200]
    assert routes == ["/v2/models/{model}/infer", "/v1/predict", "/v2/models/{model}/infer"]
    server.stop()
    server = live(state=server.settings.state.with_name("opened"))
    key = server.key()
    apart = {"inputs": [*moved["inputs"], tensor("answer", "INT64", [3, 4])]}
    got = server.post(INFER, key, json=apart)
    assert got.json()["parameters"]["alone"] is True  # no cross-reading is allowed by default
    np.testing.assert_allclose(
        outputs(got)["values"][1], server.post("/v1/predict", key, json={"nodes": [4]}).json()["values"][0]
    )


def test_snapshots_are_models_of_their_owner(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, epsilon_cap=20.0)
    key = server.key(role="curate", epsilon=9.0)
    body = {"name": "monday", "num_nodes": 80, "edges": [[0, 1], [2, 3]], "epsilon": 1.0}
    made = server.post("/v1/snapshots", key, json=body).json()["id"]
    asked = {"inputs": [tensor("nodes", "INT64", [1])]}
    got = server.post(f"/v2/models/{made}/infer", key, json=asked)
    plain = server.post("/v1/predict", key, json={"nodes": [1], "snapshot": made}).json()
    assert got.json()["model_name"] == made and outputs(got)["values"].tolist() == plain["values"]
    eve = server.key("eve")
    assert server.post(f"/v2/models/{made}/infer", eve, json=asked).status_code == 404
    assert server.client.get(f"/v2/models/{made}", headers=eve).status_code == 404


def test_tritons_client(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    triton = pytest.importorskip("tritonclient.http")
    server = live(noisy_release, output="logits")
    headers = server.key()
    with triton.InferenceServerClient(server.url.removeprefix("http://")) as client:
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("release", headers=headers)
        assert client.get_model_metadata("release", headers=headers)["inputs"][0]["name"] == "nodes"
        for binary in (False, True):
            nodes = triton.InferInput("nodes", [2], "INT64")
            nodes.set_data_from_numpy(np.array([7, 3]), binary_data=binary)
            wanted = [triton.InferRequestedOutput("values", binary_data=binary)]
            got = client.infer("release", [nodes], outputs=wanted, headers=headers)
            np.testing.assert_allclose(got.as_numpy("values"), noisy_release.predict()[[7, 3]], atol=1e-9)
        nodes.set_data_from_numpy(np.array([7, 999]), binary_data=True)
        with pytest.raises(Exception, match="node 999 is unknown"):
            client.infer("release", [nodes], headers=headers)


ODD: list[Any] = [
    None, True, 0, -1, 60, 2**31, 2**63, 10**400, 1.5, 1e308, "", "7", "\x00", "é\U0001f600", "x" * 300, "nan", [], {},
    [1], ["a"], [[1.0]], [[], [1]], {"a": 1},
]  # fmt: skip
WHOLE: list[tuple[str, dict[str, Any]]] = [
    (INFER, {"inputs": [tensor("nodes", "INT64", [1, 2])]}),
    (INFER, {"inputs": [tensor("nodes", "BYTES", ["1"]), tensor("features", "FP32", [0.1] * 12, [1, 12])],
             "parameters": {"answer_all": True}, "outputs": [{"name": "values", "parameters": {"binary_data": True}}]}),
    ("/v1/predict", {"nodes": ["1", "2"], "answer_all": False}),
    ("/v1/predict", {"nodes": [1], "columns": {"a": [1], "b": ["x"]}, "answer": ["3"]}),
    ("/v1/snapshots", {"name": "s", "nodes": ["a", "b"], "edges": [["a", "b"]], "features": [[0.1] * 12] * 2}),
    ("/v1/nodes", {"names": ["1"]}),
]  # fmt: skip


def spoil(whole: Any, rng: random.Random) -> Any:
    """A copy with one to three of its parts replaced, removed or added."""
    copy = json.loads(json.dumps(whole))
    for _ in range(rng.randint(1, 3)):
        at = copy
        while at:
            part = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if isinstance(at[part], (dict, list)) and rng.random() < 0.6:
                at = at[part]
                continue
            if (way := rng.random()) < 0.6:
                at[part] = rng.choice(ODD)
            elif way < 0.8:
                at.pop(part)
            elif isinstance(at, dict):
                at[rng.choice(["binary_data_size", "data", "nodes", "x"])] = rng.choice(ODD)
            else:
                at.append(rng.choice(ODD))
            break
    return copy


def test_spoilt_questions_never_cause_a_server_error(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server, rng = live(noisy_release, epsilon_cap=1000.0), random.Random(0)
    key = server.key(role="curate", epsilon=500.0)
    seen = set()
    for _ in range(int(os.environ.get("EDGEVEIL_FUZZ", "600"))):
        path, whole = rng.choice(WHOLE)
        text = json.dumps(spoil(whole, rng)).encode()
        headers = dict(key)
        if path == INFER and rng.random() < 0.3:
            headers["inference-header-content-length"] = rng.choice([str(len(text)), "-1", "0", "9" * 30, "1e3"])
            text += rng.randbytes(rng.randint(0, 30))
        answer = server.client.post(path, headers=headers, content=text)
        seen.add(answer.status_code)
        assert answer.status_code < 500, (path, text, answer.text)
    assert {200, 400, 422} <= seen
