"""A real `edgeveil serve` under a chosen guard, for benchmarks that attack one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

NPZ = "application/x-npz"
GUARDS = {
    "off": 'changed_features = true\n[guard]\naction = "off"\n',
    "8 cross-readings": "changed_features = true\n[guard]\ncross_readings = 8\ncross_readings_all = 8\nDETECTORS",
    "2 cross-readings": "changed_features = true\n[guard]\ncross_readings = 2\ncross_readings_all = 2\nDETECTORS",
    "opened, defaults": "changed_features = true\n",
    "defaults (closed)": "",
}
BODY = 2**27  # room for all of Cora's features in one question
DETECTORS = (
    "single_limit = 100000\ngrouped_limit = 100000\nscan_limit = 100000\nshared_limit = 100000\ncross_limit = 100000\n"
)


@dataclass
class Server:
    """The command as a process, its keys, and a client."""

    folder: Path
    release: Path
    config: str
    output: str = "logits"
    url: str = ""
    keys: dict[str, list[str]] = field(default_factory=dict)
    child: Any = None

    def start(self) -> None:
        """Start the command and wait until it is ready."""
        (self.folder / "serve.toml").write_text(self.config.replace("DETECTORS", DETECTORS))
        words = [sys.executable, "-m", "edgeveil", "serve", str(self.release), "--state", str(self.folder / "state")]
        words += ["--config", str(self.folder / "serve.toml"), "--port", "0", "--output", self.output]
        log = self.folder / f"log-{time.monotonic_ns()}"
        with log.open("wb") as out:
            self.child = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        for _ in range(12_000):
            said = log.read_text()
            if " on http" in said and said.endswith("\n"):
                break
            if self.child.poll() is not None:
                raise SystemExit(said)
            time.sleep(0.05)
        self.url = "http" + said.split(" on http", 1)[1].split()[0]
        for _ in range(600):
            try:
                if httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise SystemExit(log.read_text())

    def stop(self) -> None:
        """An orderly stop."""
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(30)

    def key(self, tenant: str, count: int = 1) -> list[str]:
        """Keys of a tenant."""
        from edgeveil.privacy.ledger.database import Database
        from edgeveil.serve.auth import KeyStore

        have = self.keys.setdefault(tenant, [])
        database = Database(f"sqlite:///{self.folder / 'state' / 'ledger.db'}")
        while len(have) < count:
            have.append(KeyStore(database).add(tenant, "query")[0])
        database.close()
        return have


@contextmanager
def serving(release: Path, guard: str, output: str = "logits") -> Iterator[Server]:
    """A server under one of the guards."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(release, Path(folder) / "release")  # a ledger leaves its head beside the release
        server = Server(Path(folder), copy, f"max_body = {BODY}\n{GUARDS[guard]}", output)
        server.start()
        try:
            yield server
        finally:
            server.stop()
