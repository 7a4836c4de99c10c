"""One run: rows of every attack, degree, belief and sample, and figures that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgeveil.errors import InputError, UnknownNameError
from edgeveil.graph.graph import Graph
from edgeveil.runs.measure import measure, run
from edgeveil.runs.rows import TIMES
from edgeveil.runs.run_config import AttackConfig, RunConfig
from edgeveil.runs.score import first_rows_pairs, shared_target

FAST: dict[str, Any] = {"train_params": {"epochs": 5}}


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def test_rows_cover_the_grid_and_repeat(toy: Graph) -> None:
    config = RunConfig(
        dataset="toy", defence="lapgraph", epsilon=4.0, seed=3, **FAST,
        attacks=(
            AttackConfig(nodes=40, degrees=("low", "unconstrained", "high"), sample_seeds=(1, 2)),
            AttackConfig(name="lsa2-attr", protocol="balanced", beliefs=("k", "1.5k")),
            AttackConfig(params={"variant": "published"}, protocol="sampled", nodes=30, beliefs=("k",)),
        ),
    )  # fmt: skip
    first, second = (run(config.to_json(), {"toy": toy}) for _ in range(2))
    assert untimed(first["rows"]) == untimed(second["rows"]) and first["figures"] == second["figures"]
    rows = first["rows"]
    assert len(rows) == 3 * 2 * 5 + 2 + 1
    assert {r["attack"] for r in rows} == {"linkteller", "lsa2-attr"}
    assert {r["params"]["sample_seed"] for r in rows[:30]} == {1, 2} and {r["seed"] for r in rows} == {3}
    assert {(r["defence"], r["epsilon"], r["status"], r["split"]) for r in rows} == {
        ("lapgraph", 4.0, "sound", "given")
    }
    assert rows[-1]["variant"] == "published" and rows[-1]["n_pairs"] == 60 and rows[-1]["n_edges"] == 30
    assert 0 < first["figures"]["false_edge_share"] < 1
    assert rows[0]["utility"] == first["figures"]["micro_f1"]


def test_a_run_without_attacks_has_one_row(toy: Graph) -> None:
    rows = run(RunConfig(dataset="toy", **FAST).to_json(), {"toy": toy})["rows"]
    assert len(rows) == 1 and rows[0]["attack"] is None and rows[0]["utility"] is not None


def test_an_undefended_gcn_gives_edges_away_and_an_mlp_does_not(toy: Graph) -> None:
    attack = (AttackConfig(nodes=120),)
    gcn = measure(RunConfig(dataset="toy", attacks=attack), {"toy": toy})
    mlp = measure(RunConfig(dataset="toy", defence="mlp", model="mlp", attacks=attack), {"toy": toy})
    assert gcn.rows[2].auc is not None and gcn.rows[2].auc > 0.95 and mlp.rows[2].auc == 0.5
    assert gcn.attacked[0].nodes is not None and gcn.rows[0].n_edges == toy.num_edges


def test_more_nodes_than_there_are_means_all(toy: Graph) -> None:
    found = measure(RunConfig(dataset="toy", attacks=(AttackConfig(nodes=5000),), **FAST), {"toy": toy})
    assert found.rows[0].n_nodes == toy.num_nodes


def test_a_drawn_split_follows_its_seed(toy: Graph) -> None:
    def of(seed: int) -> Any:
        config = RunConfig(dataset="toy", split="50:25:25", split_seed=seed, **FAST)
        return measure(config, {"toy": toy}).graph.masks

    assert np.array_equal(of(1).train, of(1).train) and not np.array_equal(of(1).train, of(2).train)


def test_another_training_graph_is_the_inductive_setting(toy: Graph) -> None:
    other = toy.subgraph(np.arange(90)).with_split(None).named("other")
    found = measure(
        RunConfig(dataset="other", train_on="toy", defence="edgerand", epsilon=6.0, **FAST),
        {"toy": toy, "other": other},
    )
    assert found.release.setting == "inductive" and found.graph.num_nodes == 90
    assert found.rows[0].epsilon == 12.0  # 6 for each of the two graphs, which share edges here


def test_influence_is_computed_once_per_sample(toy: Graph) -> None:
    release = measure(RunConfig(dataset="toy", **FAST), {"toy": toy}).release
    target = shared_target(release)
    assert target.influence is not None
    nodes = np.arange(50)
    assert target.influence(nodes) is target.influence(nodes.copy())
    assert np.allclose(target.influence(nodes).toarray(), release.influence(nodes).toarray())


def test_first_rows_pairs_take_their_non_edges_from_the_first_nodes(toy: Graph) -> None:
    pairs = first_rows_pairs(toy, 40, seed=0)
    truth = toy.has_edges(pairs[0], pairs[1])
    assert truth[:40].all() and not truth[40:].any()
    assert pairs[0, 40:].max() <= 2 * toy.num_edges // (toy.num_nodes - 1 - toy.degrees.max()) + 1


def test_nonsense_is_refused(toy: Graph) -> None:
    with pytest.raises(InputError, match="utility metric 'rare_f1' does not exist"):
        measure(RunConfig(dataset="toy", utility="rare_f1", **FAST), {"toy": toy})
    with pytest.raises(UnknownNameError, match="belief"):
        measure(RunConfig(dataset="toy", attacks=(AttackConfig(beliefs=("3k",)),), **FAST), {"toy": toy})
