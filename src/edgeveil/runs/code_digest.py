"""A digest of the code that can change a figure, so that rows of another version are never taken for this one's.

It covers everything that is imported, directly or not, from the measurement and from the families of methods. Modules
go by their logical name, the last part of the dotted one, and imports count by what they import, not from where: moving
a module from room to room changes no digest.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import edgeveil
from edgeveil.graph.sources.cache import cache_dir
from edgeveil.registry import Registry

__all__ = ["code_digest", "covered", "equal_codes", "module_digest", "remembered", "run_digest"]

START = "edgeveil.runs.measure"
FAMILIES = ("edgeveil.defences", "edgeveil.attacks")  # found by folder, not by import
_DOTTED = re.compile(r"edgeveil(?:\.\w+)*\.(\w+)")
_DIGEST = re.compile("[0-9a-f]{16}")


def module_digest(source: str) -> str:
    """Digest of a module's syntax tree: comments, layout, docstrings and where other modules live do not count."""
    return _read(source)[0]


@cache
def _read(source: str) -> tuple[str, tuple[str, ...]]:
    """Digest of a module, and the dotted names of this package that it imports anywhere, function bodies included."""
    tree = ast.parse(source)
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                node.value = _DOTTED.sub(r"\1", node.value)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").startswith("edgeveil"):
                names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
                node.module = "edgeveil"
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.startswith("edgeveil.")]
        elif (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(names)


def covered(root: Path | None = None) -> list[tuple[str, Path]]:
    """Every module that a figure can depend on, with its logical name."""
    root = root or Path(edgeveil.__file__).parent
    queue = deque(_files(START, root))
    for family in FAMILIES:
        queue += sorted((root / family.partition(".")[2]).rglob("*.py"))
    found: set[Path] = set()
    asked: set[str] = set()
    while queue:
        path = queue.popleft()
        if path not in found:
            found.add(path)
            new = set(_read(path.read_text("utf-8"))[1]) - asked
            asked |= new
            queue += [file for name in new for file in _files(name, root)]
    return sorted((path.parent.name if path.stem == "__init__" else path.stem, path) for path in found)


def _files(module: str, root: Path) -> Iterator[Path]:
    """The file of a module and those of the packages around it, which are imported with it."""
    parts = module.split(".")[1:]
    for depth in range(1, len(parts) + 1):
        base = root.joinpath(*parts[:depth])
        yield from (file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file())


def digest_of(root: Path) -> str:
    """The digest of a package that lies at `root`."""
    lines = sorted(f"{name}:{module_digest(path.read_text('utf-8'))}\n" for name, path in covered(root))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


@cache
def code_digest() -> str:
    """One digest over every module that a figure can depend on."""
    return remembered(Path(edgeveil.__file__).parent, cache_dir() / "code")


def remembered(root: Path, folder: Path) -> str:
    """`digest_of`, which reads 200 syntax trees, once per content of the package; `folder` keeps what it was."""
    kept = folder / _content(root)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if _DIGEST.fullmatch(text := kept.read_text("ascii")):
            return text
    digest = digest_of(root)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{kept.name}.{os.getpid()}"
        part.write_text(digest, "ascii")
        part.replace(kept)
    return digest


def _content(root: Path) -> str:
    """A name for every byte of the package's code and for the Python that reads it."""
    hasher = hashlib.sha256(sys.version.encode())
    for path in sorted(root.rglob("*.py")):
        body = path.read_bytes()
        hasher.update(f"{path.relative_to(root).as_posix()}:{len(body)}\n".encode() + body)
    return hasher.hexdigest()


def run_digest(config: Mapping[str, Any]) -> str:
    """The code of one run: the package's, and the source of every method that comes from elsewhere."""
    sources = sorted({file for cls in _methods(config) if (file := _foreign(cls)) is not None})
    if not sources:
        return code_digest()
    parts = [code_digest(), *(module_digest(Path(file).read_text("utf-8")) for file in sources)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _methods(config: Mapping[str, Any]) -> Iterator[type]:
    from edgeveil.attacks.attack import ATTACKS
    from edgeveil.defences.defence import DEFENCES
    from edgeveil.models.architectures import MODELS

    chosen: list[tuple[Registry[Any], Any]] = [(DEFENCES, config.get("defence")), (MODELS, config.get("model"))]
    chosen += [(ATTACKS, attack.get("name")) for attack in config.get("attacks", ())]
    for registry, name in chosen:
        if name is not None and name in registry:
            yield registry.get(name)


def _foreign(cls: type) -> str | None:
    if cls.__module__.partition(".")[0] == "edgeveil":
        return None
    try:
        return inspect.getsourcefile(cls)
    except TypeError:  # typed at a prompt: there is no file
        return None


@cache
def _carried() -> list[Mapping[str, Any]]:
    """The record of `scripts/carry_rows.py`: which code was found to give the same rows as which, for which methods."""
    found: list[Mapping[str, Any]] = json.loads((files("edgeveil.runs") / "data" / "carried_rows.json").read_text())
    return found


def equal_codes(code: str, defence: str) -> tuple[str, ...]:
    """A code's digest and those whose rows of a method were run again, up to this code, and found equal."""
    codes = {code: None}
    queue = deque(codes)
    while queue:
        newer = queue.popleft()
        for entry in _carried():
            if entry["to"] == newer and defence in entry["defences"] and entry["from"] not in codes:
                codes[entry["from"]] = None
                queue.append(entry["from"])
    return tuple(codes)
