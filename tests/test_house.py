"""The shape of the code: short modules, short functions, documented public names, a public surface that imports."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import edgeveil

PACKAGE = Path(edgeveil.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]  # type: ignore[misc]


def length(node: ast.FunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 1


def test_no_module_is_longer_than_450_lines() -> None:
    long = {p.name: n for p in MODULES if (n := sum(bool(line.strip()) for line in p.read_text().splitlines())) > 450}
    assert not long


def test_functions_are_short() -> None:
    lengths = {f"{p.name}:{f.name}": length(f) for p in MODULES for f in functions(ast.parse(p.read_text()))}
    too_long = {k: v for k, v in lengths.items() if v > 60}
    assert not too_long
    assert statistics.quantiles(lengths.values(), n=10)[-1] <= 30


def test_public_names_are_documented() -> None:
    bare = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree) and tree.body:
            bare.append(str(path.relative_to(PACKAGE)))
        for node in tree.body:
            if (
                isinstance(node, (ast.ClassDef, ast.FunctionDef))
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ):
                bare.append(f"{path.relative_to(PACKAGE)}:{node.name}")
    assert not [b for b in bare if not b.endswith(":register")]


def test_every_public_name_imports() -> None:
    assert edgeveil.__all__ == [edgeveil.__all__[0], *sorted(edgeveil.__all__[1:])]
    for name in edgeveil.__all__:
        assert getattr(edgeveil, name) is not None
