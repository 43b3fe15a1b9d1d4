"""A custom resource's side of CloudFormation: a function of ours is asked, and answers once, at a one-time address.

Protocol: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref.html
"""

from __future__ import annotations

import json
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

MOST_REASON_BYTES = 1000  # an answer has at most 4096
SPARE_S = 10.0  # of the function's time, kept for the answer
PAUSES_S = (1, 2, 4, 8)
PATIENCE_S, POLL_S = 120.0, 5.0
# What a model may answer whose copy has only just started, or whose quota others use just now.
NOT_YET = {
    "InternalDependencyException",
    "InternalFailure",
    "InternalServerException",
    "ModelNotReadyException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "ThrottlingException",
}


class RefusedError(RuntimeError):
    """It cannot be done. Its words are the whole reason."""


class NotReadyError(Exception):
    """Nothing can be answered yet: the function fails, and Lambda runs it again with the same event, twice."""


def respond(
    event: dict[str, Any], context: Any, physical_id: str, work: Callable[[], dict[str, Any] | None], fault: str
) -> None:
    """Answer with the data that `work` returns, or with what it raised after `fault`; None: somebody else answers.

    A silent function would hold the stack for an hour: where the time of `context` runs out, that is the answer.
    """
    once = threading.Lock()

    def tell(reason: str, data: dict[str, Any] | None = None) -> None:
        if once.acquire(blocking=False):
            answer(event, physical_id, reason, data)

    left_s = context.get_remaining_time_in_millis() / 1000 if context else 0.0
    guard = threading.Timer(left_s - SPARE_S, tell, (f"{fault}: the function's time is over",))
    if context:
        guard.start()
    try:
        data = work()
    except NotReadyError:
        raise
    except Exception as error:
        traceback.print_exc()
        tell(str(error) if isinstance(error, RefusedError) else f"{fault}: {type(error).__name__}: {error}")
    else:
        if data is not None:
            tell("", data)
    finally:
        guard.cancel()


def answer(event: dict[str, Any], physical_id: str, reason: str = "", data: dict[str, Any] | None = None) -> None:
    """Tell CloudFormation. With a `reason` it has failed."""
    body = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    body |= {"Status": "FAILED" if reason else "SUCCESS", "PhysicalResourceId": physical_id, "Data": data or {}}
    put(event["ResponseURL"], body | {"Reason": reason.encode()[:MOST_REASON_BYTES].decode(errors="ignore")})


def put(url: str, body: dict[str, Any]) -> None:
    """Repeated where the network fails; an address that refuses is used up."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": ""}, method="PUT")
    for pause_s in (*PAUSES_S, None):
        try:
            urllib.request.urlopen(request, timeout=30).close()
            return
        except OSError as error:
            if pause_s is None or getattr(error, "code", 500) < 500:
                raise
            time.sleep(pause_s)


def with_retries(ask: Callable[[], Any]) -> Any:
    """Ask AWS. New rights may take a minute to hold."""
    for _ in range(12):
        try:
            return ask()
        except Exception as error:
            if "AccessDenied" not in getattr(error, "response", {}).get("Error", {}).get("Code", ""):
                raise
            time.sleep(5)
    return ask()


def once_ready(ask: Callable[[], Any]) -> Any:
    """Ask a model. What is only not ready yet is asked again for a while; then its last answer is raised."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return with_retries(ask)
        except Exception as error:
            said = getattr(error, "response", {})
            not_yet = said.get("OriginalStatusCode") in (429, 503) or said.get("Error", {}).get("Code") in NOT_YET
            if not not_yet or time.monotonic() > until_s:
                raise
            time.sleep(POLL_S)


def rolling_back(cloudformation: Any, stack_id: str) -> bool:
    """The stack is on its way back: the old state is not there yet, and a rollback that fails helps nobody."""
    found = with_retries(lambda: cloudformation.describe_stacks(StackName=stack_id))
    return "ROLLBACK" in found["Stacks"][0]["StackStatus"]
