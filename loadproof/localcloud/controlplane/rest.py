"""The REST-JSON protocol for the services we answer ourselves, by botocore's service models: path and verb name the
operation, members come from the path, the query and the body."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote

from botocore.model import Shape
from moto.core.utils import get_service_model

from loadproof.localcloud.wire import AwsError, Caller, Params, Reply, Service, json_object

_FIELD = re.compile(r"\{(\w+)\+?\}")


class _Route(NamedTuple):
    action: str
    verb: str
    path: re.Pattern[str]
    shape: Shape
    status: int


def answer_rest(
    service: Service, caller: Caller, verb: str, raw_path: str, query: dict[str, str], body: bytes
) -> Reply | None:
    """Answer one request; None for an operation that `service` does not have.

    `raw_path` is as sent, so that an encoded slash stays inside its member.
    """
    matched = _match(service, verb, raw_path)
    if matched is None:
        return None
    route, found = matched
    request_id = str(uuid.uuid4())
    try:
        params = _params(route.shape, found, query, body)
        result = service.guarded(caller, route.action, params)
    except AwsError as error:
        text = json.dumps({"message": error.message}).encode()
        return Reply(error.status, "application/json", text, request_id, {"x-amzn-ErrorType": error.code})
    return Reply(route.status, "application/json", json.dumps(result, default=_iso8601).encode(), request_id)


def _match(service: Service, verb: str, raw_path: str) -> tuple[_Route, dict[str, str]] | None:
    for route in _routes(service.boto_name):
        found = route.path.fullmatch(raw_path) if route.verb == verb and service.provides(route.action) else None
        if found is not None:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


@cache
def _routes(boto_name: str) -> tuple[_Route, ...]:
    model = get_service_model(boto_name)
    operations = (model.operation_model(name) for name in model.operation_names)
    return tuple(
        _Route(
            action=operation.name,
            verb=operation.http["method"],
            path=re.compile(_FIELD.sub(r"(?P<\1>[^/]+)", operation.http["requestUri"].partition("?")[0])),
            shape=operation.input_shape,
            status=int(operation.http.get("responseCode", 200)),
        )
        for operation in operations
    )


def _params(shape: Shape, from_path: dict[str, str], query: dict[str, str], body: bytes) -> Params:
    params = json_object(body)
    if shape is None:
        return params
    for name, member in shape.members.items():
        place, sent_as = member.serialization.get("location"), member.serialization.get("name", name)
        sent = {"uri": from_path, "querystring": query}.get(place, {}).get(sent_as)
        if sent is not None:
            params[name] = int(sent) if member.type_name == "integer" and sent.isdigit() else sent
    return params


def _iso8601(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is not JSON")
