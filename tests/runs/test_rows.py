"""The row schema is the contract's, and survives JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from edgeveil.errors import InputError
from edgeveil.runs.rows import FIELDS, FIGURES, LABELS, Row

CONTRACT = (
    "dataset, is_twin, split, setting, protocol, defence, variant, model, layers, scaling, params, epsilon, delta, unit, "
    "status, randomness, attack, attack_access, degree, belief, seed, utility_metric, utility, auc, average_precision, precision, recall, f1, "
    "tpr_at_fpr_001, queries, seconds_train, seconds_attack, n_nodes, n_pairs, n_edges, leakage, "
    "chance, baseline_majority, baseline_edge_free, leakage_error"
)


def test_columns_are_the_contract_in_order() -> None:
    assert tuple(CONTRACT.split(", ")) == FIELDS
    assert sorted((*LABELS, *FIGURES)) == sorted(FIELDS)


def test_json_round_trip_and_missing_values() -> None:
    row = Row(dataset="cora", defence="none", params={"alpha": np.float64(0.5)}, auc=np.float32(0.25), f1=math.nan)
    text = json.dumps(row.to_json(), allow_nan=False)
    values = json.loads(text)
    assert values["f1"] is None and values["recall"] is None and values["auc"] == 0.25
    assert Row.from_json(values).to_json() == values
    assert Row.from_json({**values, "params": json.dumps(values["params"])}).params == {"alpha": 0.5}


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(InputError, match="no column 'aucc'"):
        Row.from_json({"dataset": "a", "defence": "none", "aucc": 1})
