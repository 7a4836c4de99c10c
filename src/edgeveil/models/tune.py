"""Hyper-parameter search over the papers' spaces, on training and validation labels only.

    python -m edgeveil.models.tune --dataset cora --model gcn --space lpgnet
    python -m edgeveil.models.tune --dataset twitch-es --model gcn --by-training-loss   # LPGNet's rule on Twitch

Searching spends privacy that no guarantee of the final model covers: tune on public data, or count every trial.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeveil.errors import InputError, MissingExtra, StorageError, TrainingError, UnknownNameError
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.graph.scaling import Scaling
from edgeveil.graph.validate import Split
from edgeveil.models.assemble import build
from edgeveil.models.presets import Preset, preset
from edgeveil.models.structure import Structure
from edgeveil.models.train import fit

__all__ = ["SPACES", "Problem", "Trial", "best", "grid_search", "points", "problem", "read_trials", "tpe_search"]

log = logging.getLogger("edgeveil")
_TRAIN_FIELDS = ("lr", "weight_decay", "epochs")

SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "lpgnet": {
        "lr": (0.005, 0.001, 0.01, 0.05),
        "hidden": (16, 64, 256),
        "layers": (2, 3),
        "dropout": (0.1, 0.3, 0.5),
    },
    "linkteller": {
        "lr": (0.005, 0.01, 0.02, 0.04, 0.05, 0.1, 0.2),
        "dropout": (0.05, 0.1, 0.2, 0.3, 0.5, 0.8),
        "layers": (1, 2, 3),
        "hidden": (64, 128, 256, 512),
        "norm": ("first-order", "aug", "bingge", "aug-rwalk"),
    },
}
"""LPGNet App. B (72 points) and LinkTeller App. F4 (2,016 points)."""


@dataclass(frozen=True)
class Trial:
    """One point and what validation said about it."""

    point: dict[str, Any]
    val_score: float
    val_loss: float
    kept_epoch: int
    seconds: float

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: higher validation score, then lower validation loss."""
        return -self.val_score, self.val_loss


@dataclass(frozen=True, eq=False)
class Problem:
    """Data with the test labels removed, and the settings that the search does not touch."""

    x: FeatureMatrix
    structure: Structure
    y: NDArray[Any]
    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    num_classes: int
    base: Preset
    name: str

    def run(self, point: Mapping[str, Any], seed: int) -> Trial:
        """Train at one point; a diverged run is a trial that lost."""
        model_part, train_part = split_point(point)
        spec = replace(self.base.model, **model_part)
        train = replace(self.base.train, **train_part)
        if not train.needs_validation:
            train = replace(train, keep="best-val-loss")
        model = build(spec, self.x.shape[1], self.num_classes, seed)
        data = (self.x, self.structure, self.y, self.train, self.val)
        try:
            history = fit(model, *data, train, seed=seed, multilabel=self.y.ndim == 2)
        except TrainingError:
            return Trial(dict(point), 0.0, math.inf, 0, 0.0)
        kept = history.kept_epoch - 1
        score, loss = history.val_score[kept], history.val_loss[kept]
        return Trial(dict(point), score, loss, history.kept_epoch, round(history.seconds, 3))


def split_point(point: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The model's and the training's share of a point."""
    train = {k: v for k, v in point.items() if k in _TRAIN_FIELDS}
    return {k: v for k, v in point.items() if k not in _TRAIN_FIELDS}, train


def problem(graph: Graph, base: Preset, *, on_training: bool = False) -> Problem:
    """A search problem on a graph; its test labels are overwritten before anything sees them.

    `on_training` validates on the training nodes, all of them where the graph has no split.
    """
    masks = graph.masks
    if on_training and graph.y is not None:
        every = np.ones(graph.num_nodes, dtype=bool) if masks is None else masks.train
        masks = Split(every, every, np.zeros_like(every))
    if masks is None or graph.y is None or not masks.train.any() or not masks.val.any():
        raise InputError(f"{graph.name!r} has no training and validation nodes to tune on; choose a split with both")
    visible = masks.train | masks.val
    hidden = 0 if graph.multilabel else -1
    y = np.where(visible if graph.y.ndim == 1 else visible[:, None], graph.y, hidden)
    x = Scaling.fit(base.scaling, graph.x).apply(graph.x)
    return Problem(x, Structure(graph.adjacency), y, masks.train, masks.val, graph.num_classes, base, graph.name)


def points(space: str | Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All points of a space, in a fixed order."""
    axes = _axes(space)
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _axes(space: str | Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    if not isinstance(space, str):
        return space
    if space not in SPACES:
        raise UnknownNameError("search space", space, SPACES)
    return SPACES[space]


def _key(point: Mapping[str, Any]) -> str:
    return json.dumps(point, sort_keys=True)


def read_trials(store: Path) -> dict[str, Trial]:
    """Finished trials of a store by point; a last line cut off by a crash is ignored."""
    found: dict[str, Trial] = {}
    if not store.exists():
        return found
    lines = store.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        try:
            trial = Trial(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number + 1 == len(lines):
                break
            raise StorageError(
                f"line {number + 1} of {store} is not a trial ({error}); repair or delete the file"
            ) from error
        found[_key(trial.point)] = trial
    return found


def grid_search(
    task: Problem,
    space: str | Mapping[str, Sequence[Any]],
    store: Path,
    *,
    seed: int = 0,
    progress: Callable[[int, int, Trial], None] | None = None,
) -> list[Trial]:
    """Every point of the space once; points already in the store are not run again."""
    wanted, done = points(space), read_trials(store)
    _drop_cut_line(store)
    out: list[Trial] = []
    for index, point in enumerate(wanted):
        trial = done.get(_key(point))
        if trial is None:
            trial = task.run(point, seed)
            store.parent.mkdir(parents=True, exist_ok=True)
            with store.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(trial)) + "\n")
        out.append(trial)
        if progress is not None:
            progress(index + 1, len(wanted), trial)
    return out


def _drop_cut_line(store: Path) -> None:
    """Remove an unfinished last line, so that the next append starts on its own."""
    if store.exists():
        text = store.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            store.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


def tpe_search(
    task: Problem, space: str | Mapping[str, Sequence[Any]], store: Path, *, trials: int, seed: int = 0
) -> list[Trial]:
    """Optuna's TPE over the same axes; `trials` counts those already in the store (SQLite)."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("the TPE search", "tune") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    axes = _axes(space)
    store.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=task.name, storage=f"sqlite:///{store}", load_if_exists=True, direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
    )  # fmt: skip

    def objective(trial: Any) -> float:
        point = {name: trial.suggest_categorical(name, list(values)) for name, values in axes.items()}
        found = task.run(point, seed)
        trial.set_user_attr("trial", asdict(found))
        return found.val_score

    complete = [t for t in study.trials if "trial" in t.user_attrs]
    study.optimize(objective, n_trials=max(0, trials - len(complete)))
    return [Trial(**t.user_attrs["trial"]) for t in study.trials if "trial" in t.user_attrs]


def best(trials: Sequence[Trial], *, by_loss: bool = False) -> Trial:
    """The trial with the highest validation score, ties by the lower validation loss; or `by_loss` alone."""
    sound = [t for t in trials if math.isfinite(t.val_loss)]
    if not sound:
        raise InputError("no trial finished, so there is no best one; run the search first")
    return min(sound, key=lambda t: t.val_loss if by_loss else t.rank)


def _entry(trial: Trial, args: argparse.Namespace, count: int) -> dict[str, Any]:
    model, train = split_point(trial.point)
    command = f"python -m edgeveil.models.tune --dataset {args.dataset} --model {args.model} --space {args.space}"
    command += " --by-training-loss" if args.by_training_loss else ""
    return {
        "model": model, "train": train, "val_score": trial.val_score, "val_loss": trial.val_loss,
        "points": count, "seed": args.seed, "command": f"{command} --seed {args.seed}",
    }  # fmt: skip


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m edgeveil.models.tune", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--paper", default="lpgnet", help="preset for everything the space leaves open")
    parser.add_argument("--space", default="lpgnet", choices=sorted(SPACES))
    parser.add_argument("--store", type=Path, help="finished trials (default: DATASET-MODEL.jsonl or .db)")
    parser.add_argument("--tpe", type=int, metavar="N", help="N trials of Optuna's TPE in place of the whole grid")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by-training-loss", action="store_true", help="validate on the training nodes, by loss")
    parser.add_argument("--keep", type=Path, help="JSON file in which the best point is noted (tuned.json)")
    args = parser.parse_args(argv)
    if args.store is None:
        args.store = Path(f"{args.dataset}-{args.model}{'.db' if args.tpe else '.jsonl'}")
    return args


@contextmanager
def _bar() -> Iterator[Callable[[int, int, Trial], None]]:
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("trials", total=None)
        yield lambda done, total, trial: bar.update(task, completed=done, total=total)


def main(argv: Sequence[str] | None = None) -> None:
    """Run or resume a search and print the best point as JSON."""
    from edgeveil.graph.datasets import load

    args = _arguments(argv)
    base = preset(args.paper, args.dataset, args.model)
    task = problem(load(args.dataset, split=base.split), base, on_training=args.by_training_loss)
    if args.tpe:
        trials = tpe_search(task, args.space, args.store, trials=args.tpe, seed=args.seed)
    else:
        with _bar() as progress:
            trials = grid_search(task, args.space, args.store, seed=args.seed, progress=progress)
    entry = _entry(best(trials, by_loss=args.by_training_loss), args, len(trials))
    print(json.dumps(entry))
    if args.keep:
        known = json.loads(args.keep.read_text(encoding="utf-8")) if args.keep.exists() else {}
        known[f"{args.dataset}/{args.model}"] = entry
        args.keep.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
