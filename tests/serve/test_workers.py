"""Several processes behind one port: every one answers, and together they grant no more than the ledger allows."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import edgeveil as ev


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_workers_share_port_and_ledger(command: Callable[..., Any], noisy_release: ev.Release) -> None:
    server = command(noisy_release, "--workers", "2")
    key = server.key(queries=60)

    def ask(_: int) -> tuple[int, str]:
        got = httpx.post(f"{server.url}/v1/predict", headers=key, json={"nodes": [1]}, timeout=60, trust_env=False,
                         verify=False)  # fmt: skip
        return got.status_code, got.headers["x-request-id"][:8]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(120)))
    assert [status for status, _ in answers].count(200) <= 60
    assert {status for status, _ in answers} == {200, 429}
    assert len({process for _, process in answers}) == 2  # a request id begins with its process
    times = []
    with httpx.Client(base_url=server.url, headers=key, trust_env=False) as client:
        for _ in range(20):
            started = time.perf_counter()
            client.get("/healthz")
            times.append(time.perf_counter() - started)
    assert sorted(times)[10] < 0.03  # accepted connections know that they are TCP here too
    server.child.send_signal(signal.SIGTERM)
    assert server.child.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_workers_that_cannot_start_say_why_without_a_traceback(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "edgeveil", "serve", "nowhere", "--workers", "2", "--state", "state", "--port", "0"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    assert "error: nowhere is not a release" in done.stderr and "ended by itself" in done.stderr
