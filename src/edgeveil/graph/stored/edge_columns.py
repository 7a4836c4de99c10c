"""Which two columns of an edge table are the ends of an edge: the same, and of one kind, in every file."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from edgeveil.errors import GraphError
from edgeveil.graph.files.headers import NO_ENDS, SOURCES, TARGETS
from edgeveil.graph.stored.addresses import Place, open_parquet

__all__ = ["TEXT", "WHOLE", "Ends", "find_ends", "kind_of_ids"]

WHOLE, TEXT = "whole numbers", "text"


class Ends(NamedTuple):
    """The files that hold rows, the columns there (``a`` and ``b``), and whether both hold whole numbers."""

    place: Place
    columns: dict[str, str]
    whole: bool


def kind_of_ids(kind: Any) -> str:
    """What ids of an Arrow type are: whole numbers, text, or the type's own name."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(inner):
        return WHOLE
    text = pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner)
    return TEXT if text else str(inner)


def find_ends(place: Place, source: str | None = None, target: str | None = None) -> Ends:
    """Look at the footers of all files; those without rows are left out, for their types say nothing."""
    schemas: dict[str, Any] = {}
    for file in place.files:
        table = open_parquet(place, file)
        if table.metadata.num_rows:
            schemas[file] = table.schema_arrow
    if not schemas:
        raise GraphError(f"{place.name} holds no rows; it needs at least one")
    first, schema = next(iter(schemas.items()))
    start, end = _choose(place, schema, source, target)
    kinds = {}
    for column in (start, end):
        kinds[column] = _kind(first, schema, column)
        for file, other in schemas.items():
            _check_same(file, other, column, first, kinds[column])
    whole = all(kind == WHOLE for kind in kinds.values())
    return Ends(place._replace(files=tuple(schemas)), {"a": start, "b": end}, whole)


def _choose(place: Place, schema: Any, source: str | None, target: str | None) -> tuple[str, str]:
    """By option, by name, else the first columns that can hold ids."""
    names = [str(name) for name in schema.names]
    for given, option in ((source, "--source"), (target, "--target")):
        if given is not None and given not in names:
            raise GraphError(
                f"{place.name} has no column {given!r} ({option}); it has {', '.join(names)}{_in_folders(place, given)}"
            )
    lower = {name.lower(): name for name in reversed(names)}
    start = source or next((lower[word] for word in SOURCES if word in lower), None)
    end = target or next((lower[word] for word in TARGETS if word in lower), None)
    rest = [name for name in names if name not in (start, end)]
    wanted = 2 - (start is not None) - (end is not None)
    ids = [name for name in rest if kind_of_ids(schema.field(name).type) in (WHOLE, TEXT)]
    for fewer in (ids, [name for name in ids if name.lower() not in NO_ENDS]):
        rest = fewer if len(rest) > wanted and len(fewer) >= wanted else rest
    left = iter(rest)
    start = next(left, None) if start is None else start
    end = next(left, None) if end is None else end
    if start is None or end is None or start == end:
        raise GraphError(
            f"{place.name}: source and target must be two columns, but there are only {', '.join(names) or 'none'}"
            f"{_in_folders(place, *SOURCES, *TARGETS)}; name them with --source and --target"
        )
    return start, end


def _in_folders(place: Place, *names: str) -> str:
    """A hint where the names of folders (``src=7/``) carry the column."""
    parts = {part.partition("=")[0] for file in place.files for part in file.split("/")[:-1] if "=" in part}
    found = next((part for part in sorted(parts) if part.lower() in names), None)
    return "" if found is None else f" (folder names carry {found!r}, which is not read: write it into the files)"


def _kind(file: str, schema: Any, column: str) -> str:
    if sum(str(name).lower() == column.lower() for name in schema.names) > 1:
        raise GraphError(f"{file} has several columns {column!r}, but for upper and lower case; rename all but one")
    kind = kind_of_ids(schema.field(column).type)
    if kind not in (WHOLE, TEXT):
        raise GraphError(
            f"{file}: column {column!r} holds {kind}, but node ids are whole numbers or text; cast the column and "
            "write the file again, or name other columns with --source and --target"
        )
    return kind


def _check_same(file: str, schema: Any, column: str, first: str, kind: str) -> None:
    if column not in schema.names:
        raise GraphError(
            f"{file} has no column {column!r} as {first} has (it has {', '.join(map(str, schema.names)) or 'none'}); "
            "write all files with the same columns"
        )
    found = _kind(file, schema, column)
    if found != kind:
        raise GraphError(
            f"column {column!r} holds {kind} in {first}, but {found} in {file}; write all files with one type"
        )
