"""The digest notices every module that can change a figure, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgeveil
from edgeveil.runs import code_digest as digests
from edgeveil.runs.code_digest import covered, digest_of, equal_codes, module_digest, remembered

PACKAGE = Path(edgeveil.__file__).parent
EVERY_METHOD = """
import json, sys
from zoo import three_classes
from edgeveil.attacks.attack import ATTACKS
from edgeveil.defences.defence import DEFENCES
from edgeveil.runs.measure import run
from edgeveil.runs.plan import takes_epsilon
from edgeveil.runs.run_config import AttackConfig, RunConfig
attacks = tuple(AttackConfig(name=name, nodes=20, beliefs=("k",), where_it_fits=True, knows=0.3) for name in ATTACKS.names())
for name in DEFENCES.names():
    epsilon = 4.0 if takes_epsilon(name) else None
    config = RunConfig(dataset="toy", defence=name, epsilon=epsilon, attacks=attacks if name in ("none", "lapgraph", "lpgnet-1") else (), train_params={"epochs": 2})
    run(config.model_copy(update={"details": True}).to_json(), {"toy": three_classes()})
print(json.dumps([m.__file__ for name, m in sys.modules.items() if name.startswith("edgeveil.")]))
"""
NO_FIGURE = {"plan"}  # loaded by the test itself


@pytest.mark.slow
def test_every_module_that_a_run_loads_is_covered() -> None:
    path = [str(PACKAGE.parent), str(Path(__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {path!r}\n{EVERY_METHOD}"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300).stdout
    loaded = {Path(file) for file in json.loads(out.splitlines()[-1])}
    names, files = zip(*covered(), strict=True)
    assert not {file for file in loaded - set(files) if file.stem not in NO_FIGURE}
    assert {"seeds", "measure", "score", "rows", "details", "protocol", "lapgraph", "linkteller"} <= set(names)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("package") / "edgeveil"
    shutil.copytree(PACKAGE, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.mark.parametrize(
    "module", ["seeds.py", "metrics/ties.py", "runs/rows.py", "defences/graphprivatizer/rr.py", "models/memo.py"]
)
def test_a_change_of_one_module_changes_the_digest(copy: Path, module: str) -> None:
    before, path = digest_of(copy), copy / module
    source = path.read_text()
    path.write_text(source + "\nPLANTED = 1\n")
    changed = digest_of(copy)
    path.write_text("# a comment changes nothing\n" + source)
    assert changed != before == digest_of(copy)
    path.write_text(source)


def test_what_is_remembered_is_of_this_very_code(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = digest_of(copy)
    assert remembered(copy, tmp_path / "c") == right
    (kept,) = (tmp_path / "c").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(digests, "digest_of", lambda root: pytest.fail("read again"))
        assert remembered(copy, tmp_path / "c") == right
    kept.write_text("torn")
    assert remembered(copy, tmp_path / "c") == right == kept.read_text()
    source = (copy / "seeds.py").read_text()
    (copy / "seeds.py").write_text(source + "\nPLANTED = 1\n")
    assert remembered(copy, tmp_path / "c") == digest_of(copy) != right
    (copy / "seeds.py").write_text(source)
    (tmp_path / "file").write_text("no folder")
    assert remembered(copy, tmp_path / "file") == right


def test_pages_commands_and_servers_do_not_count(copy: Path) -> None:
    before = digest_of(copy)
    for module in ("report/page.py", "cli/main.py", "serve/app.py", "papers/render.py", "audits/advise.py"):
        path = copy / module
        path.write_text(path.read_text() + "\nPLANTED = 1\n")
    assert digest_of(copy) == before


def test_a_module_may_move_to_another_room(copy: Path) -> None:
    before = digest_of(copy)
    (copy / "metrics" / "ties.py").rename(copy / "graph" / "ties.py")
    for path in copy.rglob("*.py"):
        source = path.read_text()
        if "edgeveil.metrics.ties" in source:
            path.write_text(source.replace("edgeveil.metrics.ties", "edgeveil.graph.ties"))
    assert ("ties", copy / "graph" / "ties.py") in covered(copy) and digest_of(copy) == before


def test_docstrings_and_homes_of_modules_do_not_count() -> None:
    one = '"""A."""\nfrom edgeveil.a.b import c\nX = "edgeveil.a.b:c"\n'
    two = '"""B."""\nfrom edgeveil.d.b import c\n\nX = "edgeveil.d.b:c"  # moved\n'
    assert module_digest(one) == module_digest(two) != module_digest(one.replace("import c", "import d"))


def test_equal_codes_follow_the_record_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    record = [
        {"from": "a", "to": "b", "defences": ["none", "rr"]},
        {"from": "b", "to": "c", "defences": ["none"]},
        {"from": "x", "to": "y", "defences": ["none"]},
    ]
    monkeypatch.setattr(digests, "_carried", lambda: record)
    assert equal_codes("c", "none") == ("c", "b", "a")
    assert equal_codes("c", "rr") == ("c",) and equal_codes("b", "rr") == ("b", "a")
