"""Audits used to keep finished parts in a file of their own; what such a file holds is carried over to the store."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgeveil.audits.audit import AuditPlan, graphs_of
from edgeveil.errors import StorageError
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import fitting_scaling
from edgeveil.runs.code_digest import code_digest, equal_codes
from edgeveil.runs.records import Record
from edgeveil.runs.rows import plain
from edgeveil.runs.run_config import content_id
from edgeveil.runs.store import Store

__all__ = ["audit_store", "carry_over"]

OLD_NAME = ".cells.jsonl"
ASIDE = ".old"
_NAMED = ("model", "attacks", "nodes", "queries", "preset", "setting", "utility")  # what an old name was made of
# what plans have had since: an old result knows none of it
_SINCE = ("scaling", "split", "params", "model_params", "train_params", "shadow", "knows", "drawn")


@contextlib.contextmanager
def audit_store(keep: str | Path | None) -> Iterator[Store]:
    """The owner's store at `keep`, or one that lasts as long as the audit; an old resume file there is set aside."""
    if keep is None:
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
            yield store
        return
    path = Path(keep)
    if _is_old(path):
        try:
            path.replace(path.with_name(path.name + ASIDE))
        except OSError as error:
            raise StorageError(f"cannot set {path} aside: {error.strerror or error}; choose another file") from error
    with Store(path) as store:
        yield store


def _is_old(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(7) == b'{"id": '


def carry_over(store: Store, plan: AuditPlan, graph: Graph, inference: Graph | None) -> int:
    """Store what an old file beside the store holds of this plan, if its code's rows were found equal; how many."""
    old = store.path.with_name(OLD_NAME), store.path.with_name(store.path.name + ASIDE)
    results = {name: result for path in old for name, result in _read(path)}
    if not results or not _as_before(plan, graph):
        return 0
    graphs = graphs_of(graph, inference)
    prints = {name: part.fingerprint for name, part in graphs.items()}
    roles = dict(zip(("graph", "inference"), prints.values(), strict=False))
    shared = {k: v for k, v in asdict(plan).items() if k in _NAMED}
    carried = 0
    for defence, epsilon, seed in plan.cells():
        names = plain(shared | {"defence": defence, "epsilon": epsilon, "run_seed": seed})
        held = (results.get(content_id(names, roles, code)) for code in equal_codes(code_digest(), defence))
        result = next((found for found in held if found is not None), None)
        if result is not None:
            config = plan.config(graphs, defence, epsilon, seed).to_json()
            own, key = (content_id(config, prints, code) for code in (code_digest(), ""))
            carried += store.finish(_record(own, key, config, result))
    return carried


def _as_before(plan: AuditPlan, graph: Graph) -> bool:
    """Whether the plan asks nothing new, and features are scaled as they were: a graph's own by row."""
    usual = AuditPlan()
    scaled = graph.dataset != "" or fitting_scaling(graph.x) == "row"
    return scaled and all(getattr(plan, key) == getattr(usual, key) for key in _SINCE)


def _record(name: str, key: str, config: Mapping[str, Any], result: Mapping[str, Any]) -> Record:
    rows = [row | {"chance": row["n_edges"] / row["n_pairs"]} if row.get("n_pairs") else row for row in result["rows"]]
    row = rows[0]
    metric = row["utility_metric"]
    figures = {metric: row["utility"], f"val_{metric}": result["validation"]}
    kept = ("statement", "reference", "notes", "leak", "utility_by_degree", "budget")
    return Record(
        id=name, key=key, code=code_digest(), plan="audit", config=config, rows=tuple(rows),
        figures={k: v for k, v in figures.items() if v is not None},
        provenance={"carried_over": "an audit's resume file"}, details={k: result[k] for k in kept},
    )  # fmt: skip


def _read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Finished parts; a last line cut short is dropped."""
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                yield entry["id"], entry["result"]
