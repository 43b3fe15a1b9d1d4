"""AWS's SDK, which is the extra `[aws]`: imported when something is asked of AWS, and what lacks it says so."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from loadproof.errors import CouldNotRunError

NEEDS_EXTRA: Final = "AWS is asked by its SDK, which is an extra; install it: pip install 'loadproof[aws]'"


def sdk(module: str) -> Any:
    """boto3, or a module of botocore's. Raises CouldNotRunError where they are not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ("boto3", "botocore"):
            raise
        raise CouldNotRunError(NEEDS_EXTRA) from None


def aws_session(region: str | None = None) -> Any:
    """A boto3 session. Raises CouldNotRunError: no SDK, a named profile that is not there."""
    boto3, wrong = sdk("boto3"), sdk("botocore.exceptions").BotoCoreError
    try:
        return boto3.Session(region_name=region)
    except wrong as error:
        raise CouldNotRunError(
            f"{error}; set AWS_PROFILE to one of `aws configure list-profiles`, or unset it"
        ) from error
