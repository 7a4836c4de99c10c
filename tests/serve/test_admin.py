"""The operator's page: sessions and CSRF by plain HTTP, and the whole round in a real headless Chromium."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import edgeveil as ev


@pytest.fixture
def server(live: Callable[..., Any], noisy_release: ev.Release) -> Any:
    return live(noisy_release, epsilon_cap=6.0)


def log_in(server: Any, key: str) -> httpx.Response:
    return server.client.post("/admin/login", data={"key": key}, headers={"origin": server.url})


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert found
    return found.group(1)


def test_the_page_is_closed_without_an_admin_key(server: Any) -> None:
    assert "Admin key" in server.client.get("/admin").text
    weak, _ = server.service.keys.add("bob", "query")
    assert log_in(server, weak).status_code == 403
    assert log_in(server, "nonsense").status_code == 401
    assert "set-cookie" not in log_in(server, weak).headers
    for forged in ("a.b.c.d", "x.99999999999.y." + "0" * 64, ""):
        page = server.client.get("/admin", headers={"cookie": f"edgeveil_operator={forged}"})
        assert "Admin key" in page.text


def test_session_cookie_headers_and_no_external_asset(server: Any) -> None:
    text, record = server.service.keys.add("alice", "admin")
    answer = log_in(server, text)
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 303
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/admin" in cookie
    page = server.client.get("/admin")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert not re.search(r'(src|href)\s*=\s*"?(https?:)?//', page.text) and "<script" not in page.text
    assert "2-differential privacy" in page.text and text not in page.text
    server.service.keys.revoke(record.id)
    assert "Admin key" in server.client.get("/admin").text  # a session dies with its key


def test_posts_need_the_token_and_the_same_origin(server: Any) -> None:
    text, _ = server.service.keys.add("alice", "admin")
    _, victim = server.service.keys.add("bob", "query")
    log_in(server, text)
    token = csrf(server.client.get("/admin").text)

    def revoke(headers: dict[str, str], **form: str) -> tuple[int, str]:
        answer = server.client.post("/admin/revoke", data={"key": victim.id, **form}, headers=headers)
        return answer.status_code, answer.json()["error"]["code"] if answer.status_code >= 400 else ""

    own = {"origin": server.url}
    assert revoke(own) == (403, "bad_csrf")
    assert revoke(own, csrf="0" * 64) == (403, "bad_csrf")
    assert revoke({}, csrf=token) == (403, "cross_origin")
    assert revoke({"origin": "http://evil.example"}, csrf=token) == (403, "cross_origin")
    assert revoke({**own, "sec-fetch-site": "cross-site"}, csrf=token) == (403, "cross_origin")
    assert server.service.keys.find(victim.id)[0].revoked is None
    assert revoke(own, csrf=token) == (303, "")
    assert server.service.keys.find(victim.id)[0].revoked is not None
    server.client.cookies.clear()
    assert revoke(own, csrf=token) == (401, "no_session")


def test_markup_is_escaped(server: Any) -> None:
    text, _ = server.service.keys.add("alice", "admin", note="<script>alert(1)</script>")
    log_in(server, text)
    assert "&lt;script&gt;" in server.client.get("/admin").text


# -- a real browser ---------------------------------------------------------------------------------------------------


def find_browser() -> tuple[str, str] | None:
    for _ in range(2):
        browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if browser and driver:
            return browser, driver
        if os.environ.get("CI") != "true":
            return None
        command = ["apt-get", "install", "-y", "-q", "chromium", "chromium-driver"]
        subprocess.run(command, check=False, capture_output=True)
    return None


class Browser:
    """The few WebDriver calls that are needed, over the driver's own HTTP interface."""

    def __init__(self, url: str, browser: str, profile: Path) -> None:
        self._client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
        ]
        options = {"binary": browser, "args": flags}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        answer = self._client.post("/session", json=wanted).json()["value"]
        assert "sessionId" in answer, answer
        self._path = f"/session/{answer['sessionId']}"

    def _post(self, path: str, **body: Any) -> Any:
        answer = self._client.post(self._path + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, url: str) -> None:
        self._post("/url", url=url)

    def find(self, selector: str) -> str:
        return str(next(iter(self._post("/element", using="css selector", value=selector).values())))

    def write(self, selector: str, text: str) -> None:
        self._post(f"/element/{self.find(selector)}/value", text=text)

    def click(self, selector: str) -> None:
        self._post(f"/element/{self.find(selector)}/click")

    def text(self, selector: str) -> str:
        return str(self._client.get(f"{self._path}/element/{self.find(selector)}/text").json()["value"])

    def source(self) -> str:
        return str(self._client.get(f"{self._path}/source").json()["value"])

    def log(self) -> list[dict[str, Any]]:
        return list(self._post("/se/log", type="browser"))

    def close(self) -> None:
        self._client.delete(self._path)
        self._client.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium here (apt-get install chromium chromium-driver, or CI=true to let the tests do it)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    driver = subprocess.Popen([found[1], f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            if httpx.get(f"{url}/status", trust_env=False).json()["value"]["ready"]:
                break
        except httpx.TransportError:
            time.sleep(0.05)
    window = Browser(url, found[0], tmp_path / "profile")
    yield window
    window.close()
    driver.terminate()
    driver.wait(20)


def test_the_operator_in_chromium(server: Any, browser: Browser, graph: ev.Graph) -> None:
    """Log in, read budget and review list, revoke a key with one click, leave."""
    admin, _ = server.service.keys.add("alice", "admin")
    bob = server.key("bob", "curate", epsilon=3.0)
    made = {"name": "monday", "num_nodes": 80, "edges": graph.edge_index.T.tolist(), "epsilon": 1.5}
    assert server.post("/v1/snapshots", bob, json=made).status_code == 200
    server.post("/v1/predict", bob, json={"nodes": [0]})
    bob_id = next(key.id for key in server.service.keys.list() if key.tenant == "bob")
    from edgeveil.serve.guard import Decision

    server.service.watch._review(bob_id, "bob", Decision("review", "single", 8, 8))

    browser.open(f"{server.url}/admin")
    browser.write("#key", "wrong")
    browser.click("#enter")
    assert "unknown" in browser.text("#message")
    browser.write("#key", admin)
    browser.click("#enter")
    assert "2-differential privacy" in browser.text("#guarantee")
    budget = browser.text("#epsilon")
    assert "edges:graph 3.5 6 2.5" in budget and "tenant:bob 1.5 3 1.5" in budget
    assert "bob" in browser.text("#traffic") and "monday" in browser.text("#snapshots")
    assert "single 8 review" in browser.text("#reviews")
    assert browser.text(f"#state-{bob_id}") == "active"
    browser.click(f"#revoke-{bob_id}")
    assert browser.text(f"#state-{bob_id}") == "revoked"
    assert server.post("/v1/predict", bob, json={"nodes": [0]}).json()["error"]["code"] == "revoked_key"
    browser.click(f"#clear-{bob_id}")
    assert browser.text("#reviews") == "Nothing to review."
    complaints = [entry["message"] for entry in browser.log() if entry["level"] == "SEVERE"]
    assert not [c for c in complaints if "favicon" not in c and "401" not in c]
    browser.click("#logout")
    assert "Admin key" in browser.source()
