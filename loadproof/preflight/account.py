"""What an account answers: every question asked once, in time, and an answer told apart from none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from loadproof.invocation.aws_errors import BotoCoreError, ClientError, HTTPClientError
from loadproof.invocation.endpoints import Client
from loadproof.preflight.rights import READS
from loadproof.wire.documents import Document, Json

CONNECT_S: Final = 3.0
READ_S: Final = 5.0  # for one call; with it, nothing that began in time ends later than this
_DENIED: Final = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "403")
_THROTTLED: Final = ("Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded")
_TRIES: Final = 3
_PAUSE_S: Final = 0.5
_SIDE_BY_SIDE: Final = 8
T = TypeVar("T")
U = TypeVar("U")
Params = Mapping[str, Json]


class UnseenError(Exception):
    """The account did not say: a right that is missing, no answer in time, or an answer nobody expected."""


class Account:
    """One account and region, asked by read-only calls until `until_s` of the monotonic clock.

    `client` makes a boto3 client of a service. Questions may come from several threads; the same one is asked once.
    """

    def __init__(
        self,
        client: Callable[[str], Client],
        *,
        account: str,
        region: str,
        until_s: float,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id, self.region = account, region
        self._make, self._until_s, self._clock_s, self._sleep = client, until_s, clock_s, sleep
        self._clients: dict[str, Client] = {}
        self._making, self._asking = threading.Lock(), threading.Lock()
        self._answers: dict[str, Future[Json]] = {}

    def read(
        self, service: str, operation: str, params: Params | None = None, absent: Collection[str] = ()
    ) -> Document | None:
        """The answer; None for an error, as `code: message`, that begins as one of `absent`: there is no such thing.

        Raises UnseenError for every other error.
        """

        def ask() -> Document:
            answer: Document = getattr(self._client(service), operation)(**params or {})
            return answer

        found: Document | None = self._once(service, operation, params or {}, absent, ask)
        return found

    def listed(
        self, service: str, operation: str, key: str, params: Params | None = None, absent: Collection[str] = ()
    ) -> list[Json]:
        """Everything under `key` of all pages; nothing for an error in `absent`. Raises UnseenError."""

        def ask() -> list[Json]:
            found: list[Json] = []
            for page in self._client(service).get_paginator(operation).paginate(**params or {}):
                found += page.get(key, [])
                self._in_time(service, operation)
            return found

        return self._once(service, operation, params or {}, absent, ask) or []

    def together(self, ask: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """The answers to one question about each of many, a few side by side. Raises UnseenError as the first does."""
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            return list(pool.map(ask, items))

    def _once(
        self, service: str, operation: str, params: Params, absent: Collection[str], ask: Callable[[], Json]
    ) -> Json:
        assert (service, operation) in READS, f"{service}.{operation}: add the right it needs to READS"
        name = f"{service} {operation} {sorted(params.items())} {sorted(absent)}"
        with self._asking:
            known = self._answers.get(name)
            if known is None:
                answer = self._answers[name] = Future()
        if known is not None:
            return known.result()
        try:
            answer.set_result(self._asked(service, operation, absent, ask))
        except BaseException as error:
            answer.set_exception(error)
        return answer.result()

    def _asked(self, service: str, operation: str, absent: Collection[str], ask: Callable[[], Json]) -> Json:
        right = READS[service, operation].action
        for attempt in range(_TRIES):
            self._in_time(service, operation)
            try:
                return ask()
            except ClientError as error:
                told = error.response.get("Error", {})
                code, message = told.get("Code", "?"), told.get("Message", "?")
                if f"{code}: {message}".startswith(tuple(absent)):
                    return None
                if code in _DENIED:
                    raise UnseenError(f"the right {right} is missing") from error
                if code not in _THROTTLED or attempt == _TRIES - 1:
                    raise UnseenError(f"{right} was answered by {code}: {message:.200}") from error
                self._sleep(_PAUSE_S * 2**attempt)
            except HTTPClientError as error:  # time-outs among them: a read may be asked again
                if attempt == _TRIES - 1:
                    raise UnseenError(f"{right} got no answer: {error}") from error
            except BotoCoreError as error:
                raise UnseenError(f"{right} could not be asked: {error}") from error
        raise AssertionError("every attempt returns or raises")

    def _in_time(self, service: str, operation: str) -> None:
        if self._clock_s() > self._until_s:
            raise UnseenError(f"there was no time left for {READS[service, operation].action}")

    def _client(self, service: str) -> Client:
        with self._making:  # boto3's sessions are not made for threads
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]
