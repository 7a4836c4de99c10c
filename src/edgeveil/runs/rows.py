"""The one schema of a result row (JSON Lines of every command that measures something)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from edgeveil.errors import InputError
from edgeveil.privacy.guarantee import ONE_EDGE

if TYPE_CHECKING:
    from edgeveil.release.release import Release

__all__ = ["FIELDS", "FIGURES", "LABELS", "TIMES", "WHOLE", "Row", "plain", "release_labels", "with_edge_free"]


def _measured() -> Any:
    """A column that holds a figure; the others say what the row is about."""
    return field(default=None, metadata={"figure": True})


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement: a release (dataset, defence, model, epsilon, seed) under one attack, degree class and belief.

    None is a missing value. `leakage` is the share of the true edges among the attacked pairs that are found when
    as many pairs are named as there are edges; precision, recall and F1 are at the row's belief. `params` holds the
    parameters of defence and attack that have no column of their own; `seed` is that of the release,
    ``params["sample_seed"]`` that of the attacked nodes or pairs. What the figures compare with: `chance`, the density
    among the attacked pairs (the leakage of guessing); `baseline_majority`, the utility of naming the most frequent
    class; `baseline_edge_free`, that of the better of the MLP and the feature graph of the same seed, where they ran.
    `leakage_error` is the standard error of a leakage from weighted pairs (nodes drawn by edges).
    """

    dataset: str
    is_twin: bool = False
    split: str | None = None
    setting: str | None = None
    protocol: str | None = None
    defence: str
    variant: str | None = None
    model: str | None = None
    layers: int | None = None
    scaling: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    unit: str | None = None
    status: str | None = None
    randomness: str | None = None
    attack: str | None = None
    attack_access: str | None = None
    degree: str | None = None
    belief: str | None = None
    seed: int | None = None
    utility_metric: str | None = None
    utility: float | None = _measured()
    auc: float | None = _measured()
    average_precision: float | None = _measured()
    precision: float | None = _measured()
    recall: float | None = _measured()
    f1: float | None = _measured()
    tpr_at_fpr_001: float | None = _measured()
    queries: int | None = _measured()
    seconds_train: float | None = _measured()
    seconds_attack: float | None = _measured()
    n_nodes: int | None = _measured()
    n_pairs: int | None = _measured()
    n_edges: int | None = _measured()
    leakage: float | None = _measured()
    chance: float | None = _measured()
    baseline_majority: float | None = _measured()
    baseline_edge_free: float | None = _measured()
    leakage_error: float | None = _measured()

    def to_json(self) -> dict[str, Any]:
        """Plain values in the fixed order of columns; NaN and infinity become None."""
        return {name: plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Row:
        """Inverse of `to_json`; unknown columns are refused, missing ones are None."""
        unknown = values.keys() - set(FIELDS)
        if unknown:
            raise InputError(f"a row has no column {min(unknown)!r}; columns are {', '.join(FIELDS)}")
        params = values.get("params") or {}
        return cls(**{**values, "params": json.loads(params) if isinstance(params, str) else dict(params)})

    def labels(self) -> dict[str, Any]:
        """What the row is about, as opposed to what was measured."""
        return {name: plain(getattr(self, name)) for name in LABELS}

    def figures(self) -> dict[str, float | None]:
        """What was measured."""
        return {name: plain(getattr(self, name)) for name in FIGURES}


FIELDS = tuple(f.name for f in fields(Row))
TIMES = ("seconds_train", "seconds_attack")
FIGURES = tuple(f.name for f in fields(Row) if f.metadata.get("figure"))
WHOLE = tuple(f.name for f in fields(Row) if str(f.type).startswith("int"))  # columns of whole numbers
LABELS = tuple(name for name in FIELDS if name not in FIGURES)


def plain(value: Any) -> Any:
    """The JSON form of a value: NumPy scalars unpacked, non-finite numbers None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def with_edge_free(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with `baseline_edge_free`: per graph and seed, the best utility of a release that reads no edge."""
    out = [dict(row) for row in rows]
    best: dict[tuple[Any, ...], float] = {}
    for row in out:
        if row.get("status") == "sound" and row.get("epsilon") == 0 and row.get("utility") is not None:
            key = _comparison(row)
            best[key] = max(best.get(key, -math.inf), float(row["utility"]))
    for row in out:
        if (found := best.get(_comparison(row))) is not None:
            row["baseline_edge_free"] = found
    return out


def _comparison(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("dataset", "split", "seed", "utility_metric"))


def comparable(row: Mapping[str, Any]) -> bool:
    """Whether a row's epsilon may be ranked: a sound promise in another unit must not stand beside one for an edge."""
    return row.get("status") != "sound" or row.get("unit") in (None, ONE_EDGE)


def why_left_out(unit: str) -> str:
    """The reason to print where a release is not ranked."""
    return f"its epsilon is for {unit}, not for {ONE_EDGE}, and does not compare with the others"


def release_labels(release: Release, *, split: str | None = None, seed: int | None = None) -> dict[str, Any]:
    """The columns that follow from a release alone; an infinite epsilon (no edge noise) is stored as missing.

    `epsilon` is what the guarantee states, over all graphs asked; a parameter that differs from it is kept in `params`.
    """
    claim = release.guarantee
    epsilon = claim.claimed_epsilon
    hidden = {"variant"} | ({"epsilon"} if epsilon in (None, release.params.get("epsilon")) else set())
    params = {k: v for k, v in release.params.items() if k not in hidden}
    return {
        "dataset": release.dataset,
        "is_twin": release.is_twin,
        "split": split,
        "setting": release.setting,
        "defence": release.defence,
        "variant": release.variant,
        "model": release.model,
        "layers": release.layers,
        "scaling": release.scaling,
        "params": params,
        "epsilon": None if epsilon is None or math.isinf(epsilon) else float(epsilon),
        "delta": None if claim.claimed_epsilon is None else claim.delta,
        "unit": claim.unit,
        "status": claim.status,
        "randomness": claim.randomness,
        "seed": seed,
        "seconds_train": release.seconds_train,
    }
