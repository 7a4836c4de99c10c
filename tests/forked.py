"""A process of its own without a new interpreter: forked from a server that has imported everything once.

The child leads its own session, has the given folder, environment and streams, and can be signalled and killed like one
that a shell started; what it saves is two seconds of imports each time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

__all__ = ["Child", "edgeveil", "python", "share_one_server"]

PRELOAD = ["edgeveil.runs.preload", "edgeveil.serve.server", "edgeveil.report.audit_report", "matplotlib.figure"]
PRELOAD += ["torch_geometric.nn"]  # three seconds in each child that reads a user's model
_preload = BaseContext.set_forkserver_preload


def share_one_server() -> None:
    """A process has one server: if an executor of the package starts it, it still imports what children here need."""

    def preload(context: BaseContext, names: list[str]) -> None:
        _preload(context, [*PRELOAD, *(name for name in names if name not in PRELOAD)])

    BaseContext.set_forkserver_preload = preload  # type: ignore[method-assign,assignment]


def _live(words: list[str], cwd: str, env: Mapping[str, str], out: str, err: str) -> None:
    """The child: a script if the first word is one, else the command line."""
    from edgeveil.cli.main import main

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, whatever the server inherited
    os.environ.clear()
    os.environ.update(env)
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, stream)
        os.close(file)
    os.chdir(cwd)
    sys.argv = words
    if words[0].endswith(".py"):
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")
    else:
        sys.path.insert(0, cwd)
        main()


class Child:
    """A running child; the methods are those of `subprocess.Popen` that tests use."""

    def __init__(self, *words: object, cwd: Path, out: Path, err: Path | None = None, **env: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        args = ([str(w) for w in words], str(cwd), {**os.environ, **env}, str(out), str(err or out))
        self._process: Any = context.Process(target=_live, args=args)
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("forked child", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal it; one that has ended is left alone."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as SIGKILL does."""
        self.send_signal(signal.SIGKILL)


def _finished(words: tuple[object, ...], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        child = Child(*words, cwd=cwd, out=out, err=err, **env)
        try:
            code = child.wait(280)
        finally:
            child.kill()
        return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())


def edgeveil(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """What a shell would see of ``edgeveil ...`` run in `cwd`."""
    return _finished(("edgeveil", *words), cwd, env)


def python(script: Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """What a shell would see of ``python script`` run in `cwd`."""
    return _finished((script,), cwd, env)
