"""Running the application: uvicorn with TLS and the limits on connections."""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn

from edgeveil.errors import EdgeveilError, UsageError
from edgeveil.serve.app import create_app
from edgeveil.serve.config import Settings
from edgeveil.serve.connections import Connections, connection_class
from edgeveil.serve.listener import listen
from edgeveil.serve.workers import run_workers

__all__ = ["make_server", "run"]


def make_server(settings: Settings, release: Any = None) -> uvicorn.Server:
    """A uvicorn server for these settings, not started yet."""
    for path in (settings.tls_cert, settings.tls_key, settings.tls_client_ca):
        if path is not None and not path.is_file():
            raise UsageError(f"no such file for TLS: {path}")
    app = create_app(settings, release)
    app.state.service.open()
    tls: dict[str, Any] = {}
    if settings.tls_cert is not None:
        tls = {"ssl_certfile": str(settings.tls_cert), "ssl_keyfile": str(settings.tls_key)}
        if settings.tls_client_ca is not None:
            tls |= {"ssl_ca_certs": str(settings.tls_client_ca), "ssl_cert_reqs": 2}
    register = Connections(
        settings.max_connections, settings.address_connections, trusted=tuple(settings.trusted_proxies)
    )
    app.state.service.connections = register.__len__
    config = uvicorn.Config(
        app.state.front, host=settings.host, port=settings.port, ws="none",
        http=connection_class(register, settings.header_timeout), proxy_headers=False,
        timeout_keep_alive=settings.keep_alive, access_log=False, server_header=False, log_level="warning",
        lifespan="on", h11_max_incomplete_event_size=16 * 1024, timeout_graceful_shutdown=10, **tls,
    )  # fmt: skip
    server = uvicorn.Server(config)
    app.state.service.inference.quiet = lambda: len(server.server_state.tasks) <= 1  # requests begun and not answered
    return server


def run(settings: Settings) -> None:
    """Serve until interrupted, in one process or several."""
    server = make_server(settings) if settings.workers == 1 else None
    listener = listen(settings.host, settings.port)
    scheme = "https" if settings.tls_cert is not None else "http"
    port = listener.getsockname()[1]
    print(f"serving {settings.release} on {scheme}://{settings.host}:{port}", flush=True)
    if server is None:
        run_workers(settings.workers, _work, settings.model_dump(exclude_unset=True), listener)
    else:
        _serve(server, listener)


def _work(given: dict[str, Any], listener: socket.socket) -> None:
    """One of several processes; why it does not start is one line, as with a single one."""
    try:
        _serve(make_server(Settings(**given)), listener)
    except EdgeveilError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    server.run(sockets=[listener])
    if not server.started:
        raise UsageError("the server did not start; the log above says why")
