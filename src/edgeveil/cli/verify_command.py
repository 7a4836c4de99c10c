"""``edgeveil verify``: does a defence keep the epsilon it claims?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import Json, ScalingName, load_graph, write_json_lines
from edgeveil.cli.method_options import SetOption, settings
from edgeveil.cli.progress import ShareProgress
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.privacy.verify import Verification

EXAMPLE = """Example: edgeveil verify edgerand --epsilon 4 --quick

Through a trained model: edgeveil verify lapgraph --epsilon 4 --through gcn --graph cora-twin"""
TWIN = "cora-twin"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(verify)


def verify(
    defence: Annotated[str, typer.Argument(metavar="DEFENCE", help="edgerand, lapgraph, lpgnet-2, gp-t ...")],
    epsilon: Annotated[float | None, typer.Option(help="The epsilon to claim, for one undirected edge.")] = None,
    confidence: Annotated[float, typer.Option(help="A sound defence is refuted at most once in 1/(1-c) runs.")] = 0.99,
    runs: Annotated[int | None, typer.Option(min=8, help="Runs per neighbouring graph; default 20000.")] = None,
    canaries: Annotated[
        int | None, typer.Option(min=8, help="Planted pairs per graph; default 50000, or 400 with --through.")
    ] = None,
    guesses: Annotated[int | None, typer.Option(min=1, help="With --through: largest number of guesses.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the auditor's coins, and of the noise with --seeded.")] = 0,
    secure: Annotated[
        bool, typer.Option("--secure/--seeded", help="Which noise: of real releases, or of seeded experiments.")
    ] = True,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds; sees less, and says so.")] = False,
    through: Annotated[str | None, typer.Option(help="Audit the answers of this model instead of the noise.")] = None,
    graph: Annotated[
        str | None,
        typer.Option(help="Plant pairs in this graph too (name or file); with --through and gp-*: cora-twin if unset."),
    ] = None,
    attack: Annotated[str, typer.Option(help="Attack for --through.")] = "linkteller",
    scaling: ScalingName = "auto",
    set_: SetOption = None,
    json_file: Json = None,
) -> None:
    """Measure a lower bound on epsilon and compare it with the claim.

    The noise stage of a release runs once on graphs with edges planted by coin, and many times on tiny neighbouring
    graphs. The ceiling is the largest epsilon that every experiment could have shown. The last line is the verdict:
    consistent, refuted or inconclusive.
    """
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence must lie strictly between 0 and 1, got {confidence}")
    params = settings(set_, [defence], [attack] if through is not None else [])
    if through is not None:
        from edgeveil.audits.verify_model import verify_through
        from edgeveil.defences.defence import DEFENCES
        from edgeveil.graph.scaling import check_scaling

        unit = DEFENCES.get(defence).unit
        certain: dict[str, object] = {}
        result = verify_through(
            load_graph(graph or TWIN), defence, epsilon=epsilon, model=through, attack_name=attack,
            canaries=canaries or 400, guesses=guesses, confidence=confidence, seed=seed, params=params,
            training={"scaling": check_scaling(scaling)},
        )  # fmt: skip
    else:
        if scaling != "auto":
            raise UsageError("--scaling belongs to --through; the noise stage reads no features")
        if guesses is not None:
            raise UsageError("--guesses belongs to --through; otherwise the guesses are chosen on half of the coins")
        result, unit, certain = _noise(
            defence, epsilon, params.get(defence, {}), confidence, runs, canaries, seed, secure, quick, graph
        )
    if json_file is not None:
        write_json_lines(json_file, [_row(defence, result, unit) | certain])
    _show(defence, result, unit, quick)


def _noise(
    defence: str, epsilon: float | None, params: Mapping[str, Any], confidence: float, runs: int | None,
    canaries: int | None, seed: int, secure: bool, quick: bool, graph: str | None,
) -> tuple[Verification, str, dict[str, object]]:  # fmt: skip
    """All experiments on the noise stage, and how much of a graph no noise touches where a defence can say so."""
    from edgeveil.defences.defend import make_defence
    from edgeveil.defences.graphprivatizer.local_audit import CountsCertain
    from edgeveil.privacy.verify import QUICK, Effort
    from edgeveil.privacy.verify import verify as run

    mechanism = make_defence(defence, epsilon, **params)
    own = None if graph is None else load_graph(graph)
    effort = replace(QUICK if quick else Effort(), seed=seed, secure=secure, graph=own)
    effort = replace(effort, runs=runs or effort.runs, canaries=canaries or effort.canaries)
    with ShareProgress() as bar:
        result = run(mechanism, effort, confidence=confidence, progress=bar)
    certain = _certain(mechanism, graph or TWIN, seed) if isinstance(mechanism, CountsCertain) else {}
    return result, mechanism.unit, certain


def _show(defence: str, result: Verification, unit: str, quick: bool) -> None:
    claimed = "none" if math.isinf(result.claimed) else f"{result.claimed:g}"
    typer.echo(f"defence: {defence}")
    typer.echo(f"claimed epsilon: {claimed} ({unit})" + (f", delta {result.delta:g}" if result.delta else ""))
    if result.note:
        typer.echo(f"note: {result.note}")
    for finding in result.findings:
        typer.echo(f"{finding.test}: lower bound {_number(finding.lower_bound)} ({finding.detail})")
    typer.echo(f"empirical lower bound: {_number(result.lower_bound)} (confidence {result.confidence:g})")
    typer.echo(f"ceiling: {_number(result.ceiling)}")
    if quick:
        typer.echo("quick: fewer runs and planted pairs; half of the noise may pass unseen")
    typer.echo(f"meaning: {_meaning(result)}")
    typer.echo(f"verdict: {result.verdict}")


def _certain(mechanism: Any, name: str, seed: int) -> dict[str, object]:
    """How much of a given graph no noise touches, said before the verdict."""
    found = mechanism.certain_entries(load_graph(name), seed)
    typer.echo(
        f"released with certainty on {name}: {found['certain_edges']:,} of {found['edges']:,} edges, through "
        f"{found['certain']:,} of {found['entries']:,} list entries "
        f"({found['neighbours_of_degree_one']:,} name a neighbour of degree one, "
        f"{found['no_similar_candidate']:,} one without a similar candidate)"
    )
    return {"released_with_certainty": found | {"graph": name}}


def _number(bound: float) -> str:
    return "unbounded" if math.isinf(bound) else f"{bound:.2f}"


def _meaning(result: Verification) -> str:
    if math.isinf(result.claimed):
        return "no epsilon is claimed, so nothing can be refuted; the bound says what the answers give away at least"
    if result.verdict == "refuted":
        return "the outputs differ more than the claim allows; do not rely on this epsilon"
    if result.verdict == "consistent" and result.lower_bound == 0:
        return "no difference was found, and none is allowed"
    if result.verdict == "consistent":
        return "the outputs differ, but within the claim; a test can refute a guarantee, never prove it"
    if result.claimed > result.ceiling:
        return "the claim is above the ceiling, where these experiments see nothing; raise --runs and --canaries"
    return "less than half of the claim was seen, so half of the noise might have passed; nothing is said of the claim"


def _row(defence: str, result: Verification, unit: str) -> dict[str, object]:
    return {
        "defence": defence,
        "unit": unit,
        "claimed_epsilon": result.claimed,
        "delta": result.delta,
        "lower_bound": _plain(result.lower_bound),
        "ceiling": _plain(result.ceiling),
        "confidence": result.confidence,
        "verdict": result.verdict,
        "tests": [_test(f._asdict()) for f in result.findings],
    }


def _test(finding: dict[str, Any]) -> dict[str, Any]:
    return finding | {key: _plain(finding[key]) for key in ("lower_bound", "ceiling")}


def _plain(bound: float) -> float | str:
    return "unbounded" if math.isinf(bound) else bound
