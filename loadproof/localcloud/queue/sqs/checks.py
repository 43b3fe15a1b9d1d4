"""Requests have the types of SQS's API before an operation sees them. Constraints are the operations' own affair."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.model import Shape
from moto.core.utils import get_service_model

from loadproof.localcloud.queue.sqs.errors import missing
from loadproof.localcloud.wire import AwsError, Params, fits


def check_types(action: str, params: Params) -> None:
    """Raises for an unknown operation, a required parameter that is missing and a value of a wrong type."""
    shapes = _shapes()
    if action not in shapes:
        raise AwsError("UnknownOperationException", f"SQS has no operation {action or '(none)'}.")
    if shapes[action] is None:
        return
    for fault in _faults(shapes[action], params, ""):
        raise fault


@cache
def _shapes() -> dict[str, Shape]:
    model = get_service_model("sqs")
    return {name: model.operation_model(name).input_shape for name in model.operation_names}


def _faults(shape: Shape, value: Any, path: str) -> Iterator[AwsError]:
    kind: str = shape.type_name
    if value is None:
        return
    if not fits(kind, value):
        yield AwsError("SerializationException", f"{path or 'The request'} must be of type {kind}.")
    elif kind == "structure":
        for name in shape.required_members:
            if value.get(name) is None:
                yield missing(f"{path}.{name}" if path else name)
        for name, member in shape.members.items():
            if name in value:
                yield from _faults(member, value[name], f"{path}.{name}" if path else name)
    elif kind == "list":
        for index, item in enumerate(value, 1):
            yield from _faults(shape.member, item, f"{path}.{index}")
    elif kind == "map":
        for key, item in value.items():
            yield from _faults(shape.value, item, f"{path}.{key}")
