"""Several questions in one pass of a model answer, bit by bit, what one pass each would."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from edgeveil.attacks.run_attack import attack
from edgeveil.graph.features import FeatureMatrix
from edgeveil.graph.graph import Graph
from edgeveil.models.assemble import build
from edgeveil.models.spec import ModelSpec
from edgeveil.privacy.guarantee import Guarantee
from edgeveil.release.apart import Apart
from edgeveil.release.predictors import GraphPredictor
from edgeveil.release.release import Release
from edgeveil.release.target import Target
from zoo import bare

N = 120
GRAPH = bare(N, 200)
PAIRS = np.concatenate([GRAPH.edge_index[:, ::4], np.stack([np.arange(N // 2), np.arange(N // 2) + 7])], axis=1)


def release(model: str, graph: Graph = GRAPH, sparse: bool = True, **params: object) -> Release:
    rng = np.random.default_rng(0)
    x = (rng.random((graph.num_nodes, 30)) < 0.1).astype(np.float32)
    spec = ModelSpec(name=model, hidden=8, **params)  # type: ignore[arg-type]
    made = build(spec, 30, 4, seed=0).eval()
    directed = sp.triu(graph.adjacency, format="csr") + sp.eye(graph.num_nodes, format="csr", dtype=np.float32)
    matrix = FeatureMatrix(sp.csr_matrix(x), np.full(30, 0.1, np.float32)) if sparse else FeatureMatrix.wrap(x)
    predictor = GraphPredictor(spec, made, directed.tocsr())
    return Release(defence="none", guarantee=Guarantee(status="none"), predictor=predictor, matrix=matrix, model=model)


def scores(target: Target, variant: str) -> tuple[np.ndarray, int, int]:
    found = attack(target, "linkteller", pairs=PAIRS, mode="query", delta=1e-3, variant=variant)
    return found.scores, found.queries, found.rows


@pytest.mark.fast(
    "published-float32-gcn",
    "published-float64-sage",
    "published-float32-graphconv",
    "published-float64-gat",
    "correct-float64-gcn",
    "correct-float32-gatv2",
    "correct-float64-transformer",
)
@pytest.mark.parametrize("model", ["gcn", "sage", "graphconv", "gat", "gatv2", "transformer"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("variant", ["published", "correct"])
def test_scores_and_costs_are_those_of_one_question_after_another(model: str, dtype: str, variant: str) -> None:
    made = release(model, sparse=dtype == "float32")
    together, alone = (Target.local(made, "probabilities", dtype=dtype) for _ in range(2))
    assert together.apart is not None
    alone.apart = None
    (first, *costs), (second, *same) = scores(together, variant), scores(alone, variant)
    assert first.any() and np.array_equal(first, second) and costs == same


def test_passes_are_few_and_nobody_disturbs_a_listener() -> None:
    target = Target.local(release("gcn"))
    assert isinstance(target.apart, Apart)
    listeners = [np.array([i]) for i in PAIRS[0]]
    senders = PAIRS[1]
    passes = list(target.apart.passes(senders, listeners))
    assert sorted(np.concatenate(passes).tolist()) == list(range(len(senders))) and len(passes) < len(senders) / 3
    near = (release("gcn").predictor.adjacency + sp.eye(N)).toarray() > 0  # type: ignore[attr-defined]
    reach = (near.astype(int) @ near) > 0
    for members in passes:
        for place in members:
            others = [senders[k] for k in members if k != place]
            assert not reach[listeners[place], others].any()


def test_a_model_that_hears_everybody_is_asked_one_question_at_a_time() -> None:
    assert Target.local(release("gcn", kprop=16)).apart is None


def test_silence_about_the_asked_pairs_does_not_make_a_model_blind() -> None:
    """Node u hears v, but asked are others: the last node, which hears nobody here, about v, and u about node 0."""
    u, v = GRAPH.edge_index[:, 20]
    asked = np.array([[N - 1, u], [v, 0]])
    found = attack(Target.local(release("gcn")), "linkteller", pairs=asked, mode="query", variant="published")
    assert not found.scores.any() and found.notes == () and found.queries == 3
