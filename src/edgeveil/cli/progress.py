"""Progress of many runs: a live bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeveil.runs.tasks import Outcome

__all__ = ["RunProgress", "ShareProgress", "duration"]

EVERY = 10.0  # seconds between plain lines


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.4 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class RunProgress:
    """Counts runs on standard error. Use as a context manager; `kept` is where finished runs are."""

    def __init__(self, quiet: bool = False, kept: Path | None = None) -> None:
        self._bar: Any = None
        self._quiet = quiet
        self._kept = kept
        self._total = self._count = self._failed = 0
        self._last = 0.0

    def __enter__(self) -> RunProgress:
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, total: int, finished: int) -> None:
        """Say how much is there already."""
        self._total, self._count, self._last = total, finished, time.monotonic()
        if self._bar is not None:
            for task in self._bar.task_ids:  # of an earlier part
                self._bar.remove_task(task)
            self._task = self._bar.add_task("", total=total, completed=finished)
        elif not self._quiet:
            print(f"{total} runs, {finished} finished before", file=sys.stderr, flush=True)

    def advance(self, outcome: Outcome, left: float | None) -> None:
        """One more run is through."""
        self._count += 1
        self._failed += outcome.result is None
        text = f"{f'{self._failed} failed, ' if self._failed else ''}{duration(left or 0)} left"
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=text)
        elif not self._quiet and (time.monotonic() - self._last > EVERY or self._count == self._total):
            self._last = time.monotonic()
            print(f"{self._count}/{self._total} runs, {text}", file=sys.stderr, flush=True)

    def interrupted(self, finished: int, total: int) -> None:
        """Say what an interrupt has not lost."""
        where = "" if self._kept is None else f" in {self._kept}"
        print(f"{finished} of {total} runs are finished and kept{where}", file=sys.stderr, flush=True)


class ShareProgress:
    """One job in named steps on standard error: a bar on a terminal, a line per step elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._step = ""

    def __enter__(self) -> ShareProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: str, share: float) -> None:
        """Where the job is."""
        if self._bar is not None:
            self._bar.update(self._task, completed=share, description=step)
        elif step != self._step:
            print(f"{100 * share:.0f} %: {step}", file=sys.stderr, flush=True)
        self._step = step
