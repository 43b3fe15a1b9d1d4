"""What moto's Lambda and SQS do differently from AWS and must not do here. Installed once a process."""

from __future__ import annotations

import json
from typing import Any

from emulator.queue import packages
from emulator.queue.functions import Functions

_functions: Functions | None = None


class _NoMappings:
    """moto runs mappings inside SendMessage, once a message and on the sender's time; the poller does it instead."""

    def __get__(self, queue: object, owner: type) -> dict[str, Any]:
        return {}

    def __set__(self, queue: object, value: object) -> None:
        """moto's own bookkeeping goes nowhere."""


def install(functions: Functions) -> None:
    """Point moto's Lambda at `functions`; a later call (a new local cloud in this process) replaces the earlier."""
    global _functions
    first, _functions = _functions is None, functions
    if not first:
        return
    from moto.awslambda.models import LambdaFunction
    from moto.sqs.models import Queue

    queue_class: Any = Queue
    queue_class.lambda_event_source_mappings = _NoMappings()
    function_class: Any = LambdaFunction
    layers_of = function_class._get_layers_data

    def layers_data(self: Any, arns: list[str]) -> list[dict[str, Any]]:
        """Public layers of other accounts: known ones are there, unknown ones fail as a missing layer does."""
        found: list[dict[str, Any]] = []
        for arn in arns:
            found += [{"Arn": arn, "CodeSize": 1}] if packages.is_provided(arn) else layers_of(self, [arn])
        return found

    function_class._get_layers_data = layers_data
    function_class._invoke_lambda = _invoke_lambda


def _invoke_lambda(self: Any, event: Any = None) -> tuple[str, bool, str]:
    """`aws lambda invoke` without Docker: (payload, errored, log) as moto expects them."""
    if _functions is None:
        raise RuntimeError("the queue poller is not started")
    event = json.loads(event) if isinstance(event, str) else event
    result = _functions.invoke(self, event)
    if result.error is not None:
        return json.dumps(result.error), True, str(result.error.get("errorMessage", ""))
    return json.dumps(result.value), False, ""
