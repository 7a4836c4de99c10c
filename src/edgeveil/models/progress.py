"""A progress display for training: a bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edgeveil.models.train import Progress

__all__ = ["training_bar"]


@contextmanager
def training_bar(label: str = "training", console: Any = None) -> Iterator[Progress]:
    """A callback for `fit(progress=...)`; elsewhere than on a terminal it prints a line per tenth of the epochs."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total, figures: _line(console, label, done, total, figures)
        return
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int, figures: dict[str, float]) -> None:
            bar.update(task, completed=done, total=total, description=f"{label} loss {figures['loss']:.3f}")

        yield advance


def _line(console: Any, label: str, done: int, total: int, figures: dict[str, float]) -> None:
    if done == total or done % max(1, total // 10) == 0:
        shown = [f"{name} {value:.4f}" for name, value in figures.items() if not math.isnan(value)]
        console.print(f"{label} {done}/{total}: {', '.join(shown)}", highlight=False)
