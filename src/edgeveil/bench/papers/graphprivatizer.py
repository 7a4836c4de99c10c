"""GraphPrivatizer (Joshi et al., TMLR 2024): accuracy and attack AUC of GP, 2-hop RR and no edge privacy.

`published` re-creates the authors' code (alpha reversed, attack without KProp, non-edges of the first nodes only);
`correct` follows the equations and attacks the model that is served.
"""

from __future__ import annotations

from itertools import product

from edgeveil.bench.config import AttackConfig, RunConfig
from edgeveil.bench.papers.base import Cell, Mode, Paper, Pick, Recipe, Term
from edgeveil.bench.published import Published

__all__ = ["BOOK"]

VARIANTS = ("published", "correct")
MODELS = ("gcn", "sage", "gat", "gatv2", "transformer", "graphconv")
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
DELTAS = (0.0, 0.1, 0.25, 0.5, 1.0)
ALL_BUT_BASE = ("2", "7", "3(a)")  # these tables average over everything but alpha = delta = 0, the others over > 0
NO_GRID = "the models averaged over are not stated"


def attack(model: str, variant: str) -> AttackConfig:
    """500 edges and 500 non-edges; LSA2 for GraphSAGE, LinkTeller for every other model (§5)."""
    published = variant == "published"
    return AttackConfig(
        name="lsa2-post" if model == "sage" else "linkteller",
        params={"variant": variant},
        protocol="sampled",
        beliefs=("k",),
        pair_variant="first-rows" if published else "correct",
        bypass_kprop=published,
    )


def run_config(
    dataset: str, model: str, mechanism: str, epsilon: str, variant: str, alpha: float = 0.5, delta: float = 0.0
) -> RunConfig:
    """One release with both attacks on it."""
    infinite = mechanism == "none" or epsilon == "inf"
    defence = "lpgnn" if infinite else {"gp": "gp-t"}.get(mechanism, mechanism)
    params: dict[str, object] = {} if infinite else {"variant": variant}
    if defence.startswith("gp"):
        params |= {"alpha": alpha, "delta": delta}
    return RunConfig(
        dataset=dataset,
        defence=defence,
        defence_params=params,
        epsilon=None if infinite else float(epsilon),
        model=model,
        preset="graphprivatizer",
        utility="accuracy",
        attacks=tuple(attack(model, v) for v in VARIANTS),
    )


def _term(run: RunConfig, metric: str, variant: str, weight: float) -> Term:
    if metric == "auc":
        return Term(run, "auc", Pick(attack(run.model, variant)), weight)
    return Term(run, "accuracy", None, weight)


def _points(p: Published) -> list[tuple[float, float]]:
    """The alpha and delta that a figure averages over."""
    if p.alpha != "avg>0":
        return [(float(p.alpha or 0.5), float(p.delta or 0.0))]
    if p.table in ALL_BUT_BASE:
        return [point for point in product(ALPHAS, DELTAS) if point != (0.0, 0.0)]
    return list(product(ALPHAS[1:], DELTAS[1:]))


def _average(p: Published, variant: str, metric: str, model: str, sign: float) -> list[Term]:
    points = _points(p)
    if p.mechanism in ("none", "rr") or p.epsilon == "inf":
        points = points[:1]
    runs = [run_config(p.dataset, model, p.mechanism, p.epsilon, variant, a, d) for a, d in points]
    return [_term(run, metric, variant, sign / len(runs)) for run in runs]


def _terms(p: Published, variant: str) -> tuple[Term, ...]:
    models = MODELS if p.model == "all" else (p.model,)
    terms: list[Term] = []
    for model in models:
        share = 1.0 / len(models)
        if p.metric in ("accuracy", "auc"):
            terms += _average(p, variant, p.metric, model, share)
            continue
        metric = "auc" if "auc" in p.metric else "accuracy"
        if p.metric.endswith("gp_minus_rr"):
            gp = run_config(p.dataset, model, "gp", "0.1", variant)
            rr = run_config(p.dataset, model, "rr", "0.1", variant)
            terms += [_term(gp, metric, variant, share), _term(rr, metric, variant, -share)]
        elif p.metric == "acc_gap_to_eps_inf":
            clear = run_config(p.dataset, model, "none", "inf", variant)
            noisy = run_config(p.dataset, model, p.mechanism, p.epsilon, variant)
            terms += [_term(clear, metric, variant, share), _term(noisy, metric, variant, -share)]
        else:
            base = run_config(p.dataset, model, p.mechanism, p.epsilon, variant, 0.0, 0.0)
            terms += [*_average(p, variant, metric, model, share), _term(base, metric, variant, -share)]
    return tuple(terms)


def cell(p: Published) -> Cell:
    """How one printed figure is measured."""
    if p.table == "5":
        return Cell(p, why=NO_GRID)
    if p.dataset == "all":
        return Cell(p, why="an average over all datasets, one of which (LastFM) has no features here")
    recipes = {variant: Recipe(_terms(p, variant)) for variant in VARIANTS}
    if recipes["published"] == recipes["correct"]:
        recipes.pop("correct")
    return Cell(p, recipes)


def seeds(table: str, mode: Mode) -> int:
    """Ten runs in the paper."""
    return {"quick": 2, "default": 5, "full": 10}[mode]


def quick(p: Published) -> bool:
    """Cora, and one model for everything that averages over the alpha-delta grid."""
    small = p.dataset == "cora"
    return small and (
        p.table in ("1(a)", "1(b)", "6", "text:Fig3") or (p.model == "gcn" and p.epsilon in ("0.1", "inf"))
    )


BOOK = Paper(
    name="graphprivatizer",
    title="Joshi, Indri & Mishra, GraphPrivatizer, TMLR 2024",
    cell=cell,
    seeds=seeds,
    quick=quick,
)
