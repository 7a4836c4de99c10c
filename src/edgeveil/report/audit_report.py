"""`ev.audit`: from a graph to a finished audit with its rows, verdict and page."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeveil.audits.audit import (
    DEFAULT_SPLIT,
    check_attacked,
    check_plan,
    drawn_how,
    enough_nodes,
    judged_by,
    make_plan,
    run_audit,
    with_default_split,
    with_shadow,
)
from edgeveil.audits.claim_checks import verify_plan
from edgeveil.audits.coins import coin_bounds
from edgeveil.audits.existing_models import audit_existing
from edgeveil.audits.exposed_edges import write_exposed
from edgeveil.audits.gains import LOOKS
from edgeveil.audits.looks import Looked, look_until_decided
from edgeveil.audits.resume_files import audit_store, carry_over
from edgeveil.errors import EdgeveilError, InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.report.audit_data import AuditData, write_audit
from edgeveil.report.collect import audit_data
from edgeveil.report.gate import Gate, require
from edgeveil.report.judged import judged
from edgeveil.report.page import ordered, write_report
from edgeveil.report.terminal import table_rows
from edgeveil.report.verdict import verdict
from edgeveil.runs.executors import make_executor
from edgeveil.runs.records import Record
from edgeveil.runs.sweep import Progress

__all__ = ["Audit", "audit"]

LOOK_SHARE = 0.7  # of the time, where coins are planted; these get what is left, but for the page
PAGE_SHARE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """A finished audit. For the owner of the graph: not private."""

    graph: Graph
    data: AuditData
    records: Sequence[Record]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every measurement, one dictionary each, as `edgeveil audit --json` writes them."""
        return self.data.rows

    @property
    def verdict(self) -> list[str]:
        """The result in sentences, most important first."""
        return verdict(self.data, judged(self.data))

    def save(self, folder: str | Path) -> Path:
        """Write report.html, rows.jsonl and audit.json into a folder; returns the report's path."""
        folder = Path(folder)
        write_audit(self.data, folder / "audit.json")
        try:
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
            (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
        except OSError as error:
            raise StorageError(f"cannot write to {folder}: {error.strerror or error}") from error
        return write_report(self.data, folder / "report.html")

    def require(self, thresholds: str) -> Gate:
        """Judge ``"leakage<=0.2; utility>=0.7; guarantee=sound"`` with intervals; see `edgeveil.report.gate`."""
        return require(self.data, thresholds)

    def write_exposed(self, path: str | Path) -> None:
        """Write which true edges are found, and each node's exposure, to a file that only you can read."""
        write_exposed(Path(path), self.graph, self.records)

    def __repr__(self) -> str:
        head = f"Audit({self.data.graph['name']!r}: {self.data.settings['summary']})"
        return "\n".join([head, *(f"  {line}" for line in self.verdict)])

    def _repr_html_(self) -> str:
        head, body = table_rows(self.data, ordered(judged(self.data)))
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self.verdict)
        titles = "".join(f"<th scope='col'>{html.escape(title)}</th>" for title in head)
        cells = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in body)
        return f"{lines}<table><thead><tr>{titles}</tr></thead><tbody>{cells}</tbody></table>"


def audit(
    graph: Graph,
    *,
    target: Any = None,
    guarantee: Guarantee | None = None,
    target_name: str = "existing model",
    inference_graph: Graph | None = None,
    shadow: Graph | None = None,
    executor: str = "serial",
    workers: int | None = None,
    keep: str | Path | None = None,
    progress: Progress | None = None,
    command: str = "",
    source: str | None = None,
    minutes: float | None = None,
    coins: int = 0,
    tell: Callable[[str], None] | None = None,
    **plan: Any,
) -> Audit:
    """Train the chosen defences over a grid of epsilon, attack each and compare.

    `plan` takes the fields of `edgeveil.audits.audit.AuditPlan`: defences, epsilons, model, attacks, runs, seed, nodes,
    queries, preset, setting, scaling, params ({"lpgnet-2": {"noise": "gaussian"}}). `shadow`: a public graph for
    attacks that learn. `target`: attack this release or target instead of training anything; labels are then not
    needed; `guarantee` is what its owner states about it. `keep`: a store for finished runs, readable by you only, with
    which an interrupted audit goes on.
    `command` is quoted in the report; `source` is how the command line names the graph, for the commands at its end.
    `minutes`: add runs, in at most four looks, until the verdict is decided or the time is up; without it there are
    exactly `runs`. `coins`: so many planted pairs, decided by coins, bound what the strongest attack proves about each
    release, in a training of its own, as far as `minutes` allow. `tell` hears about each look. A graph without masks is
    split anew in every run.
    """
    trains = {"nodes": enough_nodes(inference_graph or graph)} if target is None else {}  # a server's answers cost
    if guarantee is not None and target is None:
        raise InputError("guarantee= is about target=; releases that the audit trains bring their own")
    truth = inference_graph or graph
    wished = with_shadow(make_plan(trains | plan), shadow, truth)
    wished = wished if "drawn" in plan else replace(wished, drawn=drawn_how(truth, wished.nodes))
    started = time.perf_counter()
    if target is not None:
        records = [audit_existing(wished, target, truth, target_name, guarantee, shadow)]
        seconds = time.perf_counter() - started
        data = audit_data(wished, truth, records, seconds=seconds, command=command, existing=True,
                          more={"randomised": records[0].details.get("randomised")})  # fmt: skip
        return Audit(truth, data, records)
    trained = with_default_split(graph, wished.split_seed)
    if trained is not graph and inference_graph is None:
        wished = replace(wished, split=DEFAULT_SPLIT)
    check_plan(wished, truth if inference_graph is not None else trained)
    wished = judged_by(wished, truth)
    work = make_executor(executor, workers)
    coins = coins if inference_graph is None else 0
    with audit_store(keep) as store:
        carry_over(store, wished, trained, inference_graph)
        if minutes is None:
            looked = Looked(run_audit(wished, trained, inference_graph, work, store, progress, shadow), wished.runs)
        else:
            looked = look_until_decided(
                wished,
                trained,
                inference_graph,
                work,
                store,
                minutes=minutes * (LOOK_SHARE if coins else 1 - PAGE_SHARE),
                progress=progress,
                tell=tell,
                shadow=shadow,
            )
        found, wished = looked.found, replace(wished, runs=looked.runs)
        if not found.records:
            raise EdgeveilError("every part of the audit failed:\n" + "\n".join(found.failures))
        check_attacked(wished, found.records)
        checked = verify_plan(wished.defences, wished.epsilons, wished.seed, wished.params_of)
        left = None if minutes is None else 60 * minutes * (1 - PAGE_SHARE) - (time.perf_counter() - started)
        if coins and tell is not None:
            tell("coins planted in each release" + ("" if left is None else f"; {max(left, 0):.0f} s left"))
        proved = coin_bounds(
            wished, trained, found.records, coins, work, store, seconds=left, progress=progress
        )  # fmt: skip
    data = audit_data(
        wished, truth, found.records, failures=found.failures, verified=checked, coins=proved,
        seconds=time.perf_counter() - started, command=command,
        more={
            "looks": 1 if minutes is None else LOOKS, "stopped": looked.stopped, "model": wished.model,
            "source": source or graph.name,
        },
    )  # fmt: skip
    return Audit(truth, data, found.records)
