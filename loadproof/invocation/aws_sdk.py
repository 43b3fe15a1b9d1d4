"""AWS's SDK, which is the extra `[aws]`: imported when something is asked of AWS, and what lacks it says so."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from loadproof.errors import CouldNotRunError
from loadproof.invocation.outcomes import without_credentials

Client = Any  # boto3's: made of AWS's service models when it is asked for
NEEDS_EXTRA: Final = "AWS is asked by its SDK, which is an extra; install it: pip install 'loadproof[aws]'"


def sdk(module: str) -> Any:
    """boto3, or a module of botocore's. Raises CouldNotRunError where they are not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ("boto3", "botocore"):
            raise
        raise CouldNotRunError(NEEDS_EXTRA) from None


def guarded(client: Client) -> Client:
    """A client of boto3's whose errors quote no credential, though the server does; every one is made by this."""
    client.meta.events.register("after-call", _hide)
    client.meta.events.register("after-call-error", _not_aws)
    return client


def _hide(parsed: dict[str, object], **_: object) -> None:
    error = parsed.get("Error")
    if isinstance(error, dict):
        error |= {name: without_credentials(said) for name, said in error.items() if isinstance(said, str)}


def _not_aws(exception: Exception, **_: object) -> None:
    """What botocore cannot parse it raises with the whole body, and as no error of its own kind."""
    if isinstance(exception, sdk("botocore.parsers").ResponseParserError):
        raise sdk("botocore.exceptions").HTTPClientError(error="the answer is none of AWS's") from None


def aws_session(region: str | None = None) -> Any:
    """A boto3 session. Raises CouldNotRunError: no SDK, a named profile that is not there."""
    boto3, wrong = sdk("boto3"), sdk("botocore.exceptions").BotoCoreError
    try:
        return boto3.Session(region_name=region)
    except wrong as error:
        raise CouldNotRunError(
            f"{error}; set AWS_PROFILE to one of `aws configure list-profiles`, or unset it"
        ) from error
