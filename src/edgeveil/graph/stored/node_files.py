"""The public list of nodes behind an edge table: their ids, features, labels and split, from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from edgeveil.errors import GraphError
from edgeveil.graph.files.headers import NODES
from edgeveil.graph.files.node_tables import PARTS, to_classes
from edgeveil.graph.graph import Graph
from edgeveil.graph.stored.addresses import Place, find_tables, open_parquet, state_of
from edgeveil.graph.stored.edge_columns import WHOLE, kind_of_ids
from edgeveil.graph.stored.node_table import NodeTable, ParquetTable, open_array
from edgeveil.graph.stored.sql_engine import Engine

__all__ = ["NodeFiles", "open_nodes"]

LABELS = ("label", "labels", "class", "y", "target")
SPLIT = "split"
LARGEST = 10**18  # longer ones are text (`files.ids.is_index`)


class NodeFiles(NamedTuple):
    """All that is public: the nodes as a graph without edges, their feature rows, the state of their files."""

    nodes: Graph
    table: NodeTable | None
    state: dict[str, Any]


class _Ids(NamedTuple):
    """Ids in file order: whole numbers, or text."""

    values: Any  # int64 array, or Arrow strings

    @property
    def whole(self) -> bool:
        return isinstance(self.values, np.ndarray)

    def __len__(self) -> int:
        return len(self.values)


def open_nodes(
    features: str | Path | None,
    labels: str | Path | None,
    nodes: str | Path | None,
    *,
    name: str,
    engine: Engine,
    work: Path,
    id_column: str | None = None,
    label_column: str | None = None,
) -> NodeFiles:
    """Read ids, labels and split; leave the features where they are, sorted by id if they were not.

    Whole numbers are ordered by value, other ids as the rows of the features (else of the node list) stand. The
    features, or the node list, or the labels say which nodes there are; never the edges.
    """
    owner = features if features is not None else nodes if nodes is not None else labels
    if owner is None:
        raise GraphError(
            "edges that stay in files need a public list of all nodes: give --features, --labels or --nodes"
        )
    table: NodeTable | None = None
    state: dict[str, Any] = {}
    if features is not None and str(features).endswith(".npy"):
        table = open_array(Path(features))
        state = state_of(Place(str(features), (str(features),)))
        ids = _Ids(np.arange(table.num_nodes))
    else:
        place = find_tables(owner)
        key = _id_column(place, id_column)
        state = {} if features is None else state_of(place)
        ids = _read_ids(place, key)
        if ids.whole and len(ids) > 1 and not (np.diff(ids.values) > 0).all():
            place, ids = _sorted(place, key, ids, engine, work)
            key = "id"
        if features is not None:
            table = ParquetTable(place, _feature_columns(place, key))
    _check_distinct(ids, str(owner))
    y, classes, titles, split = _labels(labels, ids, id_column, label_column)
    graph = Graph.from_edges(
        np.empty((2, 0), np.int64), y=y, num_nodes=len(ids), num_classes=classes, name=name, class_names=titles,
        node_ids=None if _is_numbered(ids) else _as_text(ids), public_nodes=True,
        splits=None if split is None else {"given": split}, split=None if split is None else "given",
    )  # fmt: skip
    return NodeFiles(graph, table, state)


def _columns(place: Place) -> list[str]:
    return [str(name) for name in open_parquet(place, place.files[0]).schema_arrow.names]


def _id_column(place: Place, given: str | None) -> str:
    names = _columns(place)
    if given is not None:
        if given not in names:
            raise GraphError(f"{place.name} has no column {given!r} (--id-column); it has {', '.join(names)}")
        return given
    return next((name for name in names if name.lower() in NODES), names[0])


def _feature_columns(place: Place, key: str) -> list[str]:
    names = [name for name in _columns(place) if name != key]
    if not names:
        raise GraphError(f"{place.name} holds no feature beside {key!r}; features need at least one more column")
    return names


def _column(place: Place, name: str) -> Any:
    """One column of all files, of the widest type among them."""
    parts: list[Any] = []
    for file in place.files:
        table = open_parquet(place, file)
        if name not in table.schema_arrow.names:
            raise GraphError(
                f"{file} has no column {name!r} as {place.files[0]} has; write all files with the same columns"
            )
        if table.metadata.num_rows or not parts:
            parts.append(_plain(table.read(columns=[name])))
    try:
        return pa.concat_tables(parts, promote_options="permissive").column(0).combine_chunks()
    except pa.ArrowException as error:
        raise GraphError(
            f"{place.name}: column {name!r} has several types ({error}); write all files with one type"
        ) from error


def _plain(table: Any) -> Any:
    kind = table.schema.field(0).type
    return table.cast(pa.schema([(table.schema.names[0], kind.value_type)])) if pa.types.is_dictionary(kind) else table


def _coded(place: Place, name: str) -> tuple[NDArray[Any], list[str]]:
    """A column of few different values: the number of each row's value, and the values as text (missing ones empty)."""
    coded = _column(place, name).dictionary_encode(null_encoding="encode")
    return coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.cast(pa.string()).fill_null("").to_pylist()


def _read_ids(place: Place, key: str) -> _Ids:
    """Plain whole numbers (`files.ids.is_index`) as such, everything else as text."""
    column = _column(place, key)
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise GraphError(f"{place.name}: row {row} lacks a node id in {key!r}; fill it in or drop the row")
    if kind_of_ids(column.type) == WHOLE:
        low, high = (0, 0) if not len(column) else pc.min_max(column).as_py().values()
        if low >= 0 and high < LARGEST:
            return _Ids(column.to_numpy(zero_copy_only=False).astype(np.int64))
    text = column.cast(pa.string())
    for wrong, what in ((pc.equal(text, ""), "is empty"), (pc.match_substring(text, "\0"), "holds a NUL character")):
        if (row := pc.index(wrong, True).as_py()) >= 0:
            raise GraphError(f"{place.name}: node id {text[row].as_py()!r} in row {row} {what}; give it another id")
    try:
        whole = text.cast(pa.int64())
    except pa.ArrowInvalid:
        return _Ids(text)
    low, high = pc.min_max(whole).as_py().values()
    plain = low >= 0 and high < LARGEST and pc.all(pc.equal(whole.cast(pa.string()), text)).as_py()
    return _Ids(whole.to_numpy() if plain else text)


def _sorted(place: Place, key: str, ids: _Ids, engine: Engine, work: Path) -> tuple[Place, _Ids]:
    """The ids and features in the order of the ids, written once by the engine."""
    rest = [name for name in _columns(place) if name != key]
    engine.view("rows_given", place, {"id": key, **{f"c{at}": name for at, name in enumerate(rest)}})
    engine.save("SELECT * FROM rows_given ORDER BY CAST(id AS BIGINT)", work / "nodes-sorted")
    return find_tables(work / "nodes-sorted"), _Ids(np.sort(ids.values))


def _is_numbered(ids: _Ids) -> bool:
    return ids.whole and bool((ids.values == np.arange(len(ids))).all())


def _as_text(ids: _Ids) -> NDArray[Any]:
    return ids.values.astype(str) if ids.whole else np.asarray(ids.values.to_pylist())


def _check_distinct(ids: _Ids, where: str) -> None:
    if ids.whole and bool((np.diff(ids.values) > 0).all()):
        return
    values = pa.array(ids.values) if ids.whole else ids.values
    if len(pc.unique(values)) == len(ids):
        return
    counts = pc.value_counts(values)
    twice = counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True).as_py()].as_py()
    raise GraphError(f"{where} lists node {twice!r} twice; keep one")


def _labels(
    labels: str | Path | None, ids: _Ids, id_column: str | None, label_column: str | None
) -> tuple[NDArray[np.int64] | None, int | None, tuple[str, ...] | None, dict[str, Any] | None]:
    """Classes of all nodes (-1: none)."""
    if labels is None:
        return None, None, None, None
    place = find_tables(labels)
    names, key = _columns(place), _id_column(place, id_column)
    chosen = label_column or next((n for n in names if n.lower() in LABELS), None)
    chosen = chosen or next((n for n in names if n != key and n.lower() != SPLIT), None)
    if chosen is None or chosen not in names:
        raise GraphError(f"{place.name} has no label column {chosen or ''!r}; it has {', '.join(names)}")
    at = _places(ids, _read_ids(place, key), place)
    codes, words = _coded(place, chosen)
    numbers, count, titles = to_classes(words, Path(place.name))
    y = np.full(len(ids), -1, np.int64)
    y[at] = numbers[codes]
    part = next((n for n in names if n.lower() == SPLIT), None)
    return y, count, titles, None if part is None else _split(place, part, at, len(ids))


def _split(place: Place, column: str, at: NDArray[np.int64], n: int) -> dict[str, Any]:
    codes, found = _coded(place, column)
    words = [word.strip().lower() for word in found]
    odd = next((word for word in words if word not in PARTS), None)
    if odd is not None:
        raise GraphError(f"{place.name}: split {odd!r} is none of train, val, test (or empty)")
    masks = {}
    for part in ("train", "val", "test"):
        mask = np.zeros(n, bool)
        mask[at] = np.array([PARTS[word] == part for word in words])[codes]
        masks[part] = mask
    return masks


def _places(ids: _Ids, theirs: _Ids, place: Place) -> NDArray[np.int64]:
    """Node numbers of the rows of another table."""
    mine, other = (pa.array(i.values) if i.whole else i.values for i in (ids, theirs))
    if ids.whole != theirs.whole:
        mine, other = mine.cast(pa.string()), other.cast(pa.string())
    if len(mine) == len(other) and mine.equals(other):
        return np.arange(len(ids))
    found = pc.index_in(other, value_set=mine)
    if found.null_count:
        stray = other[pc.index(pc.is_null(found), True).as_py()].as_py()
        raise GraphError(
            f"{place.name} names node {stray!r}, which the list of all nodes lacks; add it or drop the row"
        )
    return np.asarray(found.to_numpy(), np.int64)
