"""Asking in the owner's words: node ids for numbers, raw tables for features in model space. No edge is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from edgeveil.serve.auth import Key
from edgeveil.serve.bodies import describe
from edgeveil.serve.middleware import read_body
from edgeveil.serve.service import Service
from edgeveil.serve.wire import Columns, parse_json
from edgeveil.serve.words import node_numbers, table_rows

__all__ = ["add_raw_tables"]

Authorise = Callable[[Request, Service, str], Awaitable[Key]]
_CODES = (400, 401, 403, 408, 413, 415, 422, 429, 503)


class NamesBody(BaseModel):
    """Node ids as the owner's files have them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"names": ["CUST-00821"]}]})

    names: Annotated[list[str], Field(fail_fast=True)] = Field(min_length=1, max_length=100_000)


class NamesAnswer(BaseModel):
    """Their numbers, for `/v1/predict`, and the names of the classes that answers number."""

    nodes: list[int]
    class_names: list[str] | None


class TableBody(BaseModel):
    """A raw table by columns, as the release's own table had them."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"columns": {"income": [52000], "region": ["north"]}}]}
    )

    columns: Columns = Field(min_length=1)


class TableAnswer(BaseModel):
    """Features in model space, one row per row of the table."""

    features: list[list[float]]


def add_raw_tables(app: FastAPI, service: Service, authorise: Authorise) -> None:
    """Add `/v1/nodes` and `/v1/transform`."""

    @app.post("/v1/nodes", summary="Node numbers by id", **describe({"model": NamesAnswer}, *_CODES, body=NamesBody))
    async def nodes(request: Request) -> Any:
        """Numbers of nodes by their ids, and the names of the classes."""
        await authorise(request, service, "read")
        asked: NamesBody = parse_json(NamesBody, await read_body(request.receive))
        release = service.release
        numbers = node_numbers(release, asked.names, "names")
        return {"nodes": numbers.tolist(), "class_names": release.class_names and list(release.class_names)}

    described = describe({"model": TableAnswer}, *_CODES, body=TableBody)

    @app.post("/v1/transform", summary="Raw table to features", **described)
    async def transform(request: Request) -> Any:
        """Features in model space, for `/v1/predict` or a snapshot, from rows as the owner has them."""
        await authorise(request, service, "predict")
        asked: TableBody = parse_json(TableBody, await read_body(request.receive))
        rows = await service.aside(table_rows, service.release, asked.columns, service.settings.max_nodes)
        return {"features": rows.tolist()}
