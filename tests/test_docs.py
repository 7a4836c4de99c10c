"""Snippets and examples run as they stand in the docs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from forked import python

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HEAVY = ("lpgnet.md", "models.md", "new_attack.py", "own-models.md", "own_data.py", "quickstart.md", "shadow_attack.py")


def snippets(page: Path) -> str:
    """All Python blocks of a page as one program; blocks that include a file are tested as that file."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return "\n".join(b for b in blocks if "--8<--" not in b)


def run(script: Path, cwd: Path) -> None:
    done = python(script, cwd, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if p.name in HEAVY else ()) for p in PAGES if snippets(p)],
    ids=lambda p: p.name,
)
def test_python_snippets_run(page: Path, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(snippets(page), encoding="utf-8")
    run(tmp_path / "page.py", tmp_path)


@pytest.mark.parametrize(
    "example",
    [pytest.param(p, marks=pytest.mark.slow if p.name in HEAVY else ()) for p in EXAMPLES],
    ids=lambda p: p.name,
)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    run(example, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def commands(page: Path) -> list[list[str]]:
    """The words of every `edgeveil ...` line of a page's shell blocks."""
    blocks = re.findall(r"^```(?:sh|bash|yaml)?\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = [re.search(r"(?:^|entry: |run: |bin/)edgeveil ([a-z].*)", line) for line in lines]
    return [shlex.split(match[1], comments=True) for match in found if match is not None]


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    import typer

    from edgeveil.cli.main import build_app

    for said in commands(page):
        node, rest = typer.main.get_command(build_app()), list(said)
        while hasattr(node, "commands"):
            assert rest[0] in node.commands, said
            node = node.commands[rest.pop(0)]
        known = {option for p in node.params for option in (*p.opts, *p.secondary_opts)}
        assert {word.split("=")[0] for word in rest if word.startswith("--")} <= known, said
        if said[0] == "release" and "--edges" in said:
            assert "--labels" in said, f"nothing trains without labels: {said}"


WORDS = {5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = (ROOT / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


COUNT = """
from edgeveil.attacks.attack import ATTACKS
from edgeveil.models.architectures import MODELS
print(len({*ATTACKS.names()} - {"random"}), len({*MODELS.names()} - {"mlp"}))
"""


def test_the_comparison_counts_what_is_registered(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT, encoding="utf-8")  # a process in which no other test registered anything
    done = python(tmp_path / "count.py", tmp_path)
    assert done.returncode == 0, done.stderr
    attacks, gnns = (WORDS[int(number)] for number in done.stdout.split())
    for page in ("README.md", "docs/index.md"):
        ours = {row[0]: row[-1] for row in rows(page, "Against what people use today")}
        assert ours["finds private edges in answers"] == f"{attacks} attacks and a random one"
        assert ours["trains GNNs"] == f"{gnns} kinds, an MLP, and any torch module"


def test_readme_repeats_measured_figures_of_the_page_it_names() -> None:
    measured = rows("README.md", "Measured")
    assert measured
    for _, figures, source in measured:
        target = re.search(r"\]\(([^)#]+)", source)
        assert target, source
        page = (ROOT / target[1]).read_text(encoding="utf-8")
        known = {float(n.replace(",", "")) for n in FIGURE.findall(page)}
        for figure in FIGURE.findall(figures):
            assert float(figure.replace(",", "")) in known, f"{target[1]} does not hold {figure}"
