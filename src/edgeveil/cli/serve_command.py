"""``edgeveil serve``: answer queries about one release, guarded and accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: edgeveil serve cora-lapgraph --state state --output probabilities --decimals 2 --epsilon-cap 8"


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(serve)


def serve(
    release: Annotated[Path | None, typer.Argument(metavar="DIR", help="Folder made by `edgeveil release`.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file; docs/serve.md lists every field.")] = None,
    state: Annotated[Path | None, typer.Option(help="Folder for ledger, snapshots and audit log.")] = None,
    ledger: Annotated[str | None, typer.Option(help="sqlite:///file or postgresql://host/name.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; default 8440, 0 picks a free one.")] = None,
    output: Annotated[str | None, typer.Option(help="logits, probabilities or labels.")] = None,
    decimals: Annotated[int | None, typer.Option(help="Round answers.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Answer only the k likeliest classes.")] = None,
    epsilon_cap: Annotated[float | None, typer.Option(help="Epsilon the released edges may cost in total.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the port and the ledger; default 1.")
    ] = None,
    insecure_demo: Annotated[
        bool, typer.Option("--insecure-demo", help="Serve a release with seeded noise, which is not private.")
    ] = False,
) -> None:
    """Serve a release: predictions, guarantee, snapshots, metrics and the operator's page at /admin.

    Settings come from the defaults, the TOML file, EDGEVEIL_SERVE_* variables and this command line, the later ones
    winning. Make a key first: edgeveil keys add NAME.
    """
    from edgeveil.serve import require_extra

    require_extra("edgeveil serve")
    from edgeveil.serve.config import load_settings

    given = {
        "release": release, "state": state, "ledger": ledger, "host": host, "port": port, "output": output,
        "decimals": decimals, "top_k": top_k, "epsilon_cap": epsilon_cap, "tls_cert": tls_cert, "tls_key": tls_key,
        "insecure_demo": insecure_demo or None, "workers": workers,
    }  # fmt: skip
    settings = load_settings(config, **given)
    from edgeveil.serve.server import run

    run(settings)
