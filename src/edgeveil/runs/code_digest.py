"""A digest of the code that can change a figure, so that rows of another version are never taken for this one's."""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache
from pathlib import Path

import edgeveil

__all__ = ["RELEVANT", "code_digest", "module_digest"]

RELEVANT = (
    "graph",
    "privacy",
    "metrics",
    "models",
    "release",
    "defences",
    "attacks",
    "runs/measure.py",
    "runs/score.py",
)


def module_digest(source: str) -> str:
    """Digest of a module's syntax tree: comments, layout and docstrings do not count."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """One digest over every module that a figure can depend on."""
    root = Path(edgeveil.__file__).parent
    digest = hashlib.sha256()
    for part in RELEVANT:
        path = root / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(root).as_posix()}:{module_digest(file.read_text('utf-8'))}\n".encode())
    return digest.hexdigest()[:16]
