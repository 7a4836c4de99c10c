"""What clients without a key can break, and what honest users of a guarded server are refused."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from live_server import NPZ, serving


def honest(release: Path, sessions: int) -> dict[str, Any]:
    """Honest made-up users of an opened server: what is refused, and what is answered alone."""
    from edgeveil.release.release import Release
    from edgeveil.serve.engine import Engine
    from edgeveil.trials.guard_trial import honest_sessions

    engine, counts = Engine(Release.load(release)), {"asked": 0, "refused": 0, "alone": 0}
    with serving(release, "opened, defaults") as server, httpx.Client(timeout=60, trust_env=False) as client:
        for number, session in enumerate(honest_sessions(engine, sessions, 1)):
            headers = {"authorization": f"Bearer {server.key(f'user-{number}')[0]}"}
            for query in session.queries:
                body: dict[str, Any] = {"nodes": query.nodes.tolist()}
                if query.features is not None:
                    body |= {"features": np.asarray(query.features).tolist(), "answer": query.answer.tolist()}
                got = client.post(f"{server.url}/v1/predict", headers=headers, json=body)
                counts["asked"] += 1
                counts["refused"] += got.status_code != 200
                counts["alone"] += got.status_code == 200 and got.json().get("alone", False)
    return counts


def drip(release: Path, connections: int, seconds: float) -> dict[str, Any]:
    """Connections that drip a body to /healthz; a client with a key goes on asking, each time on a new connection."""
    with serving(release, "defaults (closed)") as server:
        key = server.key("alice")[0]
        address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        held: list[socket.socket] = []
        over = threading.Event()

        def open_all() -> None:
            head = b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
            while not over.is_set():
                while len(held) < connections:
                    held.append(socket.create_connection(address, 10, ("127.0.0.2", 0)))  # not the client's address
                    with contextlib.suppress(OSError):
                        held[-1].sendall(head)
                for one in list(held):
                    try:
                        one.send(b"x")
                    except OSError:
                        held.remove(one)
                        one.close()
                over.wait(0.5)

        thread = threading.Thread(target=open_all, daemon=True)
        thread.start()
        asked = answered = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            asked += 1
            answered += _predict(server.url, key) == 200
            time.sleep(0.1)
        over.set()
        thread.join()
        for one in held:
            one.close()
    return {"attack": f"{connections} connections drip a body", "asked": asked, "answered": answered}


def _predict(url: str, key: str) -> int:
    try:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(
            f"{url}/v1/predict", headers=headers, json={"nodes": [0]}, timeout=10, trust_env=False
        ).status_code
    except httpx.TransportError:
        return 0


def archives(release: Path, count: int) -> dict[str, Any]:
    """Archives of 20,000 members, and a client that goes on asking meanwhile."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for i in range(20_000):
            file.writestr(f"a{i}.npy", b"")
    with serving(release, "defaults (closed)") as server:
        headers = {"authorization": f"Bearer {server.key('bob')[0]}", "content-type": NPZ}
        key, statuses = server.key("alice")[0], []

        def flood() -> None:
            for _ in range(count):
                got = httpx.post(
                    f"{server.url}/v1/predict", headers=headers, content=buffer.getvalue(), trust_env=False
                )
                statuses.append(got.status_code)

        before = cpu_seconds(server.child.pid)
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        asked = [_predict(server.url, key) for _ in range(10)]
        for thread in threads:
            thread.join()
        spent = (cpu_seconds(server.child.pid) - before) / len(statuses)
    return {"attack": f"{len(statuses)} archives of 20,000 members", "asked": len(asked), "answered": asked.count(200),
            "note": f"{1000 * spent:.0f} ms of CPU each, status {sorted(set(statuses))}"}  # fmt: skip


def cpu_seconds(process: int) -> float:
    """User and system time of a process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def overflow(release: Path, nodes: Any, width: int) -> dict[str, Any]:
    """Rows of 1e308 and just beyond the allowed reach; no answer may hold a number that is not finite."""
    with serving(release, "8 cross-readings") as server:
        headers = {"authorization": f"Bearer {server.key('bob')[0]}"}
        seen = []
        for value in (1e308, -1e308, 1e200, 1e30, 1e5):
            body = {"nodes": [0], "features": [[value] * width], "answer": nodes.tolist()}
            got = httpx.post(f"{server.url}/v1/predict", headers=headers, json=body, timeout=60, trust_env=False)
            seen.append((got.status_code, "NaN" in got.text or "Infinity" in got.text))
    leaked = sum(status == 200 or bad for status, bad in seen)
    return {"attack": "rows of up to 1e308", "asked": len(seen), "answered": leaked, "note": "none may be answered"}


def guesses(release: Path, count: int) -> dict[str, Any]:
    """Made-up keys, while a client with a key in use goes on asking."""
    with serving(release, "defaults (closed)") as server:
        key = server.key("alice")[0]
        _predict(server.url, key)
        statuses = [_predict(server.url, f"ev_{i:016x}_" + "x" * 43) for i in range(count)]
        asked = [_predict(server.url, key) for _ in range(10)]
    note = f"{statuses.count(401)} of {count} guesses were checked, the rest turned away"
    return {"attack": f"{count} made-up keys", "asked": 10, "answered": asked.count(200), "note": note}
