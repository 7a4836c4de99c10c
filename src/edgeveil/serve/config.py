"""Settings of the server: defaults here, then a TOML file, then environment variables, then the command line.

Environment variables are ``EDGEVEIL_SERVE_`` and the field's name, with two underscores for a section:
``EDGEVEIL_SERVE_LEDGER``, ``EDGEVEIL_SERVE_GUARD__ACTION``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from edgeveil.errors import UsageError
from edgeveil.privacy.ledger.keyfile import key_path

__all__ = ["GuardSettings", "Settings", "load_settings"]


class GuardSettings(BaseModel):
    """The query guard: a heuristic, without any guarantee (see docs/guard.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Literal["off", "log", "slow", "review", "refuse"] = Field(
        default="refuse", description="The strongest thing the guard may do; weaker ones happen earlier."
    )
    only_unprotected: bool = Field(
        default=True, description="Only log for releases with a sound guarantee: there, queries reveal nothing more."
    )
    cross_readings: int = Field(
        default=0, ge=0, description="Times one tenant may read a node while other rows differ from the stored ones."
    )
    cross_readings_all: int = Field(default=8, ge=0, description="The same for all tenants together.")
    own_readings: int = Field(
        default=32, ge=0, description="Times one tenant may read a node under a change of its own row alone."
    )
    near: float = Field(
        default=0.35, gt=0, lt=1, description="Relative change of a row below which it counts as a probe."
    )
    single_limit: int = Field(default=8, gt=0, description="Probes that move one or two rows, per key.")
    grouped_limit: int = Field(default=8, gt=0, description="Probes that move three or more rows, per key.")
    scan_limit: int = Field(
        default=24, gt=0, description="Different nodes probed, per tenant, over all its keys and sessions."
    )
    shared_limit: int = Field(
        default=16, gt=0, description="Probes that answered the same nodes, over all tenants together."
    )
    cross_limit: int = Field(
        default=32, gt=0, description="Queries that change some rows and read nodes whose rows did not change, per key."
    )
    subset_limit: int = Field(
        default=4, gt=0, description="Different induced subgraphs that contain one node, per key."
    )
    few_rows: int = Field(default=2, gt=0, description="Up to so many moved rows a probe counts as single.")
    slow_seconds: float = Field(default=1.0, ge=0, le=30, description="Longest delay of a slowed answer.")
    node_limit: int | None = Field(
        default=None, gt=0, description="Q per node: answers about one node under changed features, over all tenants."
    )
    refuse_share: float = Field(default=1.0, gt=0, description="Refuse at this multiple of a limit.")


class Settings(BaseSettings):
    """Everything that `edgeveil serve` can be told."""

    model_config = SettingsConfigDict(
        env_prefix="EDGEVEIL_SERVE_", env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True
    )

    release: Path = Field(description="Folder made by `edgeveil release`.")
    state: Path = Field(
        default=Path("edgeveil-state"), description="Folder for the ledger, snapshots and the audit log."
    )
    ledger: str | None = Field(default=None, description="Database address; default: SQLite in the state folder.")
    ledger_key: Path | None = Field(
        default=None, description="Key of the ledger (mode 0600); default: beside SQLite, else in the state folder."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8440, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    tls_cert: Path | None = Field(default=None, description="PEM certificate chain.")
    tls_key: Path | None = Field(default=None, description="PEM private key.")
    tls_client_ca: Path | None = Field(
        default=None, description="PEM authorities; when set, clients need a certificate."
    )
    induced: bool = Field(
        default=False, description="Answer on induced subgraphs; comparing a few of them shows edges outright."
    )
    plain_http: bool = Field(default=False, description="Allow unencrypted traffic on other than loopback addresses.")
    output: Literal["logits", "probabilities", "labels"] = Field(default="probabilities", description="Kind of answer.")
    decimals: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="Round answers to so many decimals; default: 2 for probabilities of a release that is not sound.",
    )
    top_k: int | None = Field(default=None, ge=1, description="Answer only the k likeliest classes.")
    changed_features: bool | None = Field(
        default=None,
        description="Answer under other features than the stored ones; default: only for sound releases.",
    )
    edge_set: str = Field(
        default="graph", pattern=r"^[A-Za-z0-9._-]{1,80}$", description="Name of the released graph's edges."
    )
    epsilon_cap: float | None = Field(default=None, gt=0, description="Epsilon that one edge set may cost in total.")
    edge_sets: dict[str, float] = Field(
        default_factory=dict, description="Further graphs that share no edge with the released one, each with its cap."
    )
    edge_set_tenants: dict[str, list[str]] = Field(
        default_factory=dict, description="Tenants who may spend on an edge set; not named: all with a curate key."
    )
    max_body: int = Field(default=8 * 2**20, gt=0, description="Bytes of a request body.")
    max_snapshot_body: int = Field(default=256 * 2**20, gt=0, description="Bytes of a snapshot body.")
    feature_reach: float = Field(
        default=4.0, gt=0, description="Largest feature a client may send, in multiples of the largest stored one."
    )
    max_nodes: int = Field(default=20_000, gt=0, description="Nodes named or answered in one request.")
    max_connections: int = Field(default=512, gt=0, description="Connections at one time.")
    address_connections: int = Field(
        default=128, gt=0, description="Connections of one address at one time; trusted proxies have no such limit."
    )
    failed_keys: int = Field(
        default=20,
        gt=0,
        description="Failed keys per address, then one every two seconds; a network has four times that.",
    )
    trusted_proxies: list[str] = Field(
        default_factory=list, description="Addresses whose X-Forwarded-For names the client."
    )
    queue: int = Field(default=64, gt=0, description="Inferences waiting before further ones are turned away.")
    batch: int = Field(
        default=16,
        gt=0,
        le=256,
        description="Waiting questions with changed features computed together; 1: each alone.",
    )
    workers: int = Field(default=1, gt=0, le=64, description="Processes that share the port and the ledger.")
    threads: int = Field(default=1, gt=0, le=64, description="Threads that run the model.")
    request_timeout: float = Field(default=30.0, gt=0, description="Seconds for one answer.")
    body_timeout: float = Field(default=20.0, gt=0, description="Seconds for a client to send a body.")
    header_timeout: float = Field(default=10.0, gt=0, description="Seconds for a client to send its headers.")
    keep_alive: int = Field(default=15, gt=0, description="Seconds an idle connection stays open.")
    lease_block: int = Field(
        default=256, gt=0, description="Queries taken from the ledger at a time; more for busy tenants."
    )
    node_block: int = Field(default=8, gt=0, description="Queries per node taken from the ledger at a time.")
    key_memory: float = Field(default=5.0, ge=0, description="Seconds a verified key is remembered.")
    ledger_timeout: float = Field(default=10.0, gt=0, description="Seconds to wait for the ledger.")
    audit_log: Path | None = Field(
        default=None, description="JSON Lines file; default: audit.jsonl in the state folder."
    )
    public_metrics: bool = Field(default=False, description="Serve /metrics without a key.")
    admin: bool = Field(default=True, description="Serve the operator's page.")
    insecure_demo: bool = Field(default=False, description="Serve a release whose noise was seeded and is not private.")
    guard: GuardSettings = GuardSettings()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("TLS needs both tls_cert and tls_key")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        if self.output == "labels" and (self.decimals is not None or self.top_k is not None):
            raise ValueError("labels are not rounded and have no top k; drop decimals and top_k")
        return self

    @property
    def ledger_url(self) -> str:
        """The database address with its default."""
        return self.ledger or f"sqlite:///{(self.state / 'ledger.db').as_posix()}"

    @property
    def key_path(self) -> Path:
        """The ledger's key with its default."""
        sqlite = self.ledger_url.startswith("sqlite")
        return key_path(self.ledger_url, self.ledger_key or (None if sqlite else self.state / "ledger.key"))

    @property
    def audit_path(self) -> Path:
        """The audit log with its default."""
        return self.audit_log or self.state / "audit.jsonl"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in ("127.0.0.1", "::1", "localhost")


def load_settings(file: Path | None = None, **given: Any) -> Settings:
    """Settings from all sources; `given` (the command line) wins, entries that are None do not count."""
    if file is not None and not file.is_file():
        raise UsageError(f"no settings file at {file}")

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            if file is None:
                return init_settings, env_settings
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    try:
        return Layered(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise UsageError(_explain(error)) from error
    except (SettingsError, ValueError) as error:
        raise UsageError(f"the settings cannot be read: {error}") from error


def _explain(error: ValidationError) -> str:
    faults = [f"{'.'.join(str(p) for p in e['loc']) or 'settings'}: {e['msg']}" for e in error.errors()]
    return f"bad settings: {'; '.join(faults)}; docs/serve.md lists every field"
