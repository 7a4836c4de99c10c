"""Measurements beyond the printed cells that explain a difference: one TOML plan each, and a table of what was found.

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

__all__ = ["plans", "study_tables", "study_terms", "terms"]


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


def study_tables() -> str:
    """One table per study that has samples: a line per setting, a column per epsilon, utility and AUC of the attack."""
    parts = []
    for name, plan in plans().items():
        rows = _rows(plan)
        if not rows:
            continue
        epsilons = sorted({epsilon for row in rows.values() for epsilon in row})
        head = ["settings", *(f"ε = {e:g}" if e else "utility" for e in epsilons)]
        parts += [f"**{plan.name}** (`edgeveil sweep src/edgeveil/papers/plans/{name}.toml`)", ""]
        parts += [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * len(epsilons)}"]
        parts += [f"| {label} | {' | '.join(row.get(e, '') for e in epsilons)} |" for label, row in rows.items()]
        parts.append("")
    return "\n".join(parts).rstrip()


def _rows(plan: Plan) -> dict[str, dict[float, str]]:
    runs = {run_key(run): run for run in plan.runs()}
    words = {key: dict(_words(run)) for key, run in runs.items()}
    names = dict.fromkeys(word for own in words.values() for word in own)
    varying = [name for name in names if len({str(own.get(name)) for own in words.values()}) > 1]
    budgets = {run.epsilon for run in runs.values() if run.epsilon is not None}
    found: dict[tuple[str, float], dict[str, Mapping[Sample, float]]] = {}
    for key, run in runs.items():
        label = ", ".join(_said(name, words[key][name]) for name in varying if name in words[key])
        place = (run.epsilon or 0.0) if len(budgets) > 1 else 0.0
        for term in study_terms(run):
            if samples := measured().of(term):
                own = _attack_words(run, term)
                found.setdefault((", ".join(filter(None, [label, own])), place), {})[
                    "auc" if term.pick else "utility"
                ] = samples
    rows: dict[str, dict[float, str]] = {}
    for (label, epsilon), known in found.items():
        parts = [
            _shown(known[kind]) + (" AUC" if kind == "auc" else "") for kind in ("utility", "auc") if kind in known
        ]
        seeds = max(len(values) for values in known.values())
        rows.setdefault(label, {})[epsilon] = f"{', '.join(parts)} ({seeds})"
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


def _shown(values: Mapping[Sample, float]) -> str:
    mean = math.fsum(values.values()) / len(values)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values.values()) / len(values))
    return f"{mean:.3f}±{spread:.3f}" if len(values) > 1 else f"{mean:.3f}"
