"""Asked in the owner's words: ids and raw tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgeveil as ev


@pytest.fixture
def release(tmp_path: Path) -> ev.Release:
    rng = np.random.default_rng(0)
    ids = [f"CUST-{i:05d}" for i in range(40)]
    tables = {
        "edges": "sender,receiver\n" + "".join(f"{ids[i]},{ids[(i * 7 + 1) % 40]}\n" for i in range(40)),
        "features": "customer,income,vip\n"
        + "".join(f"{c},{rng.integers(10**4, 10**5)},{'yes' if i % 2 else 'no'}\n" for i, c in enumerate(ids)),
        "labels": "customer,segment\n" + "".join(f"{c},{'keen' if i % 2 else 'calm'}\n" for i, c in enumerate(ids)),
    }
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return ev.defend(ev.read_graph(**{name: tmp_path / f"{name}.csv" for name in tables}), "mlp")


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
