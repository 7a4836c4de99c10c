"""Inspect and convert, on the customer example."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import edgeveil as ev
from edgeveil.cli.main import build_app
from edgeveil.graph.npz import read_npz
from edgeveil.graph.splits import apply_split

EXAMPLE = Path(__file__).parents[2] / "examples" / "customers" / "generate.py"


@pytest.fixture(scope="module")
def customers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("customers")
    spec = importlib.util.spec_from_file_location("customers", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(folder)
    return {
        "edges": folder / "payments.csv", "features": folder / "customers.csv", "labels": folder / "segments.csv",
    }  # fmt: skip


def words(files: dict[str, Path]) -> list[str]:
    return [word for name, path in files.items() for word in (f"--{name}", str(path))]


def test_inspect_counts_nodes_without_a_label(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a,b\nb,c\nc,d\n")
    (tmp_path / "y.csv").write_text("id,class\na,x\nb,y\nc,\nd,x\n")
    files = {"edges": tmp_path / "e.csv", "labels": tmp_path / "y.csv"}
    done = CliRunner().invoke(build_app(), ["inspect", *words(files)], catch_exceptions=False)
    assert "classes: x 66.7%, y 33.3%; 1 of 4 nodes have no label" in done.stdout


def test_inspect_says_how_files_were_read_and_what_is_in_them(customers: dict[str, Path]) -> None:
    done = CliRunner().invoke(build_app(), ["inspect", *words(customers)], catch_exceptions=False)
    assert done.exit_code == 0
    for said in (
        "edges: payments.csv: comma-separated; a header; edges from 'sender' and 'receiver'",
        "column region: one column for each of 4 levels",
        "column since: a date",
        "classes: calm 69",
        "homophily: 79",
        "scaling auto: standard",
        "a default audit takes about",
    ):
        assert said in done.stdout, said
    assert "warning" not in done.stdout


def test_a_degree_column_is_called_out(customers: dict[str, Path], tmp_path: Path) -> None:
    graph = ev.read_graph(**customers)
    degree = dict(zip(graph.node_ids.tolist(), graph.degrees.tolist(), strict=True))
    rows = customers["features"].read_text().splitlines()
    with_degree = [f"{rows[0]},links", *(f"{row},{degree[row.split(',')[0]]}" for row in rows[1:])]
    (tmp_path / "x.csv").write_text("\n".join(with_degree) + "\n")
    done = CliRunner().invoke(build_app(), ["inspect", *words({**customers, "features": tmp_path / "x.csv"})])
    assert "warning: feature 'links' follows the degree" in done.stdout


def test_mixed_scales_are_learnt_from(customers: dict[str, Path]) -> None:
    graph = apply_split(ev.read_graph(**customers), "50:25:25", 0)
    good, drowned = (ev.defend(graph, "mlp", seed=0, scaling=s).utility("test")["accuracy"] for s in ("auto", "row"))
    assert good > 0.93 and drowned < 0.78


@pytest.mark.parametrize("kind", ["csv", "parquet", "tsv"])
def test_convert_there_and_back(customers: dict[str, Path], tmp_path: Path, kind: str) -> None:
    app, graph = build_app(), ev.read_graph(**customers)
    there = CliRunner().invoke(app, ["convert", *words(customers), "--out", str(tmp_path / "g.npz")])
    assert there.exit_code == 0, there.output
    assert read_npz(tmp_path / "g.npz") == graph and (tmp_path / "g.npz").stat().st_mode & 0o777 == 0o600
    back = CliRunner().invoke(app, ["convert", str(tmp_path / "g.npz"), "--to", kind, "--out", str(tmp_path / "t")])
    assert back.exit_code == 0, back.output
    again = ev.read_graph(**{name: tmp_path / "t" / f"{name}.{kind}" for name in customers})
    assert again.node_ids.tolist() == graph.node_ids.tolist() and again.class_names == graph.class_names
    assert np.array_equal(again.edge_index, graph.edge_index) and np.allclose(again.x, graph.x)
