"""`edgeveil ...` in this process: the real entry point with its exit code and both streams, without a new interpreter."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from edgeveil.cli.main import main

__all__ = ["edgeveil"]


def edgeveil(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """What a shell would see of the command, run in `cwd`."""
    argv = ["edgeveil", *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys, "path", [*sys.path]),
        mock.patch.dict(os.environ, env),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return subprocess.CompletedProcess(argv, int(str(code)), out.getvalue(), err.getvalue())
