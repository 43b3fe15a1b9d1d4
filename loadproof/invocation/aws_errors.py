"""What botocore raises, by names that can be caught where it is not installed, and so raises nothing."""

from __future__ import annotations

try:
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        HTTPClientError,
        NoCredentialsError,
        ParamValidationError,
    )
    from botocore.exceptions import ConnectionError as UnreachedError
except ModuleNotFoundError:

    class _NeverError(Exception):
        """Nobody is there to raise it."""

    BotoCoreError = ClientError = HTTPClientError = NoCredentialsError = ParamValidationError = UnreachedError = (
        _NeverError
    )

__all__ = [
    "BotoCoreError",
    "ClientError",
    "HTTPClientError",
    "NoCredentialsError",
    "ParamValidationError",
    "UnreachedError",
]
