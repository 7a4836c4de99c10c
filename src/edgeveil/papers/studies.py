"""Measurements beyond the printed cells that explain a difference: one TOML plan each, and what was found.

`edgeveil sweep` runs a plan like any other; the samples of its runs are kept with those of the printed cells.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from edgeveil.papers.recipes import Pick, Sample, Term, run_key
from edgeveil.papers.samples import asked, measured
from edgeveil.runs.plan import Plan, parse_plan
from edgeveil.runs.run_config import RunConfig

__all__ = ["measured_studies", "plans", "study_list", "study_terms", "terms"]


@cache
def plans() -> Mapping[str, Plan]:
    """Every study by the name of its file."""
    folder = files("edgeveil.papers") / "plans"
    found = {item.name: item for item in folder.iterdir() if item.name.endswith(".toml")}
    return {
        name.removesuffix(".toml"): parse_plan(tomllib.loads(found[name].read_text("utf-8")), name)
        for name in sorted(found)
    }


def study_terms(run: RunConfig) -> Iterator[Term]:
    """What a study keeps of a run: its utility, and the AUC of every attack."""
    yield Term(run, run.utility or "micro_f1")
    for attack in run.attacks:
        for degree in attack.degrees if attack.protocol == "subset" else (None,):
            yield Term(run, "auc", Pick(attack, degree, attack.beliefs[0]))


@cache
def terms() -> Mapping[str, tuple[Term, ...]]:
    """Every term that is kept, of printed cells and of studies, by its run."""
    found = {key: list(known) for key, known in asked().items()}
    for plan in plans().values():
        for run in plan.runs():
            known = found.setdefault(run_key(run), [])
            known += [term for term in study_terms(run) if term.figure not in {k.figure for k in known}]
    return {key: tuple(known) for key, known in found.items()}


def measured_studies() -> dict[str, list[dict[str, Any]]]:
    """Every study that has samples, by the name of its file: one plain row per setting, epsilon and figure."""
    return {name: rows for name, plan in plans().items() if (rows := _rows(plan))}


def study_list() -> str:
    """One line per measured study: what it varies, its plan, how many seeds, and where its figures are."""
    lines = ["| study | plan | figures | seeds |", "| --- | --- | ---: | ---: |"]
    for name, rows in measured_studies().items():
        seeds = sorted({row["samples"] for row in rows})
        span = str(seeds[0]) if seeds[0] == seeds[-1] else f"{seeds[0]}–{seeds[-1]}"
        figures = f"[{len(rows)}](fidelity/study-{name}.csv)"
        lines.append(f"| {plans()[name].name} | `{name}.toml` | {figures} | {span} |")
    return "\n".join(lines)


def _rows(plan: Plan) -> list[dict[str, Any]]:
    runs = {run_key(run): run for run in plan.runs()}
    words = {key: dict(_words(run)) for key, run in runs.items()}
    names = dict.fromkeys(word for own in words.values() for word in own)
    varying = [name for name in names if len({str(own.get(name)) for own in words.values()}) > 1]
    rows = []
    for key, run in runs.items():
        label = ", ".join(_said(name, words[key][name]) for name in varying if name in words[key])
        for term in study_terms(run):
            if samples := measured().of(term):
                mean, spread = _mean_and_deviation(samples)
                rows.append({
                    "settings": label, "epsilon": run.epsilon, "attacked": _attack_words(run, term),
                    "figure": term.metric, "mean": mean, "std": spread, "samples": len(samples),
                })  # fmt: skip
    return rows


def _words(run: RunConfig) -> Iterator[tuple[str, Any]]:
    """What may distinguish a run from its neighbours, epsilon (a column) and the rule for the kept epoch apart."""
    yield from (("dataset", run.dataset), ("defence", run.defence), ("model", run.model))
    for group in (run.defence_params, run.model_params, run.train_params):
        yield from ((name, value) for name, value in group.items() if name not in ("variant", "keep"))


def _attack_words(run: RunConfig, term: Term) -> str:
    """Which attack, and which class of nodes, where a run has several."""
    if term.pick is None:
        return ""
    attack, degree = term.pick.attack, term.pick.degree
    which = f"{attack.name} on {attack.service or 'logits'}".replace(", float64", "") if len(run.attacks) > 1 else ""
    among = f"{degree} degree" if degree and len(attack.degrees) > 1 else ""
    return ", ".join(filter(None, [which, among]))


def _said(name: str, value: Any) -> str:
    if name in ("dataset", "defence", "model", "readout"):
        return str(value)
    return f"{name.replace('_', ' ')} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"


def _mean_and_deviation(values: Mapping[Sample, float]) -> tuple[float, float]:
    mean = math.fsum(values.values()) / len(values)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values.values()) / len(values))
    return round(mean, 5), round(spread, 5)
