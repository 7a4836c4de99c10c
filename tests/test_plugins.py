"""Plugin files: imported once, known to worker processes, refused with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgeveil.attacks.attack import ATTACKS
from edgeveil.errors import InputError
from edgeveil.plugins import VARIABLE, listed, load_plugin

TEXT = """
from dataclasses import dataclass
import numpy as np
from edgeveil.attacks.attack import ATTACKS, Attack, Scored

@ATTACKS.register("{name}")
@dataclass(frozen=True)
class Plugged(Attack):
    def score(self, target, view, seed):
        return Scored(np.zeros(len(view.pair_positions()[0])), access="none")
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")


def plugin(folder: Path, name: str) -> Path:
    path = folder / "mine.py"
    path.write_text(TEXT.format(name=name))
    return path


def test_its_methods_are_known_at_once_and_it_is_imported_once(tmp_path: Path) -> None:
    ATTACKS.load()
    path = plugin(tmp_path, "plugged-here")
    name = load_plugin(path)
    assert ATTACKS.get("plugged-here").__module__ == name == load_plugin(str(path))
    assert listed() == [str(path)]


def test_a_child_process_knows_them_too(tmp_path: Path) -> None:
    load_plugin(plugin(tmp_path, "plugged-there"))
    code = "from edgeveil.attacks.attack import ATTACKS; print(ATTACKS.get('plugged-there').__name__)"
    out = subprocess.run([sys.executable, "-c", code], env=os.environ, check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "Plugged"


def test_two_files_of_one_name_are_two_plugins(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = plugin(tmp_path, "plugged-a"), plugin(tmp_path / "other", "plugged-b")
    assert load_plugin(first) != load_plugin(second)
    assert "plugged-a" in ATTACKS and "plugged-b" in ATTACKS


@pytest.mark.parametrize(("text", "reason"), [("raise ValueError('odd')", "ValueError: odd"), ("x = (", "SyntaxError")])
def test_a_broken_plugin_is_refused_with_its_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(InputError, match=reason):
            load_plugin(path)
    assert listed() == []


def test_what_is_no_python_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a plugin is a Python file"):
        load_plugin(tmp_path / "absent.py")
