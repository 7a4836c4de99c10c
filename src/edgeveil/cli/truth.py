"""True edges to score an attack against: a graph, or a table of node numbers or names, in the model's order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeveil.cli.common import load_graph
from edgeveil.errors import EdgeveilError, UsageError

if TYPE_CHECKING:
    from edgeveil.graph.graph import Graph

__all__ = ["in_order_of", "read_truth"]

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".gz", ".zst")


def read_truth(
    name: str,
    num_nodes: int,
    data_root: Path | None,
    ids: Path | None = None,
    *,
    names: Sequence[Any] | None = None,
    header: bool | None = None,
    columns: Mapping[str, str | None] | None = None,
) -> Graph:
    """The graph behind `name`, its nodes numbered as the model numbers them.

    `names` are the node ids of a release, `ids` a table that lists them where the model brings none; `header` and
    `columns` (id_column, source, target, delimiter) are those of own files.
    """
    path, said = Path(name), dict(columns or {})
    if path.suffix in TABLES and path.is_file():
        try:
            listed = None if ids is None else _numbering(ids, num_nodes, said)
            return _from_table(path, num_nodes, listed or _plain(names), ids, header, said)
        except UsageError:
            raise
        except EdgeveilError as error:
            raise UsageError(str(error)) from error
    graph = load_graph(name, data_root=data_root)
    if graph.num_nodes != num_nodes:
        raise UsageError(f"the model answers for {num_nodes} nodes, but {graph.name} has {graph.num_nodes}")
    return in_order_of(graph, names)


def in_order_of(graph: Graph, names: Sequence[Any] | None) -> Graph:
    """The graph with its nodes in the order of `names`, where both have names."""
    wanted = _plain(names)
    if wanted is None or graph.node_ids is None or wanted == _plain(graph.node_ids):
        return graph
    place = {node: i for i, node in enumerate(_plain(graph.node_ids) or ())}
    lost = next((node for node in wanted if node not in place), None)
    if lost is not None:
        raise UsageError(f"the model answers for the node {lost!r}, which {graph.name} does not have")
    return graph.subgraph([place[node] for node in wanted])


def _plain(names: Iterable[Any] | None) -> list[str] | None:
    return None if names is None else [str(node) for node in names]


def _from_table(
    path: Path, num_nodes: int, names: list[str] | None, ids: Path | None, header: bool | None,
    columns: Mapping[str, str | None],
) -> Graph:  # fmt: skip
    from edgeveil.graph.files.columns import read_table
    from edgeveil.graph.files.edge_table import NodeIndex, read_edges
    from edgeveil.graph.graph import Graph

    where = {node: i for i, node in enumerate(names or map(str, range(num_nodes)))}
    raw, index = read_table(path, delimiter=columns.get("delimiter")), NodeIndex()
    table = read_edges(
        raw, index, known=where.keys(), complete=True, header=header, source=columns.get("source"),
        target=columns.get("target"),
    )  # fmt: skip
    stray = next((node for node in index if node not in where), None)
    if stray is not None and names is None:
        hint = "if these are names, give the file that lists them in the model's order: --ids users.csv"
        raise UsageError(f"{path} has the node {stray!r}, but the model's nodes are 0..{num_nodes - 1}; {hint}")
    if stray is not None:
        raise UsageError(f"{path} has the node {stray!r}, which {ids or 'the model'} does not list")
    if not table.edges.size:
        raise UsageError(f"{path} holds no edge to score against")
    numbers = [where[node] for node in index]
    return Graph.from_edges(
        [[numbers[i] for i in end] for end in table.edges.tolist()], num_nodes=num_nodes, name=path.stem
    )


def _numbering(path: Path, num_nodes: int, columns: Mapping[str, str | None]) -> list[str]:
    """Node names in the model's order, from a table with one line per node."""
    from edgeveil.graph.files.ids import canonical_order, is_index
    from edgeveil.graph.files.node_tables import Reading, read_nodes

    names = read_nodes(path, Reading(id_column=columns.get("id_column"), delimiter=columns.get("delimiter")))
    if len(names) == num_nodes + 1:
        names = names[1:]  # a header that looks like a name
    if len(names) != num_nodes:
        raise UsageError(f"{path} must name each of the model's {num_nodes} nodes once; it has {len(names)} names")
    return canonical_order(names) if all(map(is_index, names)) else names  # as own files with numeric ids are numbered
