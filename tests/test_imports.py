"""Imports go downwards only, attacks stay behind the wall, and the command line starts light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import edgeveil
from edgeveil.plugins import VARIABLE

PACKAGE = Path(edgeveil.__file__).parent
ORDER = [
    "graph",
    "privacy",
    "metrics",
    "models",
    "release",
    "defences",
    "pyg",
    "attacks",
    "runs",
    "audits",
    "papers",
    "report",
    "serve",
    "trials",
    "cli",
]
WALL = {"edgeveil.release.target", "edgeveil.errors", "edgeveil.registry", "edgeveil.seeds"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Absolute edgeveil modules that a file imports anywhere, function bodies included, type-checking blocks not."""
    found: set[str] = set()

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names if a.name.startswith("edgeveil"))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("edgeveil"):
            for alias in node.names:
                child = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / Path(*child.split("."))).with_suffix(".py").exists()
                is_package = (PACKAGE.parent / Path(*child.split("."))).is_dir()
                found.add(child if is_module or is_package else node.module)
        for child_node in ast.iter_child_nodes(node):
            walk(child_node)

    walk(ast.parse(path.read_text()))
    return found


def stage(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else None


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else None
    own = "cli" if path.name == "__main__.py" else own
    for module in imported(path):
        other = stage(module)
        if own is None:
            assert other is None, f"{path.name} is below every stage but imports {module}"
        elif own == "attacks":
            assert module in WALL or other == "attacks", f"attacks/{path.name} reaches through the wall: {module}"
        elif other is not None:
            assert ORDER.index(other) <= ORDER.index(own), f"{own}/{path.name} imports upwards: {module}"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from edgeveil.cli.main import build_app; build_app(); "
        "bad = {'torch', 'torch_geometric', 'ray', 'fastapi', 'matplotlib'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_methods_are_known_without_what_only_some_of_them_need() -> None:
    code = (
        "import sys; sys.modules.update(torch_geometric=None, sklearn=None, pandas=None, ray=None); "
        "from edgeveil.attacks.attack import ATTACKS; from edgeveil.defences.defence import DEFENCES; "
        "assert DEFENCES.names() and ATTACKS.names(); "
        "bad = {'torch._dynamo', 'scipy.stats'} & set(sys.modules); assert not bad, bad"
    )
    alone = {name: value for name, value in os.environ.items() if name != VARIABLE}  # plugins of other tests
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=alone)


def test_help_answers_in_half_a_second_of_cpu() -> None:
    code = (
        "import resource, subprocess, sys; "
        "subprocess.run([sys.executable, '-m', 'edgeveil', '--help'], check=True, stdout=subprocess.DEVNULL); "
        "use = resource.getrusage(resource.RUSAGE_CHILDREN); print(use.ru_utime + use.ru_stime)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(runs) < 0.5
