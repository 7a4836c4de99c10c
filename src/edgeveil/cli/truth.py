"""True edges to score an attack against: a graph, or a csv of node numbers or names."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from edgeveil.cli.common import load_graph
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph

__all__ = ["read_truth"]


def read_truth(name: str, num_nodes: int, data_root: Path | None, ids: Path | None = None) -> Graph:
    """The graph behind `name`; `ids` is a csv whose first column names the nodes in the model's order."""
    path = Path(name)
    if path.suffix in (".csv", ".tsv") and path.is_file():
        return _from_table(path, num_nodes, ids)
    graph = load_graph(name, data_root=data_root)
    if graph.num_nodes != num_nodes:
        raise UsageError(f"the model answers for {num_nodes} nodes, but {graph.name} has {graph.num_nodes}")
    return graph


def _from_table(path: Path, num_nodes: int, ids: Path | None) -> Graph:
    from edgeveil.graph.files.headers import edge_header
    from edgeveil.graph.graph import Graph

    rows = _cells(path)
    if any(len(row) < 2 for row in rows):
        raise UsageError(f"{path} is not a list of edges u,v: a line has one column only")
    where = {str(i): i for i in range(num_nodes)} if ids is None else _numbering(ids, num_nodes)
    if rows and edge_header([[row[at] for row in rows] for at in range(2)], path, known=where.keys(), complete=True):
        rows = rows[1:]
    stray = next((node for row in rows for node in row[:2] if node not in where), None)
    if stray is not None:
        hint = "if these are names, give the file that lists them in the model's order: --ids users.csv"
        raise UsageError(f"{path} has the node {stray!r}, but the model's nodes are 0..{num_nodes - 1}; {hint}"
                         if ids is None else f"{path} has the node {stray!r}, which {ids} does not list")  # fmt: skip
    if not rows:
        raise UsageError(f"{path} holds no edge to score against")
    pairs = [[where[row[0]] for row in rows], [where[row[1]] for row in rows]]
    return Graph.from_edges(pairs, num_nodes=num_nodes, name=path.stem)


def _numbering(path: Path, num_nodes: int) -> dict[str, int]:
    """Node names to numbers, from the first column; one line more than nodes is a header."""
    names = [row[0] for row in _cells(path)]
    if len(names) == num_nodes + 1:
        names = names[1:]
    if len(names) != num_nodes or len(set(names)) != num_nodes:
        raise UsageError(f"{path} must name each of the model's {num_nodes} nodes once; it has {len(set(names))} names")
    if all(name.isdecimal() for name in names):
        names.sort(key=int)  # as own files with numeric ids are numbered
    return {name: i for i, name in enumerate(names)}


def _cells(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            return [[cell.strip() for cell in row] for row in table if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
