"""GraphPrivatizer (Joshi et al., TMLR 2024): accuracy and attack AUC of GP, 2-hop RR and no edge privacy.

`published` re-creates the authors' code (alpha reversed, attack without KProp, non-edges of the first nodes only);
`correct` follows the equations and attacks the model that is served.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

from edgeveil.papers.published import Published
from edgeveil.papers.recipes import Cell, Mode, Paper, Pick, Recipe, Term
from edgeveil.runs.run_config import AttackConfig, RunConfig

__all__ = ["BOOK"]

VARIANTS = ("published", "correct")
MODELS = ("gcn", "sage", "gat", "gatv2", "transformer", "graphconv")
ATTENTION = ("gat", "gatv2", "transformer")
EPSILONS = ("0.1", "1", "2", "8")  # what Table 1(a) averages over
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
DELTAS = (0.0, 0.1, 0.25, 0.5, 1.0)
ALL_BUT_BASE = ("2", "7", "3(a)")  # these tables average over everything but alpha = delta = 0, the others over > 0
# Learning rate, weight decay and dropout of the authors' code where they differ from the text (0.01, 0.001, 0.5).
CODE = {"facebook": (1e-3, 1e-2, 0.5), "lastfm": (1e-3, 1e-4, 0.75), "pubmed": (1e-2, 1e-4, 0.25)}
NO_GRID = "the models, alpha and delta averaged over are not stated; here six models, GP-t, alpha 0.5, delta 0"


@cache
def attack(model: str, variant: str) -> AttackConfig:
    """500 edges and 500 non-edges; LSA2 for GraphSAGE, LinkTeller for every other model (§5).

    As published: differences of single-precision probabilities at 0.001, which saturated answers round to nothing.
    A question to an attention model is slow: 150 edges and 150 non-edges there.
    """
    published = variant == "published"
    params: dict[str, object] = {"variant": variant}
    if model != "sage":
        params["mode"] = "query"  # through KProp every node reaches every other, so derivatives save nothing
    if published and model != "sage":
        params["delta"] = 1e-3
    return AttackConfig(
        name="lsa2-post" if model == "sage" else "linkteller",
        params=params,
        answer="probabilities" if published else "logits",
        dtype="float32" if published else "float64",
        protocol="sampled",
        beliefs=("k",),
        nodes=150 if model in ATTENTION else 500,
        pair_variant="first-rows" if published else "correct",
        bypass_kprop=published,
    )


def run_config(
    p: Published, model: str, metric: str, variant: str, mechanism: str = "", alpha: float = 0.5, delta: float = 0.0
) -> RunConfig:
    """One release. The authors' code attacks the last epoch and reports the accuracy of another one: two runs."""
    mechanism = mechanism or p.mechanism
    infinite = mechanism == "none" or (p.epsilon == "inf" and mechanism == p.mechanism)
    defence = "lpgnn" if infinite else {"gp": "gp-t"}.get(mechanism, mechanism)
    epsilon = None if infinite else float(p.epsilon if p.epsilon not in ("", "inf") else 0.1)
    return _release(p.dataset, defence, epsilon, model, metric, variant, alpha, delta)


@cache
def _release(
    dataset: str, defence: str, epsilon: float | None, model: str, metric: str, variant: str, alpha: float, delta: float
) -> RunConfig:
    params: dict[str, object] = {} if epsilon is None else {"variant": variant}
    if defence.startswith("gp"):
        params |= {"alpha": alpha, "delta": delta}
    train: dict[str, object] = {}
    shape: dict[str, object] = {}
    published = variant == "published"
    if published and dataset in CODE:
        lr, decay, dropout = CODE[dataset]
        train, shape = {"lr": lr, "weight_decay": decay}, {"dropout": dropout}
    if published:
        train["keep"] = "last" if metric == "auc" else "reported"
    return RunConfig(
        dataset=dataset,
        defence=defence,
        defence_params=params,
        epsilon=epsilon,
        model=model,
        model_params=shape,
        train_params=train,
        preset="graphprivatizer",
        utility="accuracy",
        attacks=() if published and metric != "auc" else (attack(model, variant),),
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
    runs = [run_config(p, model, metric, variant, alpha=a, delta=d) for a, d in points]
    return [_term(run, metric, variant, sign / len(runs)) for run in runs]


def _terms(p: Published, variant: str) -> tuple[Term, ...]:
    models = MODELS if p.model == "all" else (p.model,)
    budgets = EPSILONS if p.epsilon == "all" else (p.epsilon,)
    share = 1.0 / (len(models) * len(budgets))
    parts = (_one_model(replace(p, epsilon=e), variant, model, share) for e in budgets for model in models)
    return tuple(term for part in parts for term in part)


def _one_model(p: Published, variant: str, model: str, share: float) -> list[Term]:
    metric = "auc" if "auc" in p.metric else "accuracy"

    def one(mechanism: str, sign: float, alpha: float = 0.5) -> Term:
        return _term(run_config(p, model, metric, variant, mechanism, alpha), metric, variant, sign * share)

    if p.metric in ("accuracy", "auc"):
        return _average(p, variant, metric, model, share)
    if p.metric.endswith("gp_minus_rr"):
        return [one("gp", 1.0), one("rr", -1.0)]
    if p.metric.endswith("cosine_minus_euclid"):
        cosine = run_config(p, model, metric, variant)
        euclid = cosine.model_copy(update={"defence_params": {**cosine.defence_params, "metric": "euclidean"}})
        return [_term(cosine, metric, variant, share), _term(euclid, metric, variant, -share)]
    if p.metric == "acc_gap_to_eps_inf":
        return [one("none", 1.0), one(p.mechanism, -1.0)]
    return [*_average(p, variant, metric, model, share), one(p.mechanism, -1.0, alpha=0.0)]


def cell(p: Published) -> Cell:
    """How one printed figure is measured."""
    if p.dataset == "all":
        return Cell(p, why="an average over all datasets, one of which (LastFM) has no features here")
    recipes = {variant: Recipe(_terms(p, variant)) for variant in VARIANTS}
    if recipes["published"] == recipes["correct"]:
        recipes.pop("correct")
    return Cell(p, recipes, aside=NO_GRID if p.table == "5" else "")


def seeds(table: str, mode: Mode) -> int:
    """Ten runs in the paper, five in Table 5."""
    return {"quick": 2, "default": 5, "full": 5 if table == "5" else 10}[mode]


def thin(p: Published) -> bool:
    """One model and one epsilon for everything that averages over the alpha-delta grid."""
    if p.table in ("1(a)", "1(b)", "5", "6", "3(b)", "text:Fig3", "text:5.1"):
        return True
    if p.table.startswith("Fig") and p.model != "gcn":
        return p.alpha in ("0.5", "1")
    return p.model == "gcn" and p.epsilon in ("0.1", "inf")


def quick(p: Published) -> bool:
    """Cora, and there what `thin` keeps."""
    return p.dataset == "cora" and thin(p)


BOOK = Paper(
    name="graphprivatizer",
    title="Joshi, Indri & Mishra, GraphPrivatizer, TMLR 2024",
    cell=cell,
    seeds=seeds,
    quick=quick,
    thin=thin,
)
