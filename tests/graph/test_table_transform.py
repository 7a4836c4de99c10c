from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from edgeveil.errors import InputError
from edgeveil.graph.files.table_transform import TableTransform, columns_of

TABLE = {
    "age": ["30", "", "50"],
    "plan": ["gold", "basic", None],
    "vip": ["yes", "no", "yes"],
    "since": ["1970-01-02", "1970-01-11", "NA"],
    "empty": ["", "", ""],
}


def fitted() -> TableTransform:
    return TableTransform.fit(columns_of(TABLE)[0])


def test_every_kind_of_column_and_its_missing_cells() -> None:
    found = fitted()
    assert found.outputs == [
        "age", "age is missing", "plan=basic", "plan=gold", "plan is missing", "vip", "since", "since is missing",
    ]  # fmt: skip
    np.testing.assert_allclose(
        found.apply(TABLE), [[30, 0, 0, 1, 0, 1, 1, 0], [40, 1, 1, 0, 0, 0, 10, 0], [50, 0, 0, 0, 1, 1, 5.5, 1]]
    )
    assert any("median 40" in line for line in found.describe())


def test_the_same_transform_serves_later_tables_of_any_kind(tmp_path: Path) -> None:
    found = TableTransform.from_json(json.loads(json.dumps(fitted().to_json())))
    later = {"age": ["41"], "plan": ["silver"], "vip": ["no"], "since": ["1970-01-03"], "more": ["x"]}
    expected = [[41, 0, 0, 0, 0, 0, 2, 0]]
    assert found.apply(later).tolist() == expected == found.apply(pa.table(later)).tolist()
    path = tmp_path / "later.csv"
    path.write_text(",".join(later) + "\n" + ",".join(cell[0] for cell in later.values()) + "\n")
    assert found.apply(path).tolist() == expected


def test_rare_levels_are_other_and_free_text_is_left_out() -> None:
    rng = np.random.default_rng(0)
    common = [f"l{i}" for i in range(20)] * 10
    table = {"town": [*common, "rare1", "rare2"], "mail": [f"m{i}@x" for i in range(202)], "n": list(rng.random(202))}
    found = TableTransform.fit(columns_of(table)[0])
    assert found.outputs == [*(f"town={level}" for level in sorted(set(common))), "town=other", "n"]
    made = found.apply(table)
    assert made[-1, 20] == made[-2, 20] == 1 and made[:-2, 20].sum() == 0 and (made[:, :21].sum(axis=1) == 1).all()


def test_thousands_apart_and_constant_columns_are_said() -> None:
    """Commas between thousands are no decimal commas; 5,12 is neither and stays a word."""
    table = {"income": ["1,234.5", "999", "-12,345,678"], "flat": ["7", "", "7"], "odd": ["5,12", "1,234", "x"]}
    found = TableTransform.from_json(json.loads(json.dumps(TableTransform.fit(columns_of(table)[0]).to_json())))
    assert found.apply(table)[:, 0].tolist() == [1234.5, 999.0, -12345678.0]
    said = {line.partition(":")[0]: line for line in found.describe()}
    assert "commas between thousands" in said["income"] and "it tells nothing" in said["flat"]
    assert "odd=1,234" in found.outputs


def test_a_later_table_with_mistakes_is_refused_with_the_cell() -> None:
    with pytest.raises(InputError, match="row 1, column 'vip': 'perhaps' is no boolean"):
        fitted().apply({**TABLE, "vip": ["perhaps", "no", "no"]})
    with pytest.raises(InputError, match="has no column 'age'"):
        fitted().apply({"plan": ["gold"]})
    with pytest.raises(InputError, match="a table is a file"):
        fitted().apply(3)


def test_a_later_table_may_miss_what_the_first_one_had() -> None:
    found = TableTransform.fit(columns_of({"age": ["30", "40", "90"]})[0])
    assert found.outputs == ["age"] and found.apply({"age": ["", "7"]}).tolist() == [[40], [7]]
