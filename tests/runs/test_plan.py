"""Plans expand to the right runs, refuse mistakes with a hint, and ids follow content."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeveil.errors import InputError, UnknownNameError, UsageError
from edgeveil.runs.code_digest import code_digest, module_digest
from edgeveil.runs.plan import Grid, Plan, load_plan, parse_plan
from edgeveil.runs.run_config import AttackConfig, RunConfig, content_id

DOCS = Path(__file__).parents[2] / "docs" / "sweeps.md"


def test_a_defence_without_epsilon_runs_once() -> None:
    plan = parse_plan(
        {"seeds": 2, "grid": [{"dataset": "cora", "defence": ["none", "mlp", "lapgraph"], "epsilon": [1, 2, 4]}]}
    )
    runs = plan.runs()
    assert len(runs) == 2 * (1 + 1 + 3)
    assert {r.epsilon for r in runs if r.defence == "none"} == {None}
    assert {r.model for r in runs if r.defence == "mlp"} == {"mlp"}
    assert [r.seed for r in runs] == [0] * 5 + [1] * 5


def test_variants_apply_where_they_exist_and_repeats_collapse() -> None:
    grid = {"dataset": "cora", "defence": ["edgerand", "lpgnet-1"], "variant": ["correct", "published"], "epsilon": 4}
    runs = parse_plan({"grid": [grid, grid]}).runs()
    assert [(r.defence, r.defence_params.get("variant")) for r in runs] == [
        ("edgerand", None), ("lpgnet-1", "correct"), ("lpgnet-1", "published"),
    ]  # fmt: skip


def test_split_seed_may_follow_the_run() -> None:
    runs = parse_plan({"seeds": [3, 5], "grid": [{"dataset": "cora", "split": "50:25:25", "split_seed": "run"}]}).runs()
    assert [r.split_seed for r in runs] == [3, 5]


@pytest.mark.parametrize(
    ("data", "near"),
    [
        ({"grids": []}, "'grid'"),
        ({"grid": [{"dataset": "cora", "defense": "none"}]}, "'defence'"),
        ({"grid": [{"dataset": "cora", "attack": [{"belief": "k"}]}]}, "'beliefs'"),
    ],
)
def test_an_unknown_key_names_the_nearest(data: dict[str, object], near: str) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean " + near):
        parse_plan(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"grid": []}, "grid"),
        ({"seeds": 0, "grid": [{"dataset": "cora"}]}, "at least 1"),
        ({"grid": [{"dataset": "cora", "attack": [{"protocol": "all"}]}]}, "protocol"),
        ({"grid": [{}]}, "dataset"),
    ],
)
def test_a_wrong_value_says_where(data: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_plan(data)


def test_an_unknown_defence_is_refused_when_the_plan_is_expanded() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'lapgraph'"):
        parse_plan({"grid": [{"dataset": "cora", "defence": "lapgraf"}]}).runs()


@pytest.mark.parametrize(
    ("more", "near"),
    [
        ({"params": {"lapgraf": {}}}, "lapgraph"),
        ({"params": {"lapgraph": {"count_epsilom": 0.1}}}, "count_epsilon"),
        ({"attack": [{"name": "linkteler"}]}, "linkteller"),
        ({"attack": [{"params": {"varient": "published"}}]}, "variant"),
        ({"attack": [{"beliefs": ["k", "k/3"]}]}, "k/2"),
        ({"model": "gnc"}, "gcn"),
        ({"preset": "lpgnett"}, "lpgnet"),
        ({"model_params": {"layer": 3}}, "layers"),
        ({"train_params": {"epoch": 9}}, "epochs"),
    ],
)
def test_unknown_names_inside_tables_are_refused_before_anything_runs(more: dict[str, object], near: str) -> None:
    grid = {"dataset": "cora", "defence": "lapgraph", **more}
    with pytest.raises(UnknownNameError, match=near):
        parse_plan({"grid": [grid]}).runs()


def test_parameters_reach_their_defence_in_either_spelling() -> None:
    grid = {"dataset": "cora", "defence": ["gp-t", "none"], "epsilon": 1, "params": {"gp_t": {"alpha": 0.25}}}
    runs = parse_plan({"grid": [grid]}).runs()
    assert [r.defence_params.get("alpha") for r in runs] == [0.25, None]


def test_a_negative_epsilon_is_refused() -> None:
    for bad in (-1, 0, float("nan")):
        with pytest.raises(UsageError, match="greater than 0"):
            parse_plan({"grid": [{"dataset": "cora", "defence": "lapgraph", "epsilon": bad}]})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("grid = [")
    with pytest.raises(UsageError, match="not valid TOML"):
        load_plan(tmp_path / "bad.toml")


def test_ids_follow_settings_data_and_code() -> None:
    run = RunConfig(dataset="cora", defence="lapgraph", epsilon=4, attacks=(AttackConfig(),))
    base = content_id(run.to_json(), {"cora": "f"}, "c")
    again = RunConfig.model_validate(run.to_json())
    assert again == run and content_id(again.to_json(), {"cora": "f"}, "c") == base
    others = [
        content_id(run.model_copy(update={"seed": 1}).to_json(), {"cora": "f"}, "c"),
        content_id(run.to_json(), {"cora": "g"}, "c"),
        content_id(run.to_json(), {"cora": "f"}, "d"),
    ]
    assert len({base, *others}) == 4


def test_an_infinite_epsilon_survives_json() -> None:
    run = RunConfig(dataset="cora", defence="lpgnet-1", epsilon=float("inf"))
    assert run.to_json()["epsilon"] == "inf" and RunConfig.model_validate(run.to_json()) == run


def test_the_code_digest_ignores_words_and_sees_changes() -> None:
    source = 'def f(x):\n    """Old."""\n    return x + 1\n'
    assert module_digest(source) == module_digest("# note\n" + source.replace("Old", "New"))
    assert module_digest(source) != module_digest(source.replace("+ 1", "+ 2"))
    assert len(code_digest()) == 16


@pytest.mark.parametrize("model", [Plan, Grid, AttackConfig])
def test_every_field_is_described_and_documented(model: type) -> None:
    text = DOCS.read_text(encoding="utf-8")
    for name, field in model.model_fields.items():
        assert field.description, name
        assert f"`{name}`" in text, f"{name} is missing in docs/sweeps.md"


def test_bad_names_are_input_errors() -> None:
    assert issubclass(UnknownNameError, InputError)
