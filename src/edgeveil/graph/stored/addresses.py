"""Where tables lie: a local file or folder, or any address that fsspec opens (``s3://``, ``gs://``, ``memory://``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from edgeveil.errors import MissingExtra, StorageError

__all__ = ["Place", "find_tables", "is_address", "is_table_folder", "open_parquet", "state_of"]

EDGE_TABLES = "tables that stay in files"
EXTRA = "scale"


class Place(NamedTuple):
    """The parquet files behind an address, sorted; `system` is None for local ones."""

    address: str
    files: tuple[str, ...]
    system: Any = None

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.address.rstrip("/").rpartition("/")[2] or self.address


def is_address(where: str | Path) -> bool:
    """Whether this is no plain path but an address with a protocol."""
    return "://" in str(where)


def is_table_folder(where: str | Path) -> bool:
    """Whether this names a folder of parquet files, at any depth, or an address."""
    if is_address(where):
        return True
    path = Path(where)
    return path.is_dir() and next(path.rglob("*.parquet"), None) is not None


def find_tables(where: str | Path) -> Place:
    """The parquet file or files at a path or an address; folders are searched at every depth."""
    address = str(where)
    if address.startswith("file://"):
        address = address.removeprefix("file://")
    if not is_address(address):
        return _found(str(where), _local(Path(address)), None)
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtra(f"the address {address}", EXTRA) from error
    if "::" in address:
        raise StorageError(f"{address} goes through another address (::), which no engine reads; name the files' own")
    try:
        system, path = fsspec.core.url_to_fs(address)
        single = path.endswith(".parquet") and system.isfile(path)  # to http, a folder's listing is a file too
        inside = [path] if single else sorted(system.find(path))
    except (OSError, ValueError, ImportError) as error:
        raise StorageError(f"cannot open {address}: {error}") from error
    files = [system.unstrip_protocol(file) for file in inside if _is_parquet(file)]
    return _found(address, files, system)


def _local(path: Path) -> list[str]:
    found = sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []
    return [str(file) for file in found if file.is_file() and _is_parquet(file.relative_to(path.parent).as_posix())]


def _is_parquet(name: str) -> bool:
    """A parquet file that is no engine's hidden scratch (``_temporary``, ``.part``)."""
    return name.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in name.split("/")[1:])


def _found(address: str, files: list[str], system: Any) -> Place:
    if not files:
        raise StorageError(f"no parquet file at {address}; give a .parquet file or a folder that holds some")
    return Place(address, tuple(files), system)


def state_of(place: Place) -> dict[str, Any]:
    """What tells files from other ones at the same place: size and time of change, or what the remote system says."""
    if place.system is None:
        return {file: [(found := Path(file).stat()).st_size, found.st_mtime_ns] for file in place.files}
    return {file: {key: str(value) for key, value in place.system.info(file).items()} for file in place.files}


def open_parquet(place: Place, file: str) -> Any:
    """One of the files, opened for reading."""
    try:
        return pyarrow.parquet.ParquetFile(file if place.system is None else place.system.open(file))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{file} is not a readable parquet file: {error}; write it again or take it away") from error
