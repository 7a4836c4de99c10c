"""HTML of the operator's page: plain forms, no script, no external asset, everything escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from edgeveil.privacy.ledger.accounts import Account
from edgeveil.privacy.ledger.units import UNLIMITED, from_units
from edgeveil.serve.auth import Key

__all__ = ["admin_page", "login_page"]

_PAGE = Template(files("edgeveil.serve").joinpath("templates/page.html").read_text(encoding="utf-8"))


def _page(title: str, body: str, nonce: str) -> str:
    return _PAGE.substitute(title=escape(title), body=body, nonce=nonce)


def login_page(nonce: str, message: str = "") -> str:
    """The form that asks for an admin key."""
    note = f'<p class="bad" id="message">{escape(message)}</p>' if message else ""
    form = (
        '<form method="post" action="/admin/login"><p><label for="key">Admin key</label><br>'
        '<input id="key" name="key" type="password" autocomplete="off" required></p>'
        '<p><button id="enter">Enter</button></p></form>'
    )
    return _page("operator", f"<h1>edgeveil: operator</h1>{note}{form}", nonce)


def admin_page(facts: dict[str, Any], nonce: str, csrf: str) -> str:
    """Everything the operator looks at, on one page."""
    parts = [
        f"<header><h1>edgeveil: {escape(facts['title'])}</h1>{_button('logout', '', 'Leave', csrf)}</header>",
        f'<h2>Guarantee</h2><p id="guarantee">{escape(facts["statement"])}</p>',
        f'<p class="weak">{escape(facts["free"])}.</p>',
        "<h2>Epsilon</h2>",
        _epsilon(facts["epsilon"], facts["unbounded"]),
        "<h2>Traffic</h2>",
        _traffic(facts["queries"]),
        "<h2>Review list</h2>",
        _reviews(facts["reviews"], csrf),
        "<h2>Keys</h2>",
        _keys(facts["keys"], facts["now"], csrf),
        "<h2>Snapshots</h2>",
        _snapshots(facts["snapshots"]),
    ]
    return _page("operator", "\n".join(parts), nonce)


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    if not body:
        return f'<p class="weak" id="{name}">{escape(empty)}</p>'
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    return f'<div class="wide"><table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _button(action: str, value: str, label: str, csrf: str) -> str:
    fields = {"csrf": csrf, "key": value}
    hidden = "".join(f'<input type="hidden" name="{name}" value="{escape(text)}">' for name, text in fields.items())
    mark = f"{action}-{value}" if value else action
    return (
        f'<form class="inline" method="post" action="/admin/{action}">{hidden}'
        f'<button id="{escape(mark)}">{escape(label)}</button></form>'
    )


def _epsilon(accounts: list[Account], unbounded: Mapping[str, str]) -> str:
    rows = []
    for account in accounts:
        if account.subject in unbounded:
            why = escape(unbounded[account.subject])
            rows.append([escape(account.subject), "unbounded for ever", "", "", why])
            continue
        used, cap = float(from_units(account.used)), float(from_units(account.cap))
        if account.cap >= UNLIMITED:
            rows.append([escape(account.subject), f"{used:g}", "no cap", "", ""])
            continue
        meter = f'<meter min="0" max="{max(cap, 1e-9):g}" value="{used:g}">{used:g}</meter>'
        rows.append([escape(account.subject), f"{used:g}", f"{cap:g}", f"{cap - used:g}", meter])
    return _table("epsilon", ["account", "spent", "cap", "left", ""], rows, "No account yet.")


def _traffic(accounts: list[Account]) -> str:
    rows = [
        [escape(a.subject.removeprefix("tenant:")), str(a.used), "no limit" if a.cap >= UNLIMITED else str(a.cap)]
        for a in accounts
    ]
    return _table("traffic", ["tenant", "queries leased", "limit Q"], rows, "No query yet.")


def _reviews(reviews: list[dict[str, Any]], csrf: str) -> str:
    rows = [
        [
            _day(r["at"]),
            f"<code>{escape(r['key_id'])}</code>",
            escape(r["tenant"]),
            escape(r["detector"]),
            str(r["score"]),
            f'<span class="bad">{escape(r["action"])}</span>',
            _button("clear", r["key_id"], "Clear", csrf),
        ]
        for r in reviews
    ]
    return _table("reviews", ["when", "key", "tenant", "pattern", "score", "action", ""], rows, "Nothing to review.")


def _keys(keys: list[Key], now: int, csrf: str) -> str:
    rows = []
    for key in keys:
        state = key.state(now)
        colour = "good" if state == "active" else "bad"
        action = _button("revoke", key.id, "Revoke", csrf) if state == "active" else ""
        expires = "never" if key.expires is None else _day(key.expires)
        mark = f'<span class="{colour}" id="state-{escape(key.id)}">{state}</span>'
        cells = [
            f"<code>{escape(key.id)}</code>",
            escape(key.tenant),
            key.role,
            mark,
            expires,
            escape(key.note),
            action,
        ]
        rows.append(cells)
    return _table("keys", ["key", "tenant", "role", "state", "expires", "note", ""], rows, "No key yet.")


def _snapshots(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            f"<code>{escape(r['id'])}</code>",
            escape(r["name"]),
            escape(r["edge_set"]),
            str(r["num_nodes"]),
            _day(r["at"]),
        ]
        for r in rows
    ]
    return _table("snapshots", ["snapshot", "name", "edge set", "nodes", "made"], cells, "No snapshot yet.")


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)) + " UTC"
