"""Downloading one file: resumed where it broke off, checked, and put in place in one step."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from edgeveil.graph.sources.cache import Progress, SourceFailed

__all__ = ["digest", "download", "verify"]

ATTEMPTS = 3
TIMEOUT = 30.0
BLOCK = 1 << 20


def download(
    url: str, target: Path, check: str = "", progress: Progress | None = None, timeout: float = TIMEOUT
) -> Path:
    """Fetch `url` to `target` unless it is there. A broken transfer leaves ``<target>.part``, and the next goes on."""
    if target.is_file():
        return target
    if urlsplit(url).scheme not in ("http", "https"):
        raise SourceFailed(f"{url} is not an http(s) address")
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        resumed = _complete(url, part, progress, timeout)
        problem = verify(part, check)
        if problem and resumed:  # the kept beginning may belong to an older file: once more from scratch
            part.unlink()
            _complete(url, part, progress, timeout)
            problem = verify(part, check)
        if problem:
            part.unlink()
            raise SourceFailed(f"{url} {problem}; it was thrown away")
        part.replace(target)
    except OSError as error:
        raise SourceFailed(f"cannot store {target}: {error.strerror or error}") from error
    return target


def _complete(url: str, part: Path, progress: Progress | None, timeout: float) -> bool:
    """Transfer until the announced length is there; says whether an earlier beginning was used."""
    resumed = part.is_file() and part.stat().st_size > 0
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            total = _transfer(url, part, progress, timeout)
        except urllib.error.HTTPError as error:
            raise SourceFailed(f"{url} answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            continue
        have = part.stat().st_size
        if total is None or have == total:
            return resumed
        reason = f"only {have:,} of {total:,} bytes came"
        if have > total:
            part.unlink()
    raise SourceFailed(f"{url} failed {ATTEMPTS} times ({reason}); what came is kept, so a new try goes on from there")


def _transfer(url: str, part: Path, progress: Progress | None, timeout: float) -> int | None:
    """One request, from where the partial file ends; returns the length of the whole file if it is known."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "edgeveil", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)  # schemes are checked by the caller
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            return _total(error.headers.get("Content-Range", ""), have)
        raise
    with answer:
        appending = answer.status == 206
        length = answer.headers.get("Content-Length")
        start = have if appending else 0
        total = start + int(length) if length and length.isdigit() else None
        with part.open("ab" if appending else "wb") as file:
            for block in _blocks(answer):
                file.write(block)
                start += len(block)
                if progress:
                    progress(url.rsplit("/", 1)[-1], start, total or 0)
    return total


def _blocks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        block = answer.read1(BLOCK)
        if not block:
            return
        yield block


def _total(content_range: str, have: int) -> int:
    size = content_range.rsplit("/", 1)[-1]
    return int(size) if size.isdigit() else have


def digest(path: Path, kind: str = "sha256") -> str:
    """sha256 of a file, or its git blob id."""
    value = hashlib.sha256() if kind == "sha256" else hashlib.sha1(usedforsecurity=False)
    if kind == "git":
        value.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            value.update(block)
    return value.hexdigest()


def verify(path: Path, check: str) -> str:
    """What is wrong with a file, given ``sha256:<hex>`` or ``git:<blob id>``; empty if nothing."""
    if not check:
        return ""
    kind, _, wanted = check.partition(":")
    got = digest(path, kind)
    return "" if got == wanted else f"has the wrong checksum: {kind} {got} instead of {wanted}"
