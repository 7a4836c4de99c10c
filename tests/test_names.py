"""No framework code compares a method's name: what it must know, the method states as a fact.

The baselines none and mlp are excepted, as are records of the papers (whose tables, settings and noise laws are about
named methods) and, for a method's own name, the module that registers it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import edgeveil
from edgeveil.attacks.attack import ATTACKS
from edgeveil.defences.defence import DEFENCES
from edgeveil.models.architectures import MODELS

PACKAGE = Path(edgeveil.__file__).parent
BASELINES = {"none", "mlp"}
RECORDS = ("papers/", "models/presets.py", "models/tune.py", "attacks/posterior/laws.py")
CALLS = ("startswith", "endswith", "removeprefix", "replace", "get", "pop")


def strings(node: ast.AST) -> Iterator[ast.Constant]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part


def compared(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings that something is compared with, looked up by or dispatched on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, (ast.Constant, ast.Tuple, ast.Set, ast.List, ast.Dict)):
                    yield from strings(side)
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if isinstance(key, ast.Constant))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            yield from (found for argument in node.args[:1] for found in strings(argument))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield node.slice
        elif isinstance(node, ast.MatchValue):
            yield from strings(node)


def offences(homes: Mapping[str, set[str]]) -> list[str]:
    """Comparisons with a name outside of the modules that register it."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(RECORDS):
            hits = (c for c in compared(ast.parse(path.read_text("utf-8"))) if place not in homes.get(c.value, {place}))
            found += [f"{place}:{c.lineno} {c.value}" for c in hits]
    return found


def test_no_framework_code_compares_a_name() -> None:
    homes: dict[str, set[str]] = {"lpgnet-": set()}
    for entry in (e for registry in (ATTACKS, DEFENCES, MODELS) for e in registry):
        if entry.cls.__module__.startswith("edgeveil.") and entry.name not in BASELINES:
            place = entry.cls.__module__.removeprefix("edgeveil.").replace(".", "/") + ".py"
            homes.setdefault(entry.name, set()).add(place)
    assert not offences(homes)


def test_the_law_sees_every_kind_of_comparison() -> None:
    for text in (
        'x == "rr"',
        'x in ("rr",)',
        '{"rr": 1}',
        'x.startswith("rr")',
        't["rr"]',
        'match x:\n    case "rr": pass',
    ):
        assert "rr" in [c.value for c in compared(ast.parse(text))], text
