"""Alice's server: a guarded inference API whose ledger never grants more than it recorded.

Importing the modules of this package needs the extra `serve`; call `require_extra` first to fail with one sentence.
"""

from __future__ import annotations

from importlib.util import find_spec

from edgeveil.errors import MissingExtra

__all__ = ["require_extra"]

_NEEDED = ("fastapi", "uvicorn", "pydantic_settings", "sqlalchemy", "prometheus_client")


def require_extra(feature: str = "the server") -> None:
    """Raise `MissingExtra` unless everything the server imports is installed."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise MissingExtra(feature, "serve")
