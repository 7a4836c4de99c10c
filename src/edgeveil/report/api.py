"""`ev.audit` and `ev.advise`: the two main commands as functions."""

from __future__ import annotations

import html
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeveil.audits.advise import Advice, choosing_cost, conclude, in_other_units, with_validation
from edgeveil.audits.advise import advise as choose
from edgeveil.audits.audit import AuditPlan, check_plan, run_audit, with_default_split
from edgeveil.audits.claim_checks import verify_plan
from edgeveil.audits.existing_models import leak_only
from edgeveil.audits.exposed_edges import write_exposed
from edgeveil.errors import EdgeveilError, InputError, StorageError
from edgeveil.graph.graph import Graph
from edgeveil.report.collect import audit_data
from edgeveil.report.data import AuditData, summarise, write_audit
from edgeveil.report.page import ordered, write_report
from edgeveil.report.terminal import table_rows
from edgeveil.report.verdict import verdict
from edgeveil.runs.executors import make_executor

__all__ = ["Audit", "advise", "audit", "make_advice"]

Results = tuple[list[dict[str, Any]], list[str]]
Run = Callable[[AuditPlan, Graph, Graph | None], Results]
CANDIDATES = ("edgerand", "lapgraph", "lpgnet-1", "lpgnet-2")


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """A finished audit. For the owner of the graph: not private."""

    graph: Graph
    data: AuditData
    results: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every measurement, one dictionary each, as `edgeveil audit --json` writes them."""
        return self.data.rows

    @property
    def verdict(self) -> list[str]:
        """The result in sentences, most important first."""
        return verdict(self.data, summarise(self.data.rows))

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

    def write_exposed(self, path: str | Path) -> None:
        """Write which true edges are found, and each node's exposure, to a file that only you can read."""
        write_exposed(Path(path), self.graph, self.results)

    def __repr__(self) -> str:
        head = f"Audit({self.data.graph['name']!r}: {self.data.settings['summary']})"
        return "\n".join([head, *(f"  {line}" for line in self.verdict)])

    def _repr_html_(self) -> str:
        head, body = table_rows(self.data, ordered(summarise(self.data.rows)))
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self.verdict)
        titles = "".join(f"<th scope='col'>{html.escape(title)}</th>" for title in head)
        cells = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in body)
        return f"{lines}<table><thead><tr>{titles}</tr></thead><tbody>{cells}</tbody></table>"


def audit(
    graph: Graph,
    *,
    target: Any = None,
    inference_graph: Graph | None = None,
    executor: str = "serial",
    workers: int | None = None,
    keep: str | Path | None = None,
    **plan: Any,
) -> Audit:
    """Train the chosen defences over a grid of epsilon, attack each and compare.

    `plan` takes the fields of `edgeveil.audits.audit.AuditPlan`: defences, epsilons, model, attacks, runs, seed, nodes,
    queries, preset, setting. `target`: attack this release or target instead of training anything; labels are then not
    needed. `keep`: a file for finished parts, with which an interrupted audit goes on.
    """
    wished = _plan(plan)
    truth = inference_graph or graph
    started = time.perf_counter()
    if target is not None:
        results = [leak_only(wished, target, truth)]
        data = audit_data(wished, truth, results, seconds=time.perf_counter() - started, existing=True)
        return Audit(truth, data, results)
    results, failures = _runner(executor, workers, keep)(wished, with_default_split(graph), inference_graph)
    if not results:
        raise EdgeveilError("every part of the audit failed:\n" + "\n".join(failures))
    checked = verify_plan(wished.defences, wished.epsilons, wished.seed)
    seconds = time.perf_counter() - started
    return Audit(
        truth, audit_data(wished, truth, results, failures=failures, verified=checked, seconds=seconds), results
    )


def advise(
    graph: Graph,
    *,
    floor: float | None = None,
    choose_on: Graph | None = None,
    attacks: Sequence[str] = ("linkteller", "lsa2-post", "lsa2-attr"),
    inference_graph: Graph | None = None,
    executor: str = "serial",
    workers: int | None = None,
    keep: str | Path | None = None,
    **plan: Any,
) -> Advice:
    """The smallest epsilon per defence whose validation utility beats a floor (LinkTeller App. G6), ranked.

    `choose_on`: a public graph or a twin to choose on, so that the private graph pays for the release alone.
    """
    wished = _plan({"defences": CANDIDATES} | plan)
    run = _runner(executor, workers, keep)
    return make_advice(wished, tuple(attacks), with_default_split(graph), inference_graph, choose_on, floor, run)[0]


def make_advice(
    plan: AuditPlan,
    attacks: tuple[str, ...],
    private: Graph,
    inference: Graph | None,
    public: Graph | None,
    floor: float | None,
    run: Run,
    split_seed: int = 0,
) -> tuple[Advice, list[dict[str, Any]]]:
    """Choose on validation data, then train and attack what was chosen; the advice and the rows behind it."""
    left_out = in_other_units(plan.defences)
    others = tuple(d for d in plan.defences if d not in ("mlp", "none", *left_out))
    plan = replace(plan, defences=("mlp", *others), attacks=())
    check_plan(replace(plan, attacks=attacks), inference or private)
    ground = with_validation(private if public is None else with_default_split(public, split_seed), split_seed)
    results, failures = run(plan if inference is None else replace(plan, setting=None), ground, None)
    if failures:
        raise EdgeveilError("some candidates failed, so no choice is made:\n" + "\n".join(failures))
    advice = choose(results, floor)
    if advice.floor != advice.floor:
        raise InputError("no floor: there are no validation nodes to score the MLP on; give a floor or another split")
    advice.left_out |= left_out
    if public is None:
        advice.cost = choosing_cost(plan)
    rows = []
    for i, choice in enumerate(advice.choices):
        final = replace(plan, defences=(choice.defence,), epsilons=(choice.epsilon,), attacks=attacks)
        results, failures = run(final, private, inference)
        if failures:
            raise EdgeveilError("the chosen release failed:\n" + "\n".join(failures))
        part = [row for result in results for row in result["rows"]]
        cell = summarise(part)[0]
        advice.choices[i] = replace(
            choice, utility=cell.utility, leakage=cell.leakage, attack=cell.attack, stated=cell.epsilon
        )
        rows += part
    found = max((row["n_edges"] or 0 for row in rows), default=10**9)
    advice.words = conclude(advice, plan, found, None if public is None else public.name)
    return advice, rows


def _plan(wishes: Mapping[str, Any]) -> AuditPlan:
    unknown = wishes.keys() - set(AuditPlan.__dataclass_fields__)
    if unknown:
        known = ", ".join(AuditPlan.__dataclass_fields__)
        raise InputError(f"an audit has no setting {min(unknown)!r}; it has {known}")
    lists = ("defences", "epsilons", "attacks")
    given: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in wishes.items()}
    return AuditPlan(**given)


def _runner(executor: str, workers: int | None, keep: str | Path | None) -> Run:
    def run(plan: AuditPlan, graph: Graph, inference: Graph | None) -> Results:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cells.jsonl" if keep is None else Path(keep)
            return run_audit(plan, graph, inference, make_executor(executor, workers), file)

    return run
