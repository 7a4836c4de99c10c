"""LinkTeller (Wu et al., S&P 2022): attacks on the vanilla GCN and GAT, and on GCNs under EdgeRand and LapGraph.

Attack figures use one trained model and the authors' three node subsets; utility under noise averages over seeds.
"""

from __future__ import annotations

from functools import cache

from edgeveil.papers.published import Published
from edgeveil.papers.recipes import Cell, Mode, Paper, Pick, Recipe, Term
from edgeveil.runs.run_config import BELIEFS, AttackConfig, Degree, RunConfig

__all__ = ["BOOK"]

NAMES = ("linkteller", "lsa2-post", "lsa2-attr")
VARIANTS = ("published", "correct")
DEGREES: tuple[Degree, ...] = ("low", "unconstrained", "high")
SUBSETS = (42, 2, 82)
BALANCED = ("k/4", "k/2", "k", "1.5k")


@cache
def subset_attack(name: str, variant: str) -> AttackConfig:
    """All pairs among 500 nodes, three subsets per degree class (§V-D)."""
    params = {} if name == "random" else {"variant": variant}
    return AttackConfig(name=name, params=params, degrees=DEGREES, beliefs=BELIEFS, sample_seeds=SUBSETS)


@cache
def balanced_attack(name: str, variant: str) -> AttackConfig:
    """All edges and as many non-edges (App. G5)."""
    return AttackConfig(
        name=name, params={"variant": variant}, protocol="balanced", beliefs=BALANCED, sample_seeds=SUBSETS
    )


def run_config(p: Published) -> RunConfig:
    """The run behind a figure; attacks depend on the release only, so that tables share runs."""
    transductive = p.dataset in ("cora", "citeseer", "pubmed")
    private = p.mechanism in ("edgerand", "lapgraph")
    deep = p.layers == "3" and p.model == "gcn"
    names = ("linkteller",) if private or deep else NAMES
    make = balanced_attack if transductive else subset_attack
    mlp = p.model == "mlp"
    attacks = () if mlp else tuple(make(name, variant) for name in names for variant in VARIANTS)
    twitch = p.dataset.startswith("twitch")
    return RunConfig(
        dataset=p.dataset,
        train_on="twitch-es" if twitch else None,
        setting="inductive-different" if twitch else None if transductive else "inductive-evolving",
        defence="mlp" if mlp else p.mechanism or "none",
        epsilon=float(p.epsilon) if private else None,
        model=p.model or "gcn",
        model_params={"layers": 3, "hidden": 64} if deep else {},  # App. G2
        train_params={"epochs": 50} if deep else {},
        preset="linkteller",
        attacks=attacks,
    )


def cell(p: Published) -> Cell:
    """How one printed figure is measured."""
    run = run_config(p)
    if not p.attack:
        return Cell(p, {"published": Recipe((Term(run, p.metric),))})
    if p.attack == "random":
        pick = Pick(subset_attack("linkteller", "correct"), p.degree)
        return Cell(p, {"published": Recipe((Term(run, "density", pick),))})
    metric = "seconds_attack" if p.metric == "runtime_s" else p.metric
    make = subset_attack if p.degree else balanced_attack
    recipes = {
        variant: Recipe((Term(run, metric, Pick(make(p.attack, variant), p.degree or None, p.belief or "k")),))
        for variant in VARIANTS
    }
    return Cell(p, recipes, aside="another machine's clock" if p.metric == "runtime_s" else "")


def seeds(table: str, mode: Mode) -> int:
    """The paper averages utility over 10 runs; its attack tables vary the subset only.

    Three layers in 50 epochs (VI, VII) end far apart from seed to seed, so several models are averaged there.
    """
    many = {"quick": 2, "default": 5, "full": 10}
    if table in ("VI", "VII"):
        return {"quick": 5, "default": 5, "full": 10}[mode]
    return many[mode] if table in ("XII(a)", "text:G2", "text:F6") else 1


def quick(p: Published) -> bool:
    """Small graphs for the vanilla attack, few epsilons under noise (small ones make EdgeRand dense and slow)."""
    if p.table in ("XIII", "XIV", "XXI", "XXII"):
        return p.epsilon in ("5", "7", "9")
    if p.table.startswith(("XV", "XI", "XX")) and p.table not in ("XI", "XII(a)", "XII(b)"):
        return p.epsilon in ("7", "9")
    return p.dataset in ("twitch-ru", "twitch-ptbr", "twitch-engb", "cora", "citeseer")


def thin(p: Published) -> bool:
    """Tables without a small graph (III, text:F6) are short."""
    return True


BOOK = Paper(
    name="linkteller",
    title="Wu et al., LinkTeller, IEEE S&P 2022",
    cell=cell,
    seeds=seeds,
    quick=quick,
    thin=thin,
)
