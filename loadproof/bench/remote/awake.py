"""A benchmark that nobody watches waits for its endpoint, which scaling may have put to sleep or be changing just now.

Whoever starts one by hand sees "no capacity" and tries again; a gate would roll a deployment back for it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from loadproof.bench.connect import service_url
from loadproof.bench.spec import Target
from loadproof.invocation.aws_errors import BotoCoreError, ClientError
from loadproof.invocation.endpoints import Client, TargetDescription, aws_client, describe_with
from loadproof.profiles.gating import WAKING_S

POLL_S: Final = 5.0
# An alarm hears a refusal within about a minute. Each further one might add a copy that nobody needs.
_ASK_AGAIN_S: Final = 240.0
_MOVING: Final = ("Creating", "Updating", "SystemUpdating", "RollingBack")


def await_serving(target: Target) -> None:
    """Return once the target serves; wakes a component that sleeps, by a request that is refused.

    Returns after `WAKING_S` too, and for whatever waiting cannot mend: what comes next says what is wrong. Raises
    CouldNotRunError for an endpoint that is not there.
    """
    if target.kind != "sagemaker":
        return
    region = target.region or ""
    sagemaker = aws_client("sagemaker", region, service_url("SAGEMAKER"))
    runtime = aws_client("sagemaker-runtime", region, target.endpoint_url)
    began_s = time.monotonic()
    asked_s = -_ASK_AGAIN_S
    while time.monotonic() - began_s < WAKING_S:
        found = describe_with(sagemaker, target.endpoint, target.component)
        asleep = _asleep(found)
        if not asleep and not _moves(found):
            return
        if asleep and time.monotonic() - asked_s >= _ASK_AGAIN_S:
            asked_s = time.monotonic()
            _knock(runtime, target)
        time.sleep(POLL_S)


def _asleep(found: TargetDescription) -> bool:
    return any(one.copies == 0 and one.status == "InService" for one in found.components)


def _moves(found: TargetDescription) -> bool:
    return any(status in _MOVING for status in (found.status, *(one.status for one in found.components)))


def _knock(runtime: Client, target: Target) -> None:
    """A request in vain: its refusal is what the alarm that wakes the component counts."""
    with suppress(ClientError, BotoCoreError):
        runtime.invoke_endpoint(
            EndpointName=target.endpoint,
            InferenceComponentName=target.component,
            ContentType="application/json",
            Body=b"{}",
        )
