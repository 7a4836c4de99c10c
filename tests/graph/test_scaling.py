import numpy as np
import pytest
import scipy.sparse as sp

import edgeveil as ev
from edgeveil.defences.job import make_job
from edgeveil.errors import UnknownNameError
from edgeveil.graph.catalog import names
from edgeveil.graph.scaling import Scaling, check_scaling, fitting_scaling
from edgeveil.models.presets import PAPERS, preset
from edgeveil.models.settings import TrainSpec


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def words(rng, n=200, width=300):
    return sp.random(n, width, density=0.03, format="csr", random_state=rng, data_rvs=lambda k: rng.integers(1, 5, k))


def customers(rng, n=200):
    age, income = rng.integers(18, 90, n), rng.lognormal(10, 1, n)
    region = np.eye(40)[rng.integers(0, 40, n)]
    return np.column_stack([age, income, region])


@pytest.mark.parametrize("dense", [False, True])
def test_bags_of_words_are_scaled_by_row_and_tables_are_standardised(rng, dense):
    bag = words(rng)
    assert fitting_scaling(bag.toarray() if dense else bag) == "row"
    assert fitting_scaling(sp.identity(50, format="csr")) == "row"
    table = customers(rng)
    assert fitting_scaling(table if dense else sp.csr_matrix(table)) == "standard"
    assert fitting_scaling(rng.normal(size=(50, 4))) == "standard"
    assert fitting_scaling(-bag) == "standard"


def test_sparse_columns_of_very_different_size_are_standardised(rng):
    bag = words(rng).tolil()
    bag[:20, 7] = 1e6
    assert fitting_scaling(bag.tocsr()) == "standard"


def test_empty_features_are_left_alone():
    assert fitting_scaling(np.zeros((5, 3))) == "none"


def test_an_unknown_scaling_is_refused_with_the_choices():
    with pytest.raises(UnknownNameError, match="standard"):
        check_scaling("zscore")


def test_auto_learns_from_the_given_rows_only(rng):
    x = rng.normal(size=(40, 3))
    x[20:] += 1000
    fitted = Scaling.fit("auto", x, rows=np.arange(20))
    assert fitted.kind == "standard"
    np.testing.assert_allclose(fitted.apply(x).toarray()[:20].mean(axis=0), 0, atol=1e-12)


def graph_of(x, name="graph"):
    n = len(x)
    y = np.arange(n) % 2
    train = np.arange(n) < n // 2
    return ev.Graph.from_edges(
        [np.arange(n - 1), np.arange(1, n)], x=x, y=y, train_mask=train, test_mask=~train, name=name
    )


@pytest.mark.parametrize("name", ["twitch_friends", "pubmed", "cora", "flickr-twin"])
def test_the_name_of_an_own_graph_never_matters(rng, name):
    x = customers(rng, 40)
    made = [ev.defend(graph_of(x, n), "mlp", seed=0) for n in ("graph", name)]
    assert made[0].scaling == made[1].scaling == "standard"
    np.testing.assert_array_equal(made[0].predict(), made[1].predict())


def test_statistics_of_own_data_come_from_training_nodes(rng):
    x = rng.normal(size=(40, 3))
    x[20:] += 1000
    released = ev.defend(graph_of(x), "mlp", seed=0)
    np.testing.assert_allclose(released.features[:20].mean(axis=0), 0, atol=1e-9)


PAPER_SCALING = dict.fromkeys(names(), "row") | {"bipartite": "none", "flickr": "standard", "ppi": "standard"}
PAPER_SCALING |= {name: "standard" for name in names() if name.startswith("twitch")}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_papers_datasets_keep_their_scaling(paper):
    for name, kind in PAPER_SCALING.items():
        expected = "minmax" if paper == "graphprivatizer" else kind
        assert preset(paper, name, "gcn").scaling == preset(paper, f"{name}-twin", "gcn").scaling == expected
    assert preset(paper, "", "gcn").scaling == ("minmax" if paper == "graphprivatizer" else "auto")


def test_a_papers_dataset_is_scaled_with_all_its_nodes_as_before():
    graph = ev.load("twitch-ru-twin").subgraph(np.arange(300))
    assert graph.dataset == "twitch-ru-twin"
    graph = graph.with_split("half", {"train": np.arange(300) < 150, "val": None, "test": np.arange(300) >= 150})
    made = ev.defend(graph, "mlp", seed=0, train=TrainSpec(epochs=2))
    assert made.scaling == "standard"
    whole = Scaling.fit("standard", graph.x).apply(graph.x).toarray()
    np.testing.assert_array_equal(made.matrix.toarray(), whole)


def test_other_features_are_no_longer_the_papers():
    graph = ev.load("cora-twin")
    assert graph.with_edges([[0], [1]]).dataset == "cora-twin"
    assert graph.with_features(np.ones((graph.num_nodes, 2))).dataset == ""


def test_scaling_is_stated_by_release_manifest_and_rows(rng, tmp_path):
    import json

    from edgeveil.runs.rows import release_labels

    graph = graph_of(customers(rng, 40))
    made = ev.defend(graph, "mlp", seed=0, scaling="row")
    made.save(tmp_path / "r")
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["scaling"] == "row"
    assert ev.Release.load(tmp_path / "r").scaling == "row" == release_labels(made)["scaling"]
    assert (
        ev.defend(graph, "gp-t", epsilon=2.0, seed=0, scaling="row").scaling == "minmax"
    )  # its encoder takes nothing else


def test_a_job_names_the_scaling_in_use(rng):
    base = preset("default", "", "gcn")
    job = make_job(
        graph_of(customers(rng, 40)), None, None, model=base.model, train=base.train, scaling="auto", seed=0
    )  # fmt: skip
    assert job.scaler.kind == "standard"
