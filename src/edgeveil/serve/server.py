"""Running the application: uvicorn with TLS, limits, and a clock on clients that never finish their headers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgeveil.errors import UsageError
from edgeveil.serve.app import create_app
from edgeveil.serve.config import Settings
from edgeveil.serve.listener import listen

__all__ = ["make_server", "run"]

log = logging.getLogger("edgeveil")


def _protocol(header_timeout: float) -> type[H11Protocol]:
    class Patient(H11Protocol):
        """Closes a connection whose request line and headers do not arrive in time (slow loris)."""

        _alarm: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._arm()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waiting = self.conn.their_state is h11.IDLE
            if not waiting:
                self._disarm()
            elif self._alarm is None and self.conn.trailing_data[0]:
                self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def _arm(self) -> None:
            self._alarm = self.loop.call_later(header_timeout, self._give_up)

        def _disarm(self) -> None:
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

        def _give_up(self) -> None:
            self._alarm = None
            if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
                self.transport.close()

    return Patient


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
    config = uvicorn.Config(
        app, host=settings.host, port=settings.port, http=_protocol(settings.header_timeout), ws="none",
        limit_concurrency=settings.max_connections, timeout_keep_alive=settings.keep_alive, access_log=False,
        server_header=False, log_level="warning", lifespan="on", h11_max_incomplete_event_size=16 * 1024,
        timeout_graceful_shutdown=10, **tls,
    )  # fmt: skip
    return uvicorn.Server(config)


def run(settings: Settings) -> None:
    """Serve until interrupted."""
    server = make_server(settings)
    listener = listen(settings.host, settings.port)
    scheme = "https" if settings.tls_cert is not None else "http"
    port = listener.getsockname()[1]
    print(f"serving {settings.release} on {scheme}://{settings.host}:{port}", flush=True)
    server.run(sockets=[listener])
    if not server.started:
        raise UsageError("the server did not start; the log above says why")
