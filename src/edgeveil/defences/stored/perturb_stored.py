"""Noisy edges of a graph that stays in files, written as parquet without ever being held together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from edgeveil.defences.defence import EdgeMechanism, registered_name
from edgeveil.defences.stored.journal import Journal, open_journal
from edgeveil.errors import StorageError
from edgeveil.graph.npz import atomic_write
from edgeveil.graph.pairs import unrank
from edgeveil.graph.stored.graph_in_files import StoredGraph
from edgeveil.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from edgeveil.privacy.ledger.ledger import Ledger

__all__ = ["perturb_stored"]

ROWS = 1 << 20
FILE = 16  # row groups per file


def perturb_stored(
    mechanism: EdgeMechanism,
    graph: StoredGraph,
    out: Path,
    *,
    seed: int | None = None,
    ledger: str | Path | Ledger | None = None,
    edge_set: str | None = None,
    tenant: str = "owner",
) -> tuple[Guarantee, int]:
    """Write ``edges/`` and ``manifest.json`` to `out`; the guarantee and the number of noisy edges.

    The ledger is charged once, before any noise is drawn. What an interrupted run has written was never in place, and
    the next one with the same work folder starts again under the same charge.
    """
    guarantee = mechanism.mechanism_guarantee(seed)
    plan = {
        "perturb": registered_name(mechanism), "params": asdict(mechanism), "seed": seed,  # type: ignore[call-overload]
        "source": graph.source_facts(), "out": str(out.absolute()),
    }  # fmt: skip
    with open_journal(graph.work, plan) as journal:
        if ledger is not None:
            _charge(ledger, graph, guarantee, f"perturb {registered_name(mechanism)}", journal, edge_set, tenant)
        part = out.with_name(f".{out.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        count = _write(mechanism.noisy_chunks(graph, seed, journal.folder), graph, part / "edges")
        manifest = {
            "format": 1,
            "defence": registered_name(mechanism),
            "params": asdict(mechanism),  # type: ignore[call-overload]
            "dataset": graph.name,
            "num_nodes": graph.num_nodes,
            "num_edges": count,
            "guarantee": guarantee.to_json(),
        }
        atomic_write(part / "manifest.json", (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
        part.replace(out)  # all of it at once
    shutil.rmtree(journal.folder, ignore_errors=True)  # done: the next export is another one and pays for itself
    return guarantee, count


def _charge(
    ledger: str | Path | Ledger, graph: StoredGraph, guarantee: Guarantee, what: str, journal: Journal,
    edge_set: str | None, tenant: str,
) -> None:  # fmt: skip
    from edgeveil.privacy.ledger import require_extra

    require_extra("recording in a ledger")
    from edgeveil.privacy.ledger.recording import recording
    from edgeveil.privacy.ledger.units import cost_of

    with recording(ledger, [graph], edge_set=edge_set, tenant=tenant) as recorder:
        recorder.settle(recorder.charge(cost_of(guarantee), what, token=journal.token))


def _write(chunks: Iterator[NDArray[np.int64]], graph: StoredGraph, folder: Path) -> int:
    """Parquet files of full row groups."""
    ids = None if graph.node_ids is None else pa.array(graph.node_ids)
    kind = pa.int64() if ids is None else pa.string()
    schema = pa.schema([("source", kind), ("target", kind)])
    count = groups = 0
    writer: Any = None
    try:
        folder.mkdir(parents=True)
        for ranks in _regular(chunks):
            if groups % FILE == 0:
                if writer is not None:
                    writer.close()
                writer = pq.ParquetWriter(folder / f"part-{groups // FILE:05d}.parquet", schema)
            ends = [pa.array(end) if ids is None else ids.take(pa.array(end)) for end in unrank(ranks, graph.num_nodes)]
            writer.write_table(pa.table(ends, schema=schema))
            count, groups = count + len(ranks), groups + 1
        if writer is not None:
            writer.close()
        else:
            pq.write_table(schema.empty_table(), folder / "part-00000.parquet")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}; free some space") from error
    return count


def _regular(chunks: Iterator[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """The same numbers in pieces of `ROWS`: their cuts say nothing about where true edges lie."""
    held: list[NDArray[np.int64]] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= ROWS:
            joined = np.concatenate(held)
            whole = len(joined) // ROWS * ROWS
            yield from np.split(joined[:whole], whole // ROWS)
            held, size = [joined[whole:]], len(joined) - whole
    if size:
        yield np.concatenate(held)
