"""The server as a process of its own: started by the command, killed in full flight, over TLS, and misconfigured."""

from __future__ import annotations

import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import edgeveil as ev
from edgeveil.errors import EdgeveilError, UsageError
from edgeveil.privacy.ledger.database import Database
from edgeveil.serve.auth import KeyStore
from edgeveil.serve.config import load_settings
from edgeveil.serve.server_ledger import Ledger
from forked import Child


class Process:
    """`edgeveil serve` with its own state folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        words = ("edgeveil", "serve", folder / "release", "--state", folder / "state", "--port", "0", *options)
        self.log = folder / f"log-{time.monotonic_ns()}"
        self.log.touch()
        self.child = Child(*words, cwd=folder, out=self.log)
        for _ in range(4000):
            text = self.log.read_text()
            if "serving" in text and " on http" in text:
                break
            assert self.child.poll() is None, text
            time.sleep(0.05)
        self.url = text.split(" on ", 1)[1].split()[0]

    def wait_ready(self, client: httpx.Client) -> None:
        for _ in range(600):
            try:
                if client.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def end(self, how: int = signal.SIGKILL) -> int:
        self.child.send_signal(how)
        return self.child.wait(30)


@pytest.fixture
def folder(tmp_path: Path, noisy_release: ev.Release) -> Path:
    noisy_release.save(tmp_path / "release")
    return tmp_path


def ledger_of(folder: Path) -> Ledger:
    return Ledger(Database(f"sqlite:///{folder / 'state' / 'ledger.db'}"))


def storm(url: str, key: str, answers: list[int], stop: threading.Event) -> None:
    """One client in a hurry; counts what it was really told."""
    with httpx.Client(
        base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=10, trust_env=False, verify=False
    ) as client:
        while not stop.is_set():
            try:
                status = client.post("/v1/predict", json={"nodes": [1]}).status_code
            except httpx.TransportError:
                return
            if status == 200:
                answers.append(1)
            elif status == 429:
                return


def check_server_kills(folder: Path, kills: int, limit: int) -> None:
    ledger = ledger_of(folder)
    key, _ = KeyStore(ledger.database).add("bob", "query", queries=limit)
    answers: list[int] = []
    rng = random.Random(0)
    for last in [False] * kills + [True]:
        server = Process(folder)
        with httpx.Client(trust_env=False) as client:
            server.wait_ready(client)
        stop = threading.Event()
        threads = [threading.Thread(target=storm, args=(server.url, key, answers, stop)) for _ in range(8)]
        for thread in threads:
            thread.start()
        if not last:
            enough = len(answers) + rng.randrange(1, 60)
            while len(answers) < enough and any(thread.is_alive() for thread in threads):
                time.sleep(0.001)
            server.end(signal.SIGKILL)
        for thread in threads:
            thread.join()
        stop.set()
        if last:
            server.end(signal.SIGTERM)
        assert len(answers) <= ledger.account("tenant:bob", "queries").used <= limit
    assert ledger.account("edges:graph").used == 2 * 10**9  # the release itself, charged once over all starts
    ledger.database.close()


def test_kill_9_never_grants_more(folder: Path) -> None:
    check_server_kills(folder, kills=1, limit=300)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kill_9_fifty_times(folder: Path) -> None:
    check_server_kills(folder, kills=50, limit=6000)


def test_an_orderly_stop_returns_unused_quota(live: Callable[..., Any]) -> None:
    server = live()
    key = server.key(queries=1000)
    for _ in range(7):
        assert server.post("/v1/predict", key, json={"nodes": [0]}).status_code == 200
    assert server.service.ledger.account("tenant:bob", "queries").used > 7
    server.stop()
    ledger = Ledger(Database(server.settings.ledger_url))
    assert ledger.account("tenant:bob", "queries").used == 7  # the ledger equals the answers given out
    ledger.database.close()


def test_tls(live: Callable[..., Any], tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, and a test certificate needs it")
    make = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    server = live(tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with httpx.Client(verify=context, trust_env=False) as client:
        answer = client.get(server.url.replace("http", "https") + "/healthz")
        assert answer.json() == {"status": "ok"} and "max-age" in answer.headers["strict-transport-security"]
    with httpx.Client(trust_env=False) as client, pytest.raises(httpx.TransportError):
        client.get(server.url + "/healthz")


@pytest.mark.timeout(60)
def test_bad_settings_end_with_one_sentence(folder: Path, graph: ev.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgeveil.cli.serve_command import serve

    monkeypatch.chdir(folder)
    config = folder / "serve.toml"
    config.write_text("portt = 5\n")
    good: dict[str, Any] = {"release": folder / "release", "state": folder / "state", "port": 0}
    for change, words in (
        ({"release": folder / "nothing"}, "is not a release"),
        ({"config": config}, "portt"),
        ({"config": folder / "gone.toml"}, "no settings file"),
        ({"output": "everything"}, "output"),
        ({"ledger": "mysql://x/y"}, "SQLite or PostgreSQL"),
        ({"host": "0.0.0.0"}, "loopback"),
        ({"tls_cert": folder / "c.pem"}, "TLS needs both"),
        ({"tls_cert": folder / "c.pem", "tls_key": folder / "k.pem"}, "no such file for TLS"),
        ({"epsilon_cap": 1.0, "state": folder / "other"}, "budget exceeded"),
        ({"release": None}, "release"),
        ({"state": folder / "serve.toml" / "below"}, "cannot write the state folder"),
    ):
        with pytest.raises(EdgeveilError, match=words):
            serve(**{**good, **change})
    monkeypatch.setenv("EDGEVEIL_SERVE_PORT", "many")
    with pytest.raises(UsageError, match="port"):
        serve(**{**good, "port": None})
    ev.defend(graph, "lapgraph", epsilon=1.0, seed=0).save(folder / "seeded")
    with pytest.raises(UsageError, match="--insecure-demo"):
        serve(**{**good, "release": folder / "seeded"})


def test_settings_come_from_file_environment_and_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('release = "r"\nport = 1\ndecimals = 2\nmax_nodes = 5\n[guard]\naction = "log"\nnear = 0.2\n')
    monkeypatch.setenv("EDGEVEIL_SERVE_PORT", "2")
    monkeypatch.setenv("EDGEVEIL_SERVE_GUARD__NEAR", "0.3")
    monkeypatch.setenv("EDGEVEIL_SERVE_DECIMALS", "3")
    settings = load_settings(file, decimals=4, output=None)
    assert (settings.port, settings.decimals, settings.max_nodes) == (2, 4, 5)
    assert (settings.guard.action, settings.guard.near) == ("log", 0.3)
    assert settings.ledger_url.startswith("sqlite:///")


def test_the_example_settings_are_valid() -> None:
    example = Path(__file__).parents[2] / "deploy" / "serve.toml"
    assert load_settings(example).guard.action == "refuse"


def test_a_missing_extra_is_one_sentence() -> None:
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'fastapi' else real(n, *a)\n"
        "sys.argv = ['edgeveil', 'serve', 'x']\n"
        "from edgeveil.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "error: edgeveil serve needs an optional dependency: pip install 'edgeveil[serve]'\n"


def test_the_page_describes_every_setting() -> None:
    from edgeveil.serve.config import GuardSettings, Settings

    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    missing = [name for name in Settings.model_fields if name != "guard" and f"| `{name}` |" not in page]
    missing += [name for name in GuardSettings.model_fields if f"| `guard.{name}` |" not in page]
    assert not missing


def test_the_page_lists_every_code() -> None:
    root = Path(__file__).parents[2]
    source = "".join(path.read_text() for path in (root / "src" / "edgeveil" / "serve").glob("*.py"))
    codes = set(re.findall(r'Problem\(\s*\d{3}, "(\w+)"', source)) - {"disconnected"}  # nobody is there to read it
    errors = (root / "docs" / "serve.md").read_text().partition("## Errors")[2].partition("\n## ")[0]
    assert len(codes) > 25 and not [code for code in codes if f"`{code}`" not in errors]
