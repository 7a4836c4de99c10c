"""Which code a module from outside is: a digest of its source and the versions it came with."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from torch import nn

from edgeveil.errors import StorageError
from edgeveil.models.own_models import OwnModel
from edgeveil.models.spec import Settings

__all__ = ["Source", "source_of"]

LIBRARIES = ("torch", "torch_geometric")


@dataclass(frozen=True, kw_only=True)
class Source(Settings):
    """`digest` covers the factory and every class of the module that is no part of torch or PyG; layout, comments and
    docstrings do not count. It is empty where Python keeps no source (a class typed at a prompt)."""

    name: str
    digest: str
    version: str | None = None
    torch: str | None = None
    torch_geometric: str | None = None

    def check(self, here: Source) -> None:
        """Raise unless the code at hand is that of the release."""
        if self.digest and here.digest and self.digest != here.digest:
            there, now = (f" of version {s.version}" if s.version else "" for s in (self, here))
            raise StorageError(
                f"the model {self.name!r} has changed since this release was made: source {self.digest[:12]}{there} "
                f"then, {here.digest[:12]}{now} now; its weights belong to the old code, so supply that"
            )


def source_of(own: OwnModel, module: nn.Module) -> Source:
    """The identity of a factory and of the module it made."""
    top = str(getattr(own.factory, "__module__", "")).partition(".")[0]
    parts = {_label(thing): text for thing in _things(own.factory, module) if (text := _text(thing))}
    known = "".join(f"{label}\n{parts[label]}\n" for label in sorted(parts))
    digest = hashlib.sha256(known.encode()).hexdigest() if known else ""
    libraries = {name: _version(name) for name in LIBRARIES}
    return Source(name=own.name, digest=digest, version=_version(top), **libraries)


def _things(factory: Any, module: nn.Module) -> list[Any]:
    """The factory, and the classes of the module and its parts with their bases."""
    classes = {base for part in module.modules() for base in type(part).__mro__}
    return [thing for thing in {factory, *classes} if _foreign(thing)]


def _foreign(thing: Any) -> bool:
    home = str(getattr(thing, "__module__", "builtins")).partition(".")[0]
    return home not in (*LIBRARIES, "builtins", "typing", "abc", "functools")


def _label(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def _text(thing: Any) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except (metadata.PackageNotFoundError, ValueError):
        return None
