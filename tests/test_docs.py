"""Snippets and examples run as they stand in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forked import python

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def snippets(page: Path) -> str:
    """All Python blocks of a page as one program; blocks that include a file are tested as that file."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return "\n".join(b for b in blocks if "--8<--" not in b)


def run(script: Path, cwd: Path) -> None:
    done = python(script, cwd, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda p: p.name)
def test_python_snippets_run(page: Path, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(snippets(page), encoding="utf-8")
    run(tmp_path / "page.py", tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    run(example, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
