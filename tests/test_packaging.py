"""What surrounds the package names things that exist: extras, versions, files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import edgeveil

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited.group(1) == PROJECT["version"] == edgeveil.__version__


def test_extras_that_are_named_exist() -> None:
    named: dict[str, set[str]] = {}
    files = [
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
        *(p for p in (ROOT / "deploy").iterdir() if p.is_file()),
    ]
    for path in files:
        for group in re.findall(r"(?:edgeveil|'\.|\"\.)\[([a-z,]+)\]", path.read_text(encoding="utf-8")):
            named.setdefault(path.name, set()).update(group.split(","))
    assert "Containerfile" in named
    known = set(PROJECT["optional-dependencies"])
    assert {name: extras - known for name, extras in named.items() if extras - known} == {}
