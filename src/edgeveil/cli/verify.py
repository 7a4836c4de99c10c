"""``edgeveil verify``: does a defence keep the epsilon it claims?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.cli.common import Json, say, write_json_lines
from edgeveil.errors import UsageError

if TYPE_CHECKING:
    from edgeveil.privacy.verify import Verification

EXAMPLE = """Example: edgeveil verify edgerand --epsilon 4

Through a trained model: edgeveil verify lapgraph --epsilon 4 --through gcn --graph cora-twin"""


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(verify)


def verify(
    defence: Annotated[str, typer.Argument(metavar="DEFENCE", help="edgerand, lapgraph, lpgnet-2, gp-t ...")],
    epsilon: Annotated[float | None, typer.Option(help="The epsilon to claim, for one undirected edge.")] = None,
    confidence: Annotated[float, typer.Option(help="A sound defence is refuted at most once in 1/(1-c) runs.")] = 0.99,
    runs: Annotated[int, typer.Option(min=2, help="Runs per tiny graph.")] = 20_000,
    canaries: Annotated[
        int | None, typer.Option(min=2, help="Planted pairs; default 5000, or 400 with --through.")
    ] = None,
    guesses: Annotated[int | None, typer.Option(min=1, help="Largest number of guesses, fixed beforehand.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the audit.")] = 0,
    secure: Annotated[bool, typer.Option("--secure", help="Audit the operating-system noise; slower.")] = False,
    through: Annotated[str | None, typer.Option(help="Audit the answers of this model instead of the noise.")] = None,
    graph: Annotated[
        str, typer.Option(help="Graph for --through, and to count what gp-m and gp-t leave untouched.")
    ] = "cora-twin",
    attack: Annotated[str, typer.Option(help="Attack for --through.")] = "linkteller",
    json_file: Json = None,
) -> None:
    """Measure a lower bound on epsilon and compare it with the claim.

    Two tests: the likelihood of outputs on neighbouring graphs of 4 to 8 nodes, and one run on a graph of 20,000 nodes
    with edges planted by coin. The last line is the verdict: consistent, refuted or inconclusive.
    """
    if not 0 < confidence < 1:
        raise UsageError(f"--confidence must lie strictly between 0 and 1, got {confidence}")
    if through is None:
        from edgeveil.defences.api import make_defence
        from edgeveil.privacy.verify import verify as run

        mechanism = make_defence(defence, epsilon)
        result = run(
            mechanism, confidence=confidence, runs=runs, canaries=canaries or 5_000, guesses=guesses, seed=seed,
            secure=secure, progress=say,
        )  # fmt: skip
        unit = mechanism.unit
        certain = _certain(mechanism, graph, seed) if hasattr(mechanism, "certain_entries") else {}
    else:
        from edgeveil.audits.verify_model import verify_through
        from edgeveil.cli.common import load_graph
        from edgeveil.defences.base import DEFENCES

        unit, certain = DEFENCES.get(defence).unit, {}
        result = verify_through(
            load_graph(graph), defence, epsilon=epsilon, model=through, attack_name=attack,
            canaries=canaries or 400, guesses=guesses, confidence=confidence, seed=seed,
        )  # fmt: skip
    if json_file is not None:
        write_json_lines(json_file, [_row(defence, result, unit) | certain])
    _show(defence, result, unit)


def _show(defence: str, result: Verification, unit: str) -> None:
    claimed = "none" if math.isinf(result.claimed) else f"{result.claimed:g}"
    typer.echo(f"defence: {defence}")
    typer.echo(f"claimed epsilon: {claimed} ({unit})")
    for finding in result.findings:
        typer.echo(f"{finding.test}: lower bound {_number(finding.lower_bound)} ({finding.detail})")
    typer.echo(f"empirical lower bound: {_number(result.lower_bound)} (confidence {result.confidence:g})")
    typer.echo(f"meaning: {_meaning(result)}")
    typer.echo(f"verdict: {result.verdict}")


def _certain(mechanism: Any, name: str, seed: int) -> dict[str, object]:
    """How much of a given graph no noise touches, said before the verdict."""
    from edgeveil.cli.common import load_graph

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
    return "the tests saw too little to say anything about the claim"


def _row(defence: str, result: Verification, unit: str) -> dict[str, object]:
    return {
        "defence": defence,
        "unit": unit,
        "claimed_epsilon": result.claimed,
        "lower_bound": "unbounded" if math.isinf(result.lower_bound) else result.lower_bound,
        "confidence": result.confidence,
        "verdict": result.verdict,
        "tests": [f._asdict() for f in result.findings],
    }
