"""Which runtimes Lambda takes: those of its model, until the day that AWS's table of runtimes names."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from functools import cache
from typing import Literal

from moto.core.utils import get_service_model

from loadproof.localcloud.controlplane.cloudformation.schemas import lint_data
from loadproof.localcloud.refusals.functions.lookup import INVALID
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document

Block = Literal["create-block", "update-block"]


def check_runtime(runtime: str | None, block: Block) -> None:
    """Raises AwsError for one that is unknown, or that no function may be made with, or changed, any more."""
    if runtime is None:
        return
    known = get_service_model("lambda").shape_for("Runtime").enum
    today = datetime.now(UTC).date()
    if runtime not in known:
        valid = ", ".join(one for one in known if not blocked(one, block, today))
        message = f"Value {runtime} at 'runtime' failed to satisfy constraint: Member must satisfy enum value set: "
        raise AwsError(INVALID, f"{message}[{valid}] or be a valid ARN")
    if blocked(runtime, block, today):
        raise AwsError(
            INVALID,
            f"The runtime parameter of {runtime} is no longer supported for creating or updating AWS Lambda functions. "
            "We recommend you use a supported runtime while creating or updating functions.",
        )


def blocked(runtime: str, block: Block, on: date) -> bool:
    """A runtime is deprecated long before AWS refuses it, and AWS has moved that day more than once."""
    named = _lifecycles().get(runtime, {}).get(block)
    return named is not None and on >= date.fromisoformat(named)


@cache
def _lifecycles() -> Document:
    """https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html, as cfn-lint carries it."""
    return dict(json.loads((lint_data() / "AdditionalSpecs" / "LmbdRuntimeLifecycle.json").read_text("utf-8")))
