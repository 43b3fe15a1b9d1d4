"""Reads what a request to one of moto's services asks for: the operation, its shape, its parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from moto.core.parse import EC2QueryParser, QueryParser

from loadproof.localcloud.wire import Params

Shape: TypeAlias = Any  # of a service's model, which botocore reads
_FIELD = re.compile(r"\{(\w+)(\+?)\}")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, as the front has it."""

    verb: str
    raw_path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Asked(NamedTuple):
    """An operation and its parameters as the service's model names them."""

    action: str
    shape: Shape
    params: Params


class _Route(NamedTuple):
    action: str
    verb: str
    path: re.Pattern[str]
    query: Mapping[str, str]
    """what its address always has (`?find=LayerVersion`)"""
    shape: Shape


def asked_of(model: Shape, request: Request) -> Asked | None:
    """None when the request is none of the service's, or cannot be read: moto has its own answer then."""
    try:
        if "X-Amz-Target" in request.headers:
            return _by_target(model, request)
        if model.metadata["protocol"] == "rest-json":
            return _by_path(model, request)
        return _by_form(model, request)
    except ValueError:
        return None


def form_of(request: Request) -> dict[str, str]:
    """The fields of the Query protocol, from the body or else from the address."""
    return dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True)) or dict(request.query)


def _by_form(model: Shape, request: Request) -> Asked | None:
    form = form_of(request)
    action = form.get("Action", "")
    if action not in model.operation_names:
        return None
    operation = model.operation_model(action)
    parser = EC2QueryParser if model.metadata["protocol"] == "ec2" else QueryParser
    return Asked(action, operation.input_shape, parser(operation).parse({"values": form}))  # type: ignore[typeddict-item]


def _by_target(model: Shape, request: Request) -> Asked | None:
    action = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
    if action not in model.operation_names:
        return None
    return Asked(action, model.operation_model(action).input_shape, _object(request.body))


def _by_path(model: Shape, request: Request) -> Asked | None:
    for route in _routes(model):
        mine = route.verb == request.verb and route.query.items() <= request.query.items()
        found = route.path.fullmatch(request.raw_path.partition("?")[0]) if mine else None
        if found is not None:
            labels = {name: unquote(value) for name, value in found.groupdict().items()}
            return Asked(route.action, route.shape, _rest_params(route.shape, labels, request))
    return None


@cache
def _routes(model: Shape) -> tuple[_Route, ...]:
    operations = [model.operation_model(name) for name in model.operation_names]
    routes = (
        _Route(
            operation.name,
            operation.http["method"],
            _pattern(operation.http["requestUri"]),
            dict(parse_qsl(operation.http["requestUri"].partition("?")[2], keep_blank_values=True)),
            operation.input_shape,
        )
        for operation in sorted(operations, key=lambda one: one.http["requestUri"].count("{"))
    )
    return tuple(sorted(routes, key=lambda route: not route.query))  # what asks for more is asked first


def _pattern(uri: str) -> re.Pattern[str]:
    def label(match: re.Match[str]) -> str:
        return f"(?P<{match[1]}>{'.+' if match[2] else '[^/]+'})"

    return re.compile(_FIELD.sub(label, uri.partition("?")[0].rstrip("/")) + "/?")


def _rest_params(shape: Shape, labels: Mapping[str, str], request: Request) -> Params:
    if shape is None:
        return {}
    payload = shape.serialization.get("payload")
    params: Params = {payload: request.body} if payload else _object(request.body)
    for name, member in shape.members.items():
        place, sent_as = member.serialization.get("location"), member.serialization.get("name", name)
        places: dict[str | None, Mapping[str, str]] = {
            "uri": labels,
            "querystring": request.query,
            "header": request.headers,
        }
        sent = places.get(place, {}).get(sent_as)
        if sent is not None:
            params[name] = _typed(member, sent)
    return params


def _typed(member: Shape, sent: str) -> object:
    """What stands in a path, a query or a header, as the model has it; of a list the one that could be read."""
    if member.type_name == "list":
        return [sent]
    if member.type_name in ("integer", "long") and sent.lstrip("-").isdigit():
        return int(sent)
    return {"true": True, "false": False}.get(sent, sent) if member.type_name == "boolean" else sent


def _object(body: bytes) -> Params:
    """The body's JSON. Raises ValueError for anything but an object."""
    params = json.loads(body or b"{}")
    if not isinstance(params, dict):
        raise ValueError("no JSON object")
    return params
