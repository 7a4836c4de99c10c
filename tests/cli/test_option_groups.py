"""Groups of options: each field an option in the group's place, the group whole again inside the command."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import edgeveil.cli
from edgeveil.cli.option_groups import OptionGroup, OwnFiles, StudyOptions, TableOptions, ungrouped
from edgeveil.errors import UsageError

COMMANDS = sorted(Path(edgeveil.cli.__file__).parent.glob("*.py"))


@dataclass(frozen=True, kw_only=True)
class Inner(OptionGroup):
    size: Annotated[int, typer.Option(help="How large.")] = 3


@dataclass(frozen=True, kw_only=True)
class Outer(OptionGroup):
    name: Annotated[str, typer.Argument()]
    inner: Inner
    flag: Annotated[bool, typer.Option("--flag")] = False


def test_a_command_gets_its_groups_whole_and_the_line_gets_their_options() -> None:
    seen: list[object] = []

    def command(*, before: str = "a", group: Outer, after: str = "z") -> None:
        seen.append((before, group, after))

    hidden = inspect.Parameter("more", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
    flat = ungrouped(command, hidden)
    assert list(inspect.signature(flat).parameters) == ["before", "name", "size", "flag", "after", "more"]
    app = typer.Typer(add_completion=False)
    app.command()(flat)
    run = CliRunner().invoke(app, ["cora", "--size", "7", "--flag", "--after", "q", "--more", "x"])
    assert run.exit_code == 0, run.output
    assert seen == [("a", Outer(name="cora", inner=Inner(size=7), flag=True), "q")]
    assert CliRunner().invoke(app, []).exit_code == 2, "what a group requires is required"


def test_a_study_says_again_what_it_was_told(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("a\nb\n", encoding="utf-8")
    tables = TableOptions(header=False, source="2", delimiter="tab")
    files = OwnFiles(edges=Path("e.csv"), labels=Path("l.csv"), tables=tables, label_column="kind")
    study = StudyOptions(files=files, nodes=["40", str(users)], split_seed=3, scaling="row")
    assert study.words() == (
        "--edges e.csv --labels l.csv --source 2 --delimiter tab --label-column kind --no-header "
        f"--nodes {users} --split-seed 3 --scaling row"
    )
    assert study.chosen is None and study.asked_nodes() == {"nodes": 40}
    plain = StudyOptions(graph="cora-twin", files=OwnFiles(tables=TableOptions()))
    assert plain.words() == "cora-twin" and plain.asked_nodes() == {} and plain.count == 500
    with pytest.raises(UsageError, match="either the graph 'cora' or --edges"):
        StudyOptions(graph="cora", files=files).load()


def test_no_option_of_several_commands_is_declared_twice() -> None:
    """A parameter that two commands spell out with the same words belongs into `common` or a group."""
    places = defaultdict(set)
    for path in COMMANDS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg) and node.annotation is not None:
                written = ast.unparse(node.annotation)
                if written.startswith("Annotated"):
                    places[node.arg, written].add(path.name)
    assert {key: files for key, files in places.items() if len(files) > 1} == {}
