"""Blink (Zhu et al., CCS 2023): accuracy of a GCN on the estimated graph.

The paper draws its accuracies; the numbers are those of the authors' result file (`scripts/output/results.json` of
github.com/zhxchd/Blink_GNN at 947ec30), their settings those of `best_hp.json` beside it. The printed epsilon is that
of one list, so one undirected edge pays twice. Entered is what can be run here: GCN and MLP on Cora and Citeseer
(Facebook's features there are others, LastFM has no source).
"""

from __future__ import annotations

from edgeveil.papers.published import Published
from edgeveil.papers.recipes import Cell, Mode, Paper, Recipe, Term
from edgeveil.runs.run_config import RunConfig

__all__ = ["BOOK"]

ENDS = 2  # lists that one undirected edge stands in
HYBRID = "the authors' code keeps as many of the likeliest pairs as their chances sum to, ours those likelier than not"
# dropout, learning rate, weight decay and the degrees' share of epsilon, for epsilon 1 to 8
SETTINGS = {
    "cora blink-hard": ".01 .1 1e-3 .9|.01 .1 1e-3 .9|.001 .1 1e-3 .9|.01 .1 1e-4 .1|.001 .1 1e-4 .1|.01 .1 1e-4 .1|"
    ".001 .1 1e-4 .1|.001 .01 1e-4 .1",
    "cora blink-soft": ".1 .1 1e-5 .9|.01 .1 1e-5 .1|0 .1 1e-4 .1|.1 .1 1e-4 .1|.1 .01 0 .1|.01 .01 1e-5 .1|"
    ".1 .01 1e-5 .1|.1 .01 0 .1",
    "cora blink-hybrid": ".1 .01 1e-4 .7|.1 .01 1e-4 .9|.1 .01 1e-4 .9|.1 .01 1e-4 .1|.1 .01 0 .1|0 .01 1e-5 .1|"
    ".01 .01 0 .1|.1 .01 0 .3",
    "citeseer blink-hard": ".001 .01 1e-4 .9|.01 .01 1e-4 .7|.1 .01 1e-4 .9|.1 .01 1e-4 .9|.01 .01 1e-4 .1|"
    ".01 .1 1e-4 .1|.001 .1 1e-4 .1|.01 .01 1e-4 .1",
    "citeseer blink-soft": ".001 .1 1e-5 .9|0 .1 1e-5 .9|0 .1 1e-4 .1|.01 .1 1e-4 .1|.001 .01 1e-4 .1|.001 .1 1e-4 .1|"
    ".01 .01 1e-4 .1|.001 .1 1e-4 .1",
    "citeseer blink-hybrid": ".1 .01 1e-4 .9|.01 .01 1e-4 .9|.01 .01 1e-4 .9|.001 .01 1e-4 .9|0 .01 1e-4 .1|"
    ".01 .01 1e-4 .1|.01 .1 1e-4 .1|0 .01 1e-4 .1",
}
PLAIN = {
    "cora mlp": ".01 .1 1e-3",
    "cora gcn": ".1 .1 1e-4",
    "citeseer mlp": ".001 .01 1e-4",
    "citeseer gcn": ".01 .1 1e-4",
}


def _settings(p: Published) -> list[float]:
    if p.mechanism == "none":
        return [float(word) for word in PLAIN[f"{p.dataset} {p.model}"].split()]
    return [float(word) for word in SETTINGS[f"{p.dataset} {p.mechanism}"].split("|")[int(p.epsilon) - 1].split()]


def run_config(p: Published) -> RunConfig:
    """300 epochs, the weights of the least validation loss; half of the nodes train, a quarter judges."""
    dropout, rate, decay, *share = _settings(p)
    plain = p.mechanism == "none"
    return RunConfig(
        dataset=p.dataset,
        split="50:25:25",
        defence=("mlp" if p.model == "mlp" else "none") if plain else p.mechanism,
        defence_params={} if plain else {"degree_share": share[0]},
        epsilon=None if plain else ENDS * float(p.epsilon),
        model=p.model,
        model_params={"hidden": 16, "dropout": dropout},
        train_params={
            "lr": rate, "weight_decay": decay, "epochs": 300, "keep": "best-val-loss", "patience": None,
            "l2_first_layer_only": False,
        },
    )  # fmt: skip


def cell(p: Published) -> Cell:
    """How one figure is measured."""
    recipes = {"published": Recipe((Term(run_config(p), p.metric),))}
    return Cell(p, recipes, aside=HYBRID if p.mechanism == "blink-hybrid" else "")


def seeds(table: str, mode: Mode) -> int:
    """30 runs in the paper."""
    del table
    return {"quick": 3, "default": 10, "full": 30}[mode]


def thin(p: Published) -> bool:
    """Four epsilons, and none."""
    return p.epsilon in ("inf", "1", "4", "6", "8")


def quick(p: Published) -> bool:
    """Without the n^2 weights of the soft kind."""
    return p.mechanism != "blink-soft" and thin(p)


BOOK = Paper(
    name="blink",
    title="Zhu et al., Blink, ACM CCS 2023 (the authors' result file)",
    cell=cell,
    seeds=seeds,
    quick=quick,
    thin=thin,
)
