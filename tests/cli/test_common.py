"""What the commands share: one option, two meanings, each refused when it makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeveil.cli.common import count_and_file, load_graph
from edgeveil.errors import UsageError


def test_nodes_is_a_number_of_attacked_nodes_and_a_list_of_all(tmp_path: Path) -> None:
    listed = tmp_path / "users.txt"
    listed.write_text("a\nb\n", encoding="utf-8")
    assert count_and_file(None) == (500, None) and count_and_file(["40"]) == (40, None)
    assert count_and_file([str(listed)]) == (500, listed) and count_and_file([str(listed), "40"]) == (40, listed)
    for given, message in (
        (["1"], "at least two nodes"),
        (["4", "5"], "one number and one file at most"),
        (["-3"], "neither a number"),
        ([str(tmp_path / "absent")], "nor a file"),
    ):
        with pytest.raises(UsageError, match=message):
            count_and_file(given)


def test_own_files_go_with_own_edges(tmp_path: Path) -> None:
    for given in ({"nodes": tmp_path / "n.txt"}, {"header": True}):
        with pytest.raises(UsageError, match="go with --edges"):
            load_graph("cora-twin", **given)  # type: ignore[arg-type]
