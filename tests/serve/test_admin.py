"""The operator's page: sessions and CSRF by plain HTTP, and the whole round in a real headless Chromium."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import edgeveil as ev
from browser import chromium
from edgeveil.serve.guard import Decision


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


def test_text_that_is_not_ascii_is_refused_like_any_other(server: Any) -> None:
    text, _ = server.service.keys.add("alice", "admin")
    log_in(server, text)
    raw = http.client.HTTPConnection(server.url.removeprefix("http://"))
    raw.putrequest("GET", "/admin")
    raw.putheader("cookie", b"edgeveil_operator=a.b.c.\xc3\xa4\xff")
    raw.endheaders()
    answer = raw.getresponse()
    assert answer.status == 200 and b"Admin key" in answer.read()
    raw.close()
    posted = server.client.post("/admin/revoke", data={"csrf": "ä€", "key": "x"}, headers={"origin": server.url})
    assert posted.status_code == 403 and posted.json()["error"]["code"] == "bad_csrf"


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


def test_logging_out_ends_the_session_also_for_a_copied_cookie(server: Any) -> None:
    text, _ = server.service.keys.add("alice", "admin")
    log_in(server, text)
    copied = server.client.cookies["edgeveil_operator"]
    page = server.client.get("/admin").text
    left = server.client.post("/admin/logout", data={"csrf": csrf(page)}, headers={"origin": server.url})
    assert left.status_code == 303
    again = server.client.get("/admin", headers={"cookie": f"edgeveil_operator={copied}"})
    assert "Admin key" in again.text


def test_markup_is_escaped(server: Any) -> None:
    text, _ = server.service.keys.add("alice", "admin", note="<script>alert(1)</script>")
    log_in(server, text)
    assert "&lt;script&gt;" in server.client.get("/admin").text


# -- a real browser ---------------------------------------------------------------------------------------------------


class Page:
    """What the operator sees; every look waits for the answer to the last click, as a person does."""

    def __init__(self, driver: Any) -> None:
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver = driver
        # absent, or replaced under one's eyes: Chromium has more than one name for the latter
        self._wait = WebDriverWait(driver, 60, poll_frequency=0.05, ignored_exceptions=(WebDriverException,))

    def write(self, selector: str, text: str) -> None:
        self._wait.until(lambda d: d.find_element("css selector", selector)).send_keys(text)

    def click(self, selector: str) -> None:
        self._wait.until(lambda d: d.find_element("css selector", selector)).click()

    def shows(self, selector: str, *parts: str) -> bool:
        def read(driver: Any) -> bool:
            text = driver.find_element("css selector", selector).text
            return all(part in text for part in parts)

        return bool(self._wait.until(read, f"{selector} never showed {parts}"))


def test_the_operator_in_chromium(server: Any, graph: ev.Graph) -> None:
    """Log in, read budget and review list, revoke a key with one click, leave."""
    admin, _ = server.service.keys.add("alice", "admin")
    bob = server.key("bob", "curate", epsilon=3.0)
    made = {"name": "monday", "num_nodes": 80, "edges": graph.edge_index.T.tolist(), "epsilon": 1.5}
    assert server.post("/v1/snapshots", bob, json=made).status_code == 200
    server.post("/v1/predict", bob, json={"nodes": [0]})
    bob_id = next(key.id for key in server.service.keys.list() if key.tenant == "bob")
    server.service.watch.note(bob_id, "bob", Decision("review", "single", 8, 8))

    with chromium() as driver:
        page = Page(driver)
        driver.get(f"{server.url}/admin")
        page.write("#key", "wrong")
        page.click("#enter")
        assert page.shows("#message", "unknown")
        page.write("#key", admin)
        page.click("#enter")
        assert page.shows("#guarantee", "2-differential privacy")
        assert page.shows("#epsilon", "edges:graph 3.5 6 2.5", "tenant:bob 1.5 3 1.5")
        assert page.shows("#traffic", "bob") and page.shows("#snapshots", "monday")
        assert page.shows("#reviews", "single 8 review")
        assert page.shows(f"#state-{bob_id}", "active")
        page.click(f"#revoke-{bob_id}")
        assert page.shows(f"#state-{bob_id}", "revoked")
        assert server.post("/v1/predict", bob, json={"nodes": [0]}).json()["error"]["code"] == "revoked_key"
        page.click(f"#clear-{bob_id}")
        assert page.shows("#reviews", "Nothing to review.")
        complaints = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not [c for c in complaints if "favicon" not in c and "401" not in c]
        page.click("#logout")
        assert page.shows("body", "Admin key")
