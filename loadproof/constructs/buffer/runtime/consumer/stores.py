"""Calls to S3, DynamoDB and SQS: botocore tries once, and what is safe to repeat is repeated here."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from loadproof.wire.answers import code_of, passes, status_of

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_QUICK_S: Final = 3.0


class StoreDownError(Exception):
    """A store did not do what it was asked, for as long as there was time."""


class Time(Protocol):
    """The part of the consumer's clock that waiting needs."""

    def now_s(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    @property
    def drained(self) -> bool: ...


def persevere(name: str, call: Callable[[], T], clock: Time, until_s: float | None = None) -> T:
    """Call until it works or it is `until_s` (default: a few seconds from now). Only for what is safe to repeat.

    Raises StoreDownError; an answer that repeating cannot change (a condition, a right) passes through as ClientError.
    """
    end_s = clock.now_s() + _QUICK_S if until_s is None else until_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return call()
        except ClientError as error:
            if not passes(status_of(error), code_of(error)):
                raise
            cause = code_of(error) or "unknown"
        except BotoCoreError as error:
            cause = type(error).__name__
        if clock.now_s() + pause_s >= end_s or clock.drained:
            raise StoreDownError(f"{name} is down ({cause})")
        clock.sleep(random.uniform(pause_s / 2, pause_s))
        pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
