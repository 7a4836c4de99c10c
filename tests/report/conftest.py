"""Figures of equal data are drawn once: drawing a page takes longer than all else that these tests do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgeveil.report import detail, page

_drawn: dict[Any, list[tuple[dict[str, str], Any]]] = {}


class Noted:
    """Data that notes which of its parts a figure reads."""

    def __init__(self, data: Any) -> None:
        self.data, self.read = data, dict[str, str]()

    def __getattr__(self, name: str) -> Any:
        part = getattr(self.data, name)
        self.read[name] = repr(part)
        return part


def once(plot: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A figure of one argument, drawn again only where a part that it reads has changed."""

    def draw(data: Any) -> Any:
        known = _drawn.setdefault(plot, [])
        for read, figure in known:
            if all(repr(getattr(data, name)) == part for name, part in read.items()):
                return figure
        noted = Noted(data)
        figure = plot(noted)
        known.append((noted.read, figure))
        return figure

    return draw


def once_of_all(plot: Callable[..., Any]) -> Callable[..., Any]:
    """A figure drawn again only where anything in its arguments has changed."""

    def draw(*given: Any) -> Any:
        key = plot, repr([vars(one) if hasattr(one, "__dict__") else one for one in given])
        assert " at 0x" not in key[1], "an argument is told by its address"
        known = _drawn.setdefault(key, [])
        if not known:
            known.append(({}, plot(*given)))
        return known[0][1]

    return draw


@pytest.fixture(autouse=True)
def drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until `monkeypatch.undo()`."""
    monkeypatch.setattr(detail, "DETAILS", tuple(map(once, detail.DETAILS)))
    monkeypatch.setattr(detail, "heatmap_plots", once(detail.heatmap_plots))
    for name in ("tradeoff_plot", "epsilon_plot"):
        monkeypatch.setattr(page, name, once_of_all(getattr(page, name)))
