"""AWS's wire formats for the services we answer ourselves, driven by botocore's own service models.

A service is an object whose methods carry the names of API operations (`CreateEndpoint`) and take `(caller, params)`.
Requests are parsed, checked against the model's constraints (type, required, length, range, enum, pattern: `check`) and
answered as AWS would; so a client of another language sees the same errors as on AWS. What a service refuses beyond its
model stands beside its operations: `rules` of sagemaker and autoscaling, `watch_of` and `queries_of` of cloudwatch,
`definitions` of jobs, `attributes`, `batches` and `message` of queue.sqs.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TypeVar
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import regex
from botocore.model import OperationModel, Shape
from moto.core.parse import QueryParser
from moto.core.serialize import QuerySerializer
from moto.core.utils import get_service_model

from loadproof.localcloud.owners import owner_of
from loadproof.wire.documents import Document, Json

log = logging.getLogger(__name__)
Params = Document


class AwsError(Exception):
    """An error that the client sees as `code: message`."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the account and region of the request's credential scope."""

    account: str
    region: str
    access_key: str

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    def shares_place_with(self, other: Caller) -> bool:
        """Whether both see the same resources."""
        return (self.account, self.region) == (other.account, other.region)


Kept = TypeVar("Kept")
Key = tuple[str, str, str]  # account, region, name


def key(caller: Caller, name: str) -> Key:
    return (caller.account, caller.region, name)


class Regional(dict[Key, Kept]):
    """What a service keeps, by account, region and name."""

    def named(self, caller: Caller, name: str) -> Kept | None:
        return self.get(key(caller, name))

    def of(self, caller: Caller) -> list[Kept]:
        """All of the caller's account and region, oldest first."""
        return [one for place, one in self.items() if place[:2] == (caller.account, caller.region)]


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back over HTTP."""

    status: int
    content_type: str
    body: bytes
    request_id: str
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Caller, Params], Document | None]

MOST_TAGS = 50  # of any resource that takes tags here
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")  # as clients write them in JSON
_SCOPE = re.compile(r"Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")


def caller_of(authorization: str, home_region: str) -> tuple[Caller, str]:
    """The caller and the service named in a SigV4 header, which the gate has verified."""
    scope = _SCOPE.search(authorization)
    key, region, service = scope.group("key", "region", "service") if scope else ("", home_region, "")
    return Caller(account=owner_of(key), region=region, access_key=key), service


class Service:
    """One AWS API: `handler` has a method for each operation that the local cloud provides.

    A handler with a `lock` does one operation at a time, whoever asks.
    """

    def __init__(self, boto_name: str, handler: object, violation_code: str = "ValidationException") -> None:
        """`violation_code`: what the service calls a request that breaks its model."""
        self.boto_name = boto_name
        self.handler = handler
        self._violation_code = violation_code
        self._lock: AbstractContextManager[object] = getattr(handler, "lock", nullcontext())

    def provides(self, request: str | bytes) -> bool:
        """Whether an operation is ours, by its X-Amz-Target or the body of a Query request."""
        if isinstance(request, bytes):
            action = dict(parse_qsl(request.decode(errors="replace"))).get("Action", "")
        else:
            action = request.rpartition(".")[2]
        return action[:1].isupper() and hasattr(self.handler, action)

    def answer_json(self, caller: Caller, target: str, body: bytes) -> Reply:
        """Answer one request of the JSON 1.1 protocol; `target` is the X-Amz-Target header."""
        status, answer = 200, {}
        try:
            answer = self.guarded(caller, target.rpartition(".")[2], json_object(body))
        except AwsError as error:
            status, answer = error.status, {"__type": error.code, "message": error.message}
        text = json.dumps(answer, default=_plain_json).encode()
        return Reply(status, "application/x-amz-json-1.1", text, str(uuid.uuid4()))

    def answer_query(self, caller: Caller, body: bytes) -> Reply:
        """Answer one request of the Query protocol (form in, XML out)."""
        form = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        request_id = str(uuid.uuid4())
        try:
            action = form.get("Action", "")
            model = _operation(self.boto_name, action)
            if model is None:
                raise AwsError("InvalidAction", f"Could not find operation {action!r}.")
            try:
                params = QueryParser(model).parse({"values": form})  # type: ignore[typeddict-item]
            except ValueError as error:
                raise AwsError("ValidationError", f"The request cannot be read: {error}") from None
            result = self.guarded(caller, action, params)
        except AwsError as error:
            return Reply(error.status, "text/xml", query_error(error, request_id), request_id)
        text = QuerySerializer(model).serialize(result)["body"]
        return Reply(200, "text/xml", text.encode() if isinstance(text, str) else text, request_id)

    def call(self, caller: Caller, action: str, params: Params) -> Document:
        """Run one operation in process. Raises AwsError."""
        method: Handler | None = getattr(self.handler, action, None) if action[:1].isupper() else None
        model = _operation(self.boto_name, action)
        if method is None or model is None:
            raise AwsError(
                "UnsupportedOperation", f"The local cloud does not provide {self.boto_name}:{action or '(none)'}."
            )
        if model.input_shape is not None:
            check(model.input_shape, params, self._violation_code)
        with self._lock:
            return method(caller, params) or {}

    def guarded(self, caller: Caller, action: str, params: Params) -> Document:
        """As `call`; a fault of ours reaches the client as AWS's own faults do, and the log with its trace."""
        try:
            return self.call(caller, action, params)
        except AwsError:
            raise
        except Exception as error:
            log.exception("%s:%s broke", self.boto_name, action)
            raise AwsError("InternalFailure", f"{type(error).__name__}: {error}", 500) from error


@cache
def _operation(boto_name: str, action: str) -> OperationModel | None:
    model = get_service_model(boto_name)
    return model.operation_model(action) if action in model.operation_names else None


def json_object(body: bytes) -> Params:
    """A request's body. Raises SerializationException."""
    try:
        params = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        params = None
    if not isinstance(params, dict):
        raise AwsError("SerializationException", "The request's body is no JSON object.")
    return params


def tag_map(
    tags: Iterable[Mapping[str, str]] | None, code: str, key: str = "Key", value: str = "Value"
) -> dict[str, str]:
    """Tags by key. Raises AwsError for a key named twice, and for those that AWS keeps to itself."""
    rows = list(tags or ())
    found = {tag[key]: tag.get(value, "") for tag in rows}
    if len(found) != len(rows):
        raise AwsError(code, f"Tag keys must be unique, found {', '.join(tag[key] for tag in rows)}.")
    for name in found:
        if name.lower().startswith("aws:"):
            raise AwsError(code, f"Tag keys that start with aws: are reserved, found {name}.")
    return found


def add_tags(kept: dict[str, str], tags: Mapping[str, str], code: str) -> None:
    """Tag what has `kept`. Raises AwsError for more than 50 in all."""
    if len({**kept, **tags}) > MOST_TAGS:
        raise AwsError(code, f"A resource takes up to {MOST_TAGS} tags, found {len({**kept, **tags})}.")
    kept.update(tags)


def paged(
    rows: Sequence[object], params: Params, name: str, most: int, limit: str = "MaxResults", cursor: str = "NextToken"
) -> Document:
    """One page of a listing, under its name; `limit` and `cursor` are what the service calls these two parameters."""
    try:
        start = int(params.get(cursor) or 0)
    except ValueError:
        raise AwsError("ValidationException", f"Invalid {cursor}.") from None
    stop = start + int(params.get(limit) or most)
    return {name: rows[start:stop], **({cursor: str(stop)} if stop < len(rows) else {})}


def known(**values: Json) -> Document:
    """The members of an answer that have a value."""
    return {name: value for name, value in values.items() if value is not None}


def _plain_json(value: datetime) -> float:
    if hasattr(value, "timestamp"):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} is not JSON")


def query_error(error: AwsError, request_id: str) -> bytes:
    """An error in the Query protocol's XML."""
    return (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{escape(error.code)}</Code>"
        f"<Message>{escape(error.message)}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def check(shape: Shape | None, params: Json, code: str = "ValidationException") -> None:
    """Raise AwsError, worded as AWS words it, when `params` break the model's constraints."""
    found = faults(shape, params)
    if found:
        raise AwsError(code, violation(found))


def faults(shape: Shape | None, params: Json) -> list[str]:
    """Each constraint of the model that `params` break."""
    return list(_faults(shape, params, "")) if shape is not None else []


def violation(found: list[str]) -> str:
    """The message that tells of them."""
    return f"{len(found)} validation {'error' if len(found) == 1 else 'errors'} detected: " + "; ".join(found)


_NUMBER = (int, float)
# By the model's kinds of shapes: what a value must be, and its name in a refusal.
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "structure": (dict, "a structure"),
    "map": (dict, "a map"),
    "list": (list, "a list"),
    "string": (str, "a string"),
    "blob": ((str, bytes), "a blob"),
    "boolean": (bool, "a boolean"),
    "integer": (int, "of type integer"),
    "long": (int, "of type long"),
    "float": (_NUMBER, "of type float"),
    "double": (_NUMBER, "of type double"),
}


def fits(kind: str, value: Json) -> bool:
    """Whether a value is of a shape's type; timestamps come in several."""
    types, _ = _TYPES.get(kind, (object, ""))
    return isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool))


def _faults(shape: Shape, value: Json, path: str) -> Iterator[str]:
    if value is None or getattr(shape, "is_document_type", False):
        return  # left out, or free JSON
    kind = shape.type_name
    if kind in ("float", "double") and value in _NO_NUMBERS:
        return  # the service's own to refuse
    if not fits(kind, value):
        yield _fault(value, path, f"Member must be {_TYPES[kind][1]}")
    elif kind == "structure":
        yield from _structure_faults(shape, value, path)
    elif kind == "list":
        yield from _bound_faults(shape, value, len(value), path, "length")
        for index, item in enumerate(value, 1):
            yield from _faults(shape.member, item, f"{path}.{index}.member")
    elif kind == "map":
        yield from _bound_faults(shape, value, len(value), path, "length")
        for name, item in value.items():
            yield from _faults(shape.key, name, f"{path}.key")
            yield from _faults(shape.value, item, f"{path}.{name}")
    elif kind == "string":
        yield from _string_faults(shape, value, path)
    elif kind in ("integer", "long", "float", "double"):
        yield from _bound_faults(shape, value, value, path, "value")


def _structure_faults(shape: Shape, value: Document, path: str) -> Iterator[str]:
    for name in value:
        if name not in shape.members:
            yield f"Value at '{_join(path, name)}' failed to satisfy constraint: Member is not known"
    for name in shape.required_members:
        if value.get(name) is None:
            yield f"Value null at '{_join(path, name)}' failed to satisfy constraint: Member must not be null"
    for name, member in shape.members.items():
        yield from _faults(member, value.get(name), _join(path, name))


def _string_faults(shape: Shape, value: str, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield _fault(value, path, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]")
    yield from _bound_faults(shape, value, len(value), path, "length")
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        yield _fault(value, path, f"Member must satisfy regular expression pattern: {pattern}")


def _matches(pattern: str, value: str) -> bool:
    try:
        return regex.fullmatch(pattern, value) is not None  # Java's classes (\\p{L}), which `re` does not read
    except regex.error:
        return True


def _bound_faults(shape: Shape, value: Json, size: float, path: str, noun: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _fault(value, path, f"Member must have {noun} greater than or equal to {low}")
    if high is not None and size > high:
        yield _fault(value, path, f"Member must have {noun} less than or equal to {high}")


def _fault(value: Json, path: str, rule: str) -> str:
    return f"Value '{str(value)[:256]}' at '{path}' failed to satisfy constraint: {rule}"


def _join(path: str, name: str) -> str:
    small = name[:1].lower() + name[1:]
    return f"{path}.{small}" if path else small
