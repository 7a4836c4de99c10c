"""The shape of the code: short modules and functions, one name per module, documented names, walks that exist."""

from __future__ import annotations

import ast
import re
import statistics
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

import edgeveil

PACKAGE = Path(edgeveil.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]  # type: ignore[misc]


def length(node: ast.FunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 1


def test_no_module_is_longer_than_450_lines() -> None:
    long = {p.name: n for p in MODULES if (n := sum(bool(line.strip()) for line in p.read_text().splitlines())) > 450}
    assert not long


def test_functions_are_short() -> None:
    lengths = {f"{p.name}:{f.name}": length(f) for p in MODULES for f in functions(parsed(p))}
    too_long = {k: v for k, v in lengths.items() if v > 60}
    assert not too_long
    assert statistics.quantiles(lengths.values(), n=10)[-1] <= 30


def test_public_names_are_documented() -> None:
    bare = []
    for path in MODULES:
        tree = parsed(path)
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


def test_no_two_modules_have_the_same_last_name() -> None:
    homes = defaultdict(list)
    for path in MODULES:
        if not path.stem.startswith("__"):
            homes[path.stem].append(path.relative_to(PACKAGE).as_posix())
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert not twice, twice


WALK = re.compile(r"^\d+\. `([\w./]+)\.py` `(\w+)`", re.MULTILINE)


def walks() -> dict[str, list[tuple[str, str]]]:
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ", text.partition("## Three walks")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]
    return {part.splitlines()[0]: WALK.findall(part) for part in parts}


def test_no_two_test_files_have_the_same_name() -> None:
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_three_walks_exist_are_short_and_never_return() -> None:
    found = walks()
    assert len(found) == 3
    for name, stations in found.items():
        assert 5 < len(stations) <= 16, f"{name}: at most 15 hops"
        assert len({module for module, _ in stations}) == len(stations), f"{name} returns to a module"
        for module, function in stations:
            tree = parsed(PACKAGE / f"{module}.py")
            known = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
            assert function in known, f"{name}: {module} has no {function}"


def test_cases_that_run_always_exist(request: pytest.FixtureRequest) -> None:
    """Else a case that is called otherwise would leave the fast tests unnoticed."""
    named, there = defaultdict(set), defaultdict(set)
    for item in request.session.items:
        for mark in item.iter_markers("fast"):
            named[item.location[0], item.originalname] |= set(mark.args)  # type: ignore[attr-defined]
            there[item.location[0], item.originalname].add(item.callspec.id)  # type: ignore[attr-defined]
    assert not {test: lost for test in named if (lost := named[test] - there[test])}
