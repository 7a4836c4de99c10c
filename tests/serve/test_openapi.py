"""What the OpenAPI description promises, asked by schemathesis over a real socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import edgeveil as ev

schemathesis = pytest.importorskip("schemathesis")

LOOK = settings(
    max_examples=12, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.slow
def test_schemathesis_finds_nothing(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    """Generated requests, with and without a key: no 5xx, only documented statuses, types and bodies."""
    from schemathesis.specs.openapi import checks

    server = live(noisy_release, epsilon_cap=1000.0, failed_keys=10**6)
    key = server.key("fuzz", "admin", epsilon=1000.0)
    wanted = [
        schemathesis.checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
        checks.response_schema_conformance,
    ]  # fmt: skip
    seen: set[tuple[str, int]] = set()

    def explore(operation: Any) -> None:
        def check(case: Any) -> None:
            for headers in (key, {}):
                response = case.call(headers=headers)
                seen.add((operation.path, response.status_code))
                case.validate_response(response, checks=wanted)

        LOOK(given(case=operation.as_strategy())(check))()

    for result in schemathesis.openapi.from_url(f"{server.url}/openapi.json").get_all_operations():
        explore(result.ok())
    paths = {path for path, _ in seen}
    assert {"/v1/predict", "/v1/snapshots", "/v1/quote", "/v1/model", "/v1/guarantee", "/metrics"} <= paths
    assert {("/v1/predict", 401), ("/v1/model", 200), ("/healthz", 200)} <= seen
    assert not any(status >= 500 for _, status in seen)


def test_examples_work(live: Callable[..., Any], noisy_release: ev.Release) -> None:
    """The examples in the description are real requests."""
    server = live(noisy_release, epsilon_cap=9.0)
    key = server.key(role="curate", epsilon=5.0)
    paths = server.client.get("/openapi.json").json()["paths"]
    for path in ("/v1/predict", "/v1/quote"):
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        example = content["schema"]["examples"][0]
        assert server.post(path, key, json=example).status_code == 200
