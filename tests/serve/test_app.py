"""The API over a real socket: right answers, right refusals, nothing charged for what was not answered."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import edgeveil as ev


def used(server: Any, tenant: str = "bob") -> int:
    """Queries really used: leased minus what the process still holds."""
    account = server.service.ledger.account(f"tenant:{tenant}", "queries")
    return int(account.used) - server.service.leases.held(tenant)


def code(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()["error"]
    assert body["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return answer.status_code, body["code"]


def test_stored_answers_equal_the_release(live: Callable[..., Any], plain_release: ev.Release) -> None:
    server = live(output="logits")
    key = server.key()
    answer = server.post("/v1/predict", key, json={"nodes": [5, 0, 7]}).json()
    assert answer["kind"] == "logits" and answer["nodes"] == [5, 0, 7]
    np.testing.assert_allclose(answer["values"], plain_release.predict()[[5, 0, 7]], rtol=1e-12)
    assert answer["charged"] == {"queries": 1, "epsilon": 0}
    everyone = server.post("/v1/predict", key, json={"answer_all": True}).json()
    np.testing.assert_allclose(everyone["values"], plain_release.predict(), rtol=1e-12)
    assert used(server) == 2


def test_changed_features_equal_the_release(live: Callable[..., Any], plain_release: ev.Release) -> None:
    server = live(output="logits", guard={"action": "off"}, induced=True)
    key = server.key()
    rows = np.random.default_rng(0).standard_normal((2, plain_release.matrix.shape[1]))
    query = {"nodes": [3, 9], "features": rows.tolist(), "answer": [0, 3, 11]}
    got = server.post("/v1/predict", key, json=query).json()["values"]
    np.testing.assert_allclose(got, plain_release.predict(rows, [3, 9])[[0, 3, 11]], rtol=1e-9)
    induced = server.post("/v1/predict", key, json={"nodes": [3, 9, 4], "induced": True}).json()["values"]
    np.testing.assert_allclose(induced, plain_release.predict(nodes=[3, 9, 4], induced=True), rtol=1e-9)


def test_an_undefended_release_answers_two_decimals_unless_told(
    live: Callable[..., Any], plain_release: ev.Release, noisy_release: ev.Release, tmp_path: Path
) -> None:
    """Exact probabilities are logits by their logarithm, and those of neighbours are alike."""
    logits = plain_release.predict()
    soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for release, given, decimals in ((None, {}, 2), (None, {"decimals": 15}, 15), (noisy_release, {}, None)):
        server = live(release, state=tmp_path / f"state-{decimals}", **given)
        key = server.key()
        values = np.array(server.post("/v1/predict", key, json={"answer_all": True}).json()["values"])
        assert server.client.get("/v1/model", headers=key).json()["output"]["decimals"] == decimals
        assert (values == np.round(values, 2)).all() == (decimals == 2)
        if release is None:
            np.testing.assert_allclose(values, np.round(soft, decimals), atol=1e-12)


def test_npz_and_arrow_bodies(live: Callable[..., Any], plain_release: ev.Release) -> None:
    pa = pytest.importorskip("pyarrow")
    server = live(output="probabilities", guard={"action": "off"})
    key = server.key()
    rows = plain_release.matrix.rows([1, 2]) + 1.0
    expected = server.post("/v1/predict", key, json={"nodes": [1, 2], "features": rows.tolist()}).json()["values"]
    buffer = io.BytesIO()
    np.savez(buffer, nodes=np.array([1, 2]), features=rows)
    headers = {**key, "content-type": "application/x-npz", "accept": "application/x-npz"}
    with np.load(io.BytesIO(server.post("/v1/predict", headers, content=buffer.getvalue()).content)) as npz:
        np.testing.assert_array_equal(npz["values"], expected)
        assert str(npz["kind"]) == "probabilities"
    table = pa.table({"nodes": pa.array([1, 2]), "features": pa.array(rows.tolist())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    kind = "application/vnd.apache.arrow.stream"
    answer = server.post("/v1/predict", {**key, "content-type": kind, "accept": kind}, content=sink.getvalue())
    got = pa.ipc.open_stream(answer.content).read_all()
    np.testing.assert_array_equal(np.stack(got["values"].to_pylist()), expected)
    assert got.schema.metadata[b"kind"] == b"probabilities"


def test_output_policies(live: Callable[..., Any], plain_release: ev.Release) -> None:
    logits = plain_release.predict()
    server = live(output="labels")
    got = server.post("/v1/predict", server.key(), json={"nodes": [4, 2]}).json()
    assert got["labels"] == logits[[4, 2]].argmax(1).tolist() and "values" not in got
    server = live(output="probabilities", decimals=2, top_k=2, state=server.settings.state / "b")
    got = server.post("/v1/predict", server.key(), json={"nodes": [4]}).json()
    top = np.argsort(-logits[4])[:2]
    soft = np.exp(logits[4]) / np.exp(logits[4]).sum()
    assert got["classes"] == [top.tolist()]
    np.testing.assert_array_equal(got["values"], [np.round(soft[top], 2)])


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        (b"{nope", 400, "malformed_json"),
        (b'{"nodes": [0], "extra": 1}', 422, "bad_input"),
        (b'{"nodes": []}', 422, "bad_input"),
        (b'{"nodes": ["a"]}', 422, "unknown_node"),
        (b'{"nodes": [1, "a"]}', 422, "bad_input"),
        (b'{"nodes": [1], "columns": {"a": [1]}, "features": [[1]]}', 422, "bad_input"),
        (b'{"nodes": [1], "columns": {"a": [1]}}', 422, "bad_input"),
        (b'{"nodes": [1], "columns": {}}', 422, "bad_input"),
        (b'{"nodes": [99999]}', 422, "unknown_node"),
        (b'{"nodes": [-1]}', 422, "unknown_node"),
        (b'{"nodes": [123456789012345678901234567890]}', 422, "bad_input"),
        (b'{"nodes": [1, 1]}', 422, "repeated_node"),
        (b'{"nodes": [1], "features": [[1, 2]]}', 422, "bad_shape"),
        (b'{"nodes": [1], "features": [[NaN]]}', 422, "bad_input"),
        (b'{"nodes": [1], "features": [[1e999]]}', 422, "bad_input"),
        (b'{"nodes": [1, 2], "features": [[1], [1, 2]]}', 422, "bad_input"),
        (b'{"nodes": [1], "answer": [2]}', 422, "bad_input"),
        (b'{"nodes": [1], "induced": true}', 403, "induced_disabled"),
        (b'{"nodes": [1], "snapshot": "nope"}', 404, "unknown_snapshot"),
        (b"[]", 422, "bad_input"),
        (b"", 400, "malformed_json"),
    ],
)  # fmt: skip
def test_bad_input_is_named_and_free(standing: Callable[..., Any], body: bytes, status: int, name: str) -> None:
    server = standing()
    key = server.key(queries=5)
    assert code(server.post("/v1/predict", key, content=body)) == (status, name)
    assert used(server) == 0


def test_bad_binary_bodies(live: Callable[..., Any]) -> None:
    server = live()
    key = server.key()

    def send(kind: str, body: bytes) -> tuple[int, str]:
        return code(server.post("/v1/predict", {**key, "content-type": kind}, content=body))

    assert send("application/x-npz", b"PK\x03\x04junk") == (400, "malformed_npz")
    assert send("application/vnd.apache.arrow.stream", b"junk") == (400, "malformed_arrow")
    assert send("text/csv", b"1,2") == (415, "unsupported_media_type")
    buffer = io.BytesIO()
    np.savez(buffer, nodes=np.array([object()], dtype=object))
    assert send("application/x-npz", buffer.getvalue()) == (400, "malformed_npz")
    buffer = io.BytesIO()
    np.savez(buffer, nodes=np.array([0]), features=np.full((1, 12), np.nan))
    assert send("application/x-npz", buffer.getvalue()) == (422, "bad_input")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, nodes=np.arange(3), features=np.zeros((1, 2**24), np.int8))
    assert send("application/x-npz", buffer.getvalue()) == (413, "too_large")  # small packed, large unpacked
    assert used(server) == 0


def test_limits_on_size_and_time(live: Callable[..., Any]) -> None:
    server = live(max_body=2000, max_nodes=10, body_timeout=0.5, header_timeout=0.5)
    key = server.key()
    assert code(server.post("/v1/predict", key, content=b"x" * 3000)) == (413, "too_large")
    assert code(server.post("/v1/predict", key, json={"nodes": list(range(11))})) == (413, "too_many_nodes")

    def chunks() -> Any:
        for _ in range(30):
            yield b"x" * 100

    assert code(server.post("/v1/predict", key, content=chunks())) == (413, "too_large")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 5) as slow:  # a body that never ends
        lines = ["POST /v1/predict HTTP/1.1", "host: x", f"authorization: {key['authorization']}", "content-length: 9"]
        slow.sendall("\r\n".join([*lines, "", "{"]).encode())
        assert b"408" in slow.recv(4096).split(b"\r\n")[0]
    for start in (b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nhost: x\r\n"):  # headers that never end
        with socket.create_connection((host, int(port)), 5) as slow:
            slow.sendall(start)
            before = time.monotonic()
            assert slow.recv(100) == b""
            assert time.monotonic() - before < 3
    assert server.client.get("/healthz").status_code == 200
    assert used(server) == 0


def test_keys_roles_expiry_and_revocation(live: Callable[..., Any]) -> None:
    server = live()
    ask = {"json": {"nodes": [0]}}
    assert code(server.post("/v1/predict", {}, **ask)) == (401, "missing_key")
    assert code(server.post("/v1/predict", {"authorization": "Bearer nonsense"}, **ask)) == (401, "invalid_key")
    text, record = server.service.keys.add("carl", "query")
    wrong = text[:-3] + ("aaa" if text[-3:] != "aaa" else "bbb")
    assert code(server.post("/v1/predict", {"authorization": f"Bearer {wrong}"}, **ask)) == (401, "invalid_key")
    head = {"authorization": f"Bearer {text}"}
    assert server.post("/v1/predict", head, **ask).status_code == 200
    assert code(server.client.get("/metrics", headers=head)) == (403, "forbidden")
    assert code(server.post("/v1/snapshots", head, json={})) == (403, "forbidden")
    server.service.keys.revoke(record.id)
    assert code(server.post("/v1/predict", head, **ask)) == (401, "revoked_key")
    brief, _ = server.service.keys.add("dora", "query", days=1 / 86400)
    head = {"authorization": f"Bearer {brief}"}
    time.sleep(1.1)
    assert code(server.post("/v1/predict", head, **ask)) == (401, "expired_key")
    stored = server.service.database.url.removeprefix("sqlite:///")
    with open(stored, "rb") as file:  # noqa: PTH123
        content = file.read()
    assert text.split("_", 2)[2].encode() not in content


def test_query_limit_is_exact(live: Callable[..., Any]) -> None:
    server = live()
    key = server.key(queries=5)
    states = [server.post("/v1/predict", key, json={"nodes": [0]}).status_code for _ in range(8)]
    assert states == [200] * 5 + [429] * 3
    assert server.service.ledger.account("tenant:bob", "queries").used == 5


def test_node_limit_counts_changed_features_of_all_tenants(live: Callable[..., Any], graph: ev.Graph) -> None:
    server = live(guard={"action": "off", "node_limit": 3})
    keys = [server.key("bob"), server.key("eve")]
    rng = np.random.default_rng(0)

    def ask(i: int, answer: list[int]) -> httpx.Response:
        rows = rng.standard_normal((1, 12)).tolist()
        return server.post("/v1/predict", keys[i % 2], json={"nodes": [0], "features": rows, "answer": answer})

    assert [ask(i, [0, 1]).status_code for i in range(3)] == [200] * 3
    refused = ask(3, [1, 2])
    assert code(refused) == (429, "quota_exceeded") and "node 1" in refused.json()["error"]["message"]
    assert ask(4, [2]).status_code == 200
    assert server.post("/v1/predict", keys[0], json={"nodes": [1]}).status_code == 200  # stored answers stay free


def test_ledger_unreachable_fails_closed(live: Callable[..., Any]) -> None:
    server = live(lease_block=1, key_memory=0, ledger_timeout=0.3)
    key = server.key()
    ask = {"json": {"nodes": [0]}}
    assert server.post("/v1/predict", key, **ask).status_code == 200
    with server.service.database._engine.connect() as connection:
        connection.exec_driver_sql("ROLLBACK")
        connection.exec_driver_sql("BEGIN EXCLUSIVE")
        assert code(server.post("/v1/predict", key, **ask)) == (503, "ledger_unavailable")
        assert server.client.get("/healthz").status_code == 200
    assert server.post("/v1/predict", key, **ask).status_code == 200
    server.service.database.close()
    path = server.settings.state / "ledger.db"
    path.write_bytes(b"not a database" * 1000)
    for extra in ("ledger.db-wal", "ledger.db-shm"):
        (server.settings.state / extra).unlink(missing_ok=True)
    assert code(server.post("/v1/predict", key, **ask)) == (503, "ledger_unavailable")
    assert code(server.client.get("/readyz")) == (503, "ledger_unavailable")


def test_facts_metrics_and_audit_log(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = live(noisy_release, epsilon_cap=5.0)
    key = server.key(role="admin")
    facts = server.client.get("/v1/guarantee", headers=key).json()
    assert facts["epsilon_per_query"] == 0 and "post-processing" in facts["why"]
    assert facts["guarantee"]["epsilon"] == 2.0
    model = server.client.get("/v1/model", headers=key).json()
    assert (model["num_nodes"], model["num_features"], model["num_classes"]) == (80, 12, 3)
    server.post("/v1/predict", {**key, "x-request-id": "mine-1"}, json={"nodes": [0]})
    server.key("carol", queries=77)
    text = server.client.get("/metrics", headers=key).text
    assert 'edgeveil_queries_limit{tenant="carol"} 77.0' in text and "edgeveil_connections 1.0" in text
    assert "edgeveil_queue_waiting 0.0" in text and "edgeveil_queue_limit 64.0" in text
    assert 'edgeveil_epsilon_spent{account="edges:graph"} 2.0' in text
    assert 'edgeveil_requests_total{route="/v1/predict",status="200"} 1.0' in text
    lines = [json.loads(line) for line in server.settings.audit_path.read_text().splitlines()]
    mine = next(line for line in lines if line.get("id") == "mine-1")
    assert mine["route"] == "/v1/predict" and mine["tenant"] == "bob" and mine["rows"] == 1
    assert (server.settings.audit_path.stat().st_mode & 0o777) == 0o600


def test_unknown_paths_and_methods(live: Callable[..., Any]) -> None:
    server = live()
    assert code(server.client.get("/nope")) == (404, "not_found")
    assert code(server.client.get("/v1/predict")) == (405, "method_not_allowed")
    schema = server.client.get("/openapi.json").json()
    assert {"/v1/predict", "/v1/snapshots", "/v1/quote", "/healthz", "/metrics"} <= set(schema["paths"])
    assert schema["paths"]["/v1/predict"]["post"]["security"] == [{"key": []}]


def test_internal_errors_show_nothing(live: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server = live()

    def broken(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(server.service.policy.__class__, "apply", broken)
    answer = server.post("/v1/predict", server.key(), json={"nodes": [0]})
    assert code(answer) == (500, "internal") and "secret" not in answer.text


@pytest.mark.parametrize(
    ("accept", "status", "media"),
    [
        ("", 200, "application/json"),
        ("*/*", 200, "application/json"),
        ("application/x-npz;q=0, */*", 200, "application/json"),
        ("application/x-npz;q=0.2, application/json;q=0.1", 200, "application/x-npz"),
        ("application/json;q=0.5, application/x-npz", 200, "application/x-npz"),
        ("application/*;q=0.1", 200, "application/json"),
        ("text/html", 406, "application/json"),
        ("application/json;q=0", 406, "application/json"),
    ],
)
def test_accept_is_weighed(live: Callable[..., Any], accept: str, status: int, media: str) -> None:
    server = live()
    answer = server.post("/v1/predict", {**server.key(), "accept": accept}, json={"nodes": [1]})
    assert (answer.status_code, answer.headers["content-type"]) == (status, media)


def test_the_scheme_of_the_key_has_any_case(live: Callable[..., Any]) -> None:
    server = live()
    header = server.key()["authorization"]
    for text in (header, header.replace("Bearer", "bearer"), header.replace("Bearer", "BEARER")):
        assert server.post("/v1/predict", {"authorization": text}, json={"nodes": [1]}).status_code == 200
