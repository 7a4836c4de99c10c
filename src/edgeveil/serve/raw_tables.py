"""Asking in the owner's words: node ids for numbers, raw tables for features in model space. No edge is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from edgeveil.errors import InputError
from edgeveil.serve.auth import Key
from edgeveil.serve.bodies import describe
from edgeveil.serve.middleware import read_body
from edgeveil.serve.problems import Problem
from edgeveil.serve.service import Service
from edgeveil.serve.wire import parse_json

__all__ = ["add_raw_tables"]

Authorise = Callable[[Request, Service, str], Awaitable[Key]]
Cell = str | bool | int | float | None
_CODES = (400, 401, 403, 408, 413, 415, 422, 429, 503)


class NamesBody(BaseModel):
    """Node ids as the owner's files have them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"names": ["CUST-00821"]}]})

    names: list[str] = Field(min_length=1, max_length=100_000)


class NamesAnswer(BaseModel):
    """Their numbers, for `/v1/predict`, and the names of the classes that answers number."""

    nodes: list[int]
    class_names: list[str] | None


class TableBody(BaseModel):
    """A raw table by columns, as the release's own table had them."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"columns": {"income": [52000], "region": ["north"]}}]}
    )

    columns: dict[str, list[Cell]] = Field(min_length=1)


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
        try:
            numbers = release.node_numbers(asked.names)
        except InputError as error:
            raise Problem(422, "unknown_node", str(error)) from error
        return {"nodes": numbers.tolist(), "class_names": release.class_names and list(release.class_names)}

    described = describe({"model": TableAnswer}, *_CODES, body=TableBody)

    @app.post("/v1/transform", summary="Raw table to features", **described)
    async def transform(request: Request) -> Any:
        """Features in model space, for `/v1/predict` or a snapshot, from rows as the owner has them."""
        await authorise(request, service, "predict")
        asked: TableBody = parse_json(TableBody, await read_body(request.receive))
        lengths = {len(column) for column in asked.columns.values()}
        if len(lengths) != 1 or not 0 < max(lengths) <= service.settings.max_nodes:
            limit = service.settings.max_nodes
            raise Problem(422, "bad_input", f"columns: all need the same number of cells, 1 to {limit}")
        try:
            rows = service.release.transform({k: [_cell(c) for c in v] for k, v in asked.columns.items()})
        except InputError as error:
            raise Problem(422, "bad_input", str(error)) from error
        return {"features": np.asarray(rows).tolist()}


def _cell(cell: Cell) -> Cell:
    return str(cell).lower() if isinstance(cell, bool) else cell
