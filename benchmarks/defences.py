"""The comparison of defences at equal epsilon, as one plan of the one engine; docs/defences.md is made of its rows.

python benchmarks/defences.py tune cora      # try every method's three settings on validation nodes, once per graph
python benchmarks/defences.py plan           # write benchmarks/defences.toml from the settings chosen so far
python benchmarks/defences.py run cora       # go on where the last run stopped: seed by seed, smallest graph first
python benchmarks/defences_page.py           # the page

`edgeveil sweep benchmarks/defences.toml --out runs/defences` runs the same plan without the order by seeds. Settings are
chosen at epsilon 4 on a split of their own (seed 90) by validation accuracy, the same number for every method; searching
is not covered by any epsilon. The Twitch graphs that are answered for have no validation nodes: their settings are those
of the graph that trains, split 50:25:25.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import edgeveil as ev
from edgeveil.attacks.attack import ATTACKS, by_strength
from edgeveil.audits.audit import AuditPlan, attack_configs, drawn_how
from edgeveil.defences.edgerand import expected_density
from edgeveil.graph.pairs import num_pairs
from edgeveil.runs.executors import make_executor
from edgeveil.runs.plan import Plan, load_plan, takes_epsilon
from edgeveil.runs.row_files import export
from edgeveil.runs.run_config import AttackConfig, RunConfig
from edgeveil.runs.store import Store
from edgeveil.runs.sweep import stored, sweep

HERE = Path(__file__).parent
PLAN, SETTINGS, ROWS = HERE / "defences.toml", HERE / "defences_settings.json", HERE / "defences.jsonl"
EPSILONS = (1.0, 4.0, 8.0)
TUNED_AT, TUNING_SEED = 4.0, 90
MOST_EDGES = 6e5  # randomised graphs with more edges than this are not trained on
SEEDS = {
    "chameleon": 10, "cora": 10, "citeseer": 10, "amazon-photo": 10, "pubmed": 10, "facebook": 3, "twitch-ru": 3,
    "twitch-de": 3,
}  # fmt: skip
TUNED_ON = {"twitch-ru": "twitch-es", "twitch-de": "twitch-es"}
Setting = dict[str, dict[str, Any]]  # params of the defence, of the model, of training


def _own(**values: Sequence[Any]) -> tuple[Setting, ...]:
    ((name, choices),) = values.items()
    return tuple({"params": {name: choice}} for choice in choices)


def _rates() -> tuple[Setting, ...]:
    return tuple({"train_params": {"lr": rate}} for rate in (0.01, 0.003, 0.03))


METHODS: dict[str, tuple[Setting, ...]] = {
    "none": _rates(),
    "mlp": tuple({"model_params": {"hidden": width}} for width in (16, 64, 256)),
    "feature-graph": _own(neighbours=(15, 10, 30)),
    "edgerand": _rates(),
    "lapgraph": _rates(),
    "lpgnet": _own(layers=(1, 2, 3)),
    "gap": _own(hops=(1, 2, 3)),
    "progap": _own(hops=(2, 3, 4)),
    "blink": ({"params": {"kind": "hard"}}, {"params": {"kind": "hybrid"}}, {"params": {"degree_share": 0.3}}),
    "veil-counts": _own(neighbours=(15, 10, 30)),
    "veil-rr": _own(neighbours=(15, 10, 30)),
}


def _config(dataset: str, defence: str, setting: Setting, epsilon: float, seed: int) -> RunConfig:
    """One run of the plan's grids; used for tuning, where nothing is attacked."""
    parsed = Plan.model_validate({"grid": [_grid(dataset, defence, setting, (epsilon,))], "seeds": [seed]})
    (run,) = parsed.runs()
    return run


def _grid(dataset: str, defence: str, setting: Setting, epsilons: Sequence[float], **more: Any) -> dict[str, Any]:
    grid: dict[str, Any] = {"dataset": dataset, "defence": defence, "utility": "accuracy"}
    if dataset in TUNED_ON.values():
        grid |= {"split": "50:25:25", "split_seed": "run", "utility": "rare_f1"}
    elif dataset in TUNED_ON:
        grid |= {"train_on": TUNED_ON[dataset], "setting": "inductive-different", "utility": "rare_f1"}
    else:
        grid |= {"split": "20-per-class", "split_seed": "run"}
    if takes_epsilon(defence):
        grid["epsilon"] = list(epsilons)
    params = setting.get("params", {})
    grid |= {"params": {defence: params}} if params else {}
    return grid | {k: v for k, v in setting.items() if k != "params"} | more


def settings() -> dict[str, dict[str, int]]:
    """Which setting of every method each graph has chosen; the first where none was tried."""
    return json.loads(SETTINGS.read_text()) if SETTINGS.exists() else {}


def feasible(dataset: str, defence: str) -> list[float]:
    """Epsilons at which the defence's noisy graph can be trained on here."""
    if defence != "edgerand":
        return list(EPSILONS)
    n = ev.load(dataset).num_nodes
    return [e for e in EPSILONS if expected_density(e, 0.0) * num_pairs(n) <= MOST_EDGES]


def tune(datasets: Sequence[str], folder: Path, methods: Sequence[str]) -> None:
    """Every setting of every method without one, once; the best validation figure wins, ties go to the first."""
    chosen = settings()
    with Store(folder / "tuning.sqlite") as store:
        for dataset in datasets:
            runs = [
                _config(dataset, defence, setting, min(map(_far, feasible(dataset, defence)))[1], TUNING_SEED)
                for defence, choices in METHODS.items()
                for setting in choices
                if defence in methods and defence not in chosen.get(dataset, {})
            ]
            summary = sweep(runs, store, make_executor("serial"), ev.load)
            found: dict[str, list[float]] = {}
            for _, record in stored(store, summary):
                row = record.rows[0]
                value = record.figures.get(f"val_{row['utility_metric']}")
                found.setdefault(_method(row["defence"]), []).append(-1.0 if value is None else float(value))
            best = {name: values.index(max(values)) for name, values in found.items()}
            chosen[dataset] = chosen.get(dataset, {}) | best
            SETTINGS.write_text(json.dumps(chosen, indent=1) + "\n")
            print(dataset, chosen[dataset], flush=True)


def _far(epsilon: float) -> tuple[float, float]:
    return abs(epsilon - TUNED_AT), epsilon


def _method(name: str) -> str:
    """Presets such as blink-hard and lpgnet-2 count under their method."""
    return next((m for m in METHODS if name == m or (m in ("blink", "lpgnet") and name.startswith(f"{m}-"))), name)


def write_plan() -> None:
    """The whole comparison as a plan; the first seed is attacked."""
    chosen, lines = settings(), ['name = "defences"', ""]
    for dataset, seeds in SEEDS.items():
        for defence, choices in METHODS.items():
            epsilons = feasible(dataset, defence)
            if not epsilons:
                continue
            setting = choices[chosen.get(TUNED_ON.get(dataset, dataset), {}).get(defence, 0)]
            for own, attacks in (([0], attacks_on(dataset)), (list(range(1, seeds)), [])):
                lines += _toml(_grid(dataset, defence, setting, epsilons, seeds=own), attacks)
    PLAN.write_text("\n".join(lines))


def _toml(grid: dict[str, Any], attacks: Sequence[AttackConfig]) -> Iterator[str]:
    yield "[[grid]]"
    tables = {k: v for k, v in grid.items() if isinstance(v, dict)}
    yield from (f"{k} = {json.dumps(v)}" for k, v in grid.items() if k not in tables)
    if attacks:
        yield "attack = ["
        named = ({"name": a.name} | a.model_dump(exclude_defaults=True) for a in attacks)
        yield from (f"  {{ {_inline(a)} }}," for a in named)
        yield "]"
    for name, values in tables.items():
        if name == "params":
            ((defence, values),) = values.items()
            name = f"params.{defence}"
        yield f"[grid.{name}]"
        yield from (f"{k} = {json.dumps(v)}" for k, v in values.items())
    yield ""


def _inline(values: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {{ {_inline(v)} }}" if isinstance(v, dict) else f"{k} = {json.dumps(v)}" for k, v in values.items() if v != {})  # fmt: skip


def attacks_on(dataset: str) -> list[AttackConfig]:
    """Those of an audit that names none, each where it fits, on nodes that the audit would draw.

    Without those that learn by many questions what a stronger one reads at once here, where the release is at hand.
    """
    told = [name for name in by_strength() if not ATTACKS.get(name).saves_queries and name != "flatroot"]
    plan = AuditPlan(attacks=tuple(told), drawn=drawn_how(ev.load(dataset), AuditPlan().nodes))
    return [c.model_copy(update={"beliefs": ("k",), "where_it_fits": True}) for c in attack_configs(plan, 0)]


def run(datasets: Sequence[str], folder: Path, seeds: Sequence[int] | None, methods: Sequence[str]) -> None:
    """Seeds outermost, so that every state of the store is balanced; rows are exported after each graph."""
    every = load_plan(PLAN).runs()
    with Store(folder / "store.sqlite") as store:
        for seed in sorted({r.seed for r in every}) if seeds is None else seeds:
            for dataset in [d for d in SEEDS if d in datasets]:
                mine = [r for r in every if r.seed == seed and r.dataset == dataset and _method(r.defence) in methods]
                if mine:
                    sweep(mine, store, make_executor("serial"), ev.load, any_code=True)
                    print(seed, dataset, write_rows(store), flush=True)


def write_rows(store: Store) -> int:
    """What the page needs, one short line per run and attack; rows of runs that this store lacks are kept."""
    mine = [_short(row) for row in store.rows()]
    known = map(json.loads, ROWS.read_text().splitlines() if ROWS.exists() else [])
    again = {_run(row) for row in mine}
    rows = {(*_run(row), row["attack"]): row for row in [*(row for row in known if _run(row) not in again), *mine]}
    order = list(SEEDS)
    ordered = sorted(rows.values(), key=lambda r: (order.index(r["dataset"]), r["seed"], list(METHODS).index(r["defence"]), r["epsilon"] or 0, r["attack"] or ""))  # fmt: skip
    return export(ordered, ROWS)


def _run(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("dataset", "defence", "epsilon", "seed"))


def _short(row: Any) -> dict[str, Any]:
    def digits(value: Any) -> Any:
        return round(value, 4) if isinstance(value, float) else value

    keys = ("dataset", "seed", "epsilon", "delta", "status", "attack", "utility", "leakage", "auc", "seconds_train")
    return {"defence": _method(row["defence"]), **{k: digits(row.get(k)) for k in keys}}


def main() -> None:
    """Parse and go."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", choices=["tune", "plan", "run"])
    parser.add_argument("datasets", nargs="*", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=Path("runs/defences"), help="folder of the stores")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these, in this order; seed 0 is attacked")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), choices=list(METHODS), help="tune or run only these"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.job == "tune":
        tune(args.datasets, args.out, args.methods)
    elif args.job == "plan":
        write_plan()
    else:
        run(args.datasets, args.out, args.seeds, args.methods)


if __name__ == "__main__":
    main()
