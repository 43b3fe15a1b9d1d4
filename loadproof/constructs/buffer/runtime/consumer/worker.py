"""The life of one message: read, claim, invoke, put, done, callback. Each step may be the last before a crash.

Deleting is what follows a returned `Ending` other than RELEASED; Lambda does it. What was sent on is deleted at once.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from loadproof.wire.answers import code_of
from loadproof.wire.documents import Document
from loadproof.wire.message import REQUESTS_PREFIX, MalformedError, Message, key_of, read_message, read_request

from .callbacks import Callbacks
from .claims import Claim, Taken
from .clock import Clock
from .context import too_long
from .deliveries import Delivery, TooLargeError
from .emf import Metrics
from .generation import CutOffError, ExpiredError, Generation, Limits, NotNowError, PoisonError
from .lease import Lease
from .settings import Settings
from .stores import StoreDownError

STORE_MARGIN_S: Final = 10.0  # kept back from the function's time, for what follows the last answer
_KEPT_CLAIM_S: Final = 900.0  # how long an answer that could not be stored keeps others from generating it again
_HELD_PATIENCE_S: Final = 3.0
_NO_ROOM_S: Final = 900.0  # what can only be given back spends a receive each time, and these are for crashes
_LONGEST_WAIT_S: Final = 60.0


class Ending(StrEnum):
    """What became of a message."""

    STORED = "stored"
    DUPLICATE = "duplicate"  # its result was there
    POSTPONED = "postponed"  # sent anew
    DEAD_LETTERED = "dead-lettered"
    RELEASED = "released"  # not deleted: it comes back


class _NoRoomError(StoreDownError):
    """Too long to be sent on as it is, and the bucket does not take its request."""


class Stores(Protocol):
    """Claims, as `claims.Claims` has them in DynamoDB."""

    def take(self, key: str, owner: str, lease_s: float) -> Taken: ...
    def renew(self, claim: Claim, lease_s: float) -> bool: ...
    def release(self, claim: Claim) -> bool: ...
    def done(self, key: str) -> None: ...
    def reopen(self, key: str) -> None: ...


class Bucket(Protocol):
    """Results, as `results.Results` has them in S3."""

    def uri(self, key: str) -> str: ...
    def exists(self, key: str) -> bool: ...
    def put(self, key: str, result: Document, *, until_s: float) -> bool: ...
    def read_request(self, place: str) -> str: ...
    def leave_request(self, place: str, request: Document) -> None: ...


class Leaving(Protocol):
    """The queue, as `deliveries.Queue` has it in SQS."""

    def hide(self, receipts: list[str], seconds: float) -> None: ...
    def delete(self, receipt: str) -> None: ...
    def postpone(self, delivery: Delivery, body: str, delay_s: float) -> None: ...
    def dead_letter(self, delivery: Delivery, body: str, reason: str, attempts: int) -> None: ...


Note = Callable[..., None]  # note(event, letter, **facts): for the log


@dataclass(frozen=True, slots=True)
class Ports:
    """What a worker works with."""

    queue: Leaving
    claims: Stores
    results: Bucket
    generation: Generation
    lease: Lease
    callbacks: Callbacks
    clock: Clock
    metrics: Metrics
    note: Note


@dataclass(slots=True)
class _Turn:
    """One message in hand."""

    delivery: Delivery
    end_s: float
    slot: int
    message: Message | None = None
    key: str = ""
    claim: Claim | None = None


class Worker:
    """Serves messages; one instance for all threads of a process."""

    def __init__(self, settings: Settings, ports: Ports) -> None:
        self._settings = settings
        self._ports = ports
        self._unsaved: dict[str, Document] = {}  # answers that the store would not take yet

    def serve(self, delivery: Delivery, *, end_s: float, slot: int = 0) -> Ending:
        """Bring one message to an end by `end_s` (Unix time), after which the function has no time left."""
        turn = _Turn(delivery, end_s - STORE_MARGIN_S, slot)
        try:
            ending = self._serve(turn)
        except (MalformedError, PoisonError) as error:
            ending = self._dead_letter(turn, error)
        except NotNowError as error:
            ending = self._postpone(turn, str(error), error.delay_s)
        except CutOffError:
            ending = self._release(turn, "the consumer stops")
        except (StoreDownError, ClientError) as error:
            ending = self._postpone(turn, _words_of(error), random.uniform(5, 30))
        self._ports.lease.end(delivery.receipt)
        self._ports.metrics.add("Age", self._age_s(turn))
        return ending

    def settle(self) -> bool:
        """Store what could not be stored before; False while that is still so, and nothing more is generated."""
        for key, result in list(self._unsaved.items()):
            try:
                self._ports.results.put(key, result, until_s=self._ports.clock.now_s())
                self._ports.claims.done(key)
            except (StoreDownError, ClientError):
                return False
            self._unsaved.pop(key, None)
        return True

    def _serve(self, turn: _Turn) -> Ending:
        if self._ports.clock.stopping:
            raise CutOffError
        message = turn.message = read_message(turn.delivery.body)
        self._ports.callbacks.check(message.callback)
        request = None if message.key is not None else self._request(message)
        turn.key = message.key or key_of(request or {}, self._settings.revision)
        unsaved = self._unsaved.get(turn.key)
        if unsaved is not None:
            return self._store(turn, unsaved)
        claim = self._claim(turn)
        if claim is None or (not claim.fresh and self._ports.results.exists(turn.key)):
            self._ports.metrics.add("DuplicatesAvoided")
            if claim is not None:
                self._done(turn)
            return self._reported(turn, Ending.DUPLICATE)
        if not self.settle():
            raise NotNowError("the results bucket is down", random.uniform(5, 30))
        return self._store(turn, self._generate(turn, request or self._request(message), claim))

    def _request(self, message: Message) -> Document:
        if message.request is not None:
            return dict(message.request)
        assert message.request_s3 is not None  # one of the two is there
        return read_request(self._ports.results.read_request(message.request_s3))

    def _claim(self, turn: _Turn) -> Claim | None:
        """The key's claim, or None when its result is there. Raises NotNowError while somebody else holds it."""
        ports, owner = self._ports, uuid.uuid4().hex
        while True:
            taken = ports.claims.take(turn.key, owner, self._settings.lease_s)
            if taken.state == "ours":
                turn.claim = taken.claim
                assert taken.claim is not None
                ports.lease.hold(turn.delivery.receipt, taken.claim)
                return taken.claim
            if taken.state == "done":
                if ports.results.exists(turn.key):
                    return None
                ports.claims.reopen(turn.key)
                continue
            wait_s = max(0.0, taken.free_s - ports.clock.now_s()) + 0.1
            if wait_s > _HELD_PATIENCE_S or ports.clock.stopping:
                raise NotNowError("its key is worked on elsewhere", min(wait_s, _LONGEST_WAIT_S) + random.uniform(0, 2))
            ports.clock.sleep(wait_s)

    def _generate(self, turn: _Turn, request: Document, claim: Claim) -> Document:
        """The result to store. Raises PoisonError, NotNowError, CutOffError."""
        ports, settings, message = self._ports, self._settings, turn.message
        assert message is not None
        now_s = ports.clock.now_s()
        reason = too_long(request, settings.context_tokens)
        if reason:
            raise PoisonError(reason)
        limits = Limits(
            end_s=turn.end_s - settings.idle_timeout_s,
            latest_start_s=turn.end_s - settings.idle_timeout_s - settings.timeout_s,
            deadline_s=message.deadline_ms / 1000 if message.deadline_ms is not None else None,
            low_priority=message.priority == "low",
            keep_until_s=turn.delivery.first_sent_ms / 1000 + settings.retention_s,
        )
        if claim.fresh:
            ports.metrics.add("QueueWait", self._age_s(turn))
        answer = ports.generation.answer(request, claim, limits, turn.slot)
        return {
            "schema_version": 1,
            "key": turn.key,
            "message_id": turn.delivery.message_id,
            "endpoint": settings.endpoint,
            "component": settings.component,
            "model_revision": settings.revision,
            "duration_ms": round((ports.clock.now_s() - now_s) * 1000, 3),
            "answer": answer,
        }

    def _store(self, turn: _Turn, result: Document) -> Ending:
        """The conditional put decides between two that answered the same key: the first one stays."""
        ports = self._ports
        try:
            first = ports.results.put(turn.key, result, until_s=turn.end_s)
        except (StoreDownError, ClientError):
            self._unsaved[turn.key] = result
            self._keep(turn)
            raise
        self._unsaved.pop(turn.key, None)
        if first:
            ports.metrics.add("Stored")
        else:
            ports.metrics.add("WastedGenerations")
        self._done(turn)
        return self._reported(turn, Ending.STORED if first else Ending.DUPLICATE)

    def _done(self, turn: _Turn) -> None:
        self._ports.lease.finish(turn.delivery.receipt)
        self._ports.claims.done(turn.key)
        turn.claim = None

    def _keep(self, turn: _Turn) -> None:
        """The answer stays in this process, and its claim away from others, until the store takes it."""
        claim, turn.claim = turn.claim, None
        if claim is None:
            return
        self._ports.lease.finish(turn.delivery.receipt)
        try:
            self._ports.claims.renew(claim, _KEPT_CLAIM_S)
        except (StoreDownError, ClientError) as error:
            self._ports.note("claim not kept", turn.delivery, cause=_words_of(error))

    def _reported(self, turn: _Turn, ending: Ending) -> Ending:
        message, ports = turn.message, self._ports
        if message is not None and message.callback is not None:
            ports.callbacks.tell(message.callback, turn.key, ports.results.uri(turn.key))
        ports.note("answered", turn.delivery, ending=ending, key=turn.key)
        return ending

    def _dead_letter(self, turn: _Turn, error: MalformedError | PoisonError) -> Ending:
        """To the dead-letter queue, then the claim is free again for whoever redrives it."""
        attempts = turn.claim.attempts if turn.claim is not None else 0
        reason = str(error)
        try:
            self._send_off(turn, lambda body: self._ports.queue.dead_letter(turn.delivery, body, reason, attempts))
        except (StoreDownError, ClientError) as down:
            return self._release(turn, _words_of(down), seconds=_patience_s(down, self._settings.lease_s))
        except TooLargeError:
            return self._release(turn, reason)  # not to be shortened: SQS moves it after its receives, without a reason
        if turn.claim is not None:
            turn.claim.attempts = turn.claim.suspicion = 0
        self._let_go(turn)
        self._ports.metrics.add("Expired" if isinstance(error, ExpiredError) else "Poisoned")
        self._ports.note("dead-lettered", turn.delivery, reason=reason, attempts=attempts)
        return Ending.DEAD_LETTERED

    def _postpone(self, turn: _Turn, reason: str, delay_s: float) -> Ending:
        """Sent anew; but a message does not live longer than the buffer's retention, however often that happens."""
        if self._age_s(turn) > self._settings.retention_s:
            return self._dead_letter(turn, ExpiredError(f"older than the buffer's retention, and {reason}"))
        self._let_go(turn)
        try:
            self._send_off(turn, lambda body: self._ports.queue.postpone(turn.delivery, body, delay_s))
        except (StoreDownError, ClientError, TooLargeError) as error:
            return self._release(turn, _words_of(error), seconds=_patience_s(error, delay_s))
        self._ports.metrics.add("Postponed")
        self._ports.note("postponed", turn.delivery, reason=reason, delay_s=round(delay_s, 1))
        return Ending.POSTPONED

    def _send_off(self, turn: _Turn, send: Callable[[str], None]) -> None:
        """The body as it came; where what is added makes it too long for the queue, with its request in the bucket."""
        try:
            send(turn.delivery.body)
        except TooLargeError:
            if turn.message is None or turn.message.request is None:
                raise
            send(self._shortened(turn.delivery.body, self._request(turn.message), turn.key))
        try:
            self._ports.queue.delete(turn.delivery.receipt)
        except (ClientError, BotoCoreError) as error:  # then it is deleted with its batch
            self._ports.note("not deleted at once", turn.delivery, cause=type(error).__name__)

    def _shortened(self, body: str, request: Document, key: str) -> str:
        place = f"{REQUESTS_PREFIX}{key_of(request, self._settings.revision)}"
        try:
            self._ports.results.leave_request(place, request)
        except StoreDownError as down:
            raise _NoRoomError(str(down)) from None
        content = json.loads(body)
        del content["request"]
        return json.dumps(content | {"request_s3": place} | ({"key": key} if key else {}))

    def _release(self, turn: _Turn, reason: str, seconds: float = 0) -> Ending:
        """Give the message back, with the key free for whoever gets it."""
        self._ports.note("released", turn.delivery, reason=reason)
        turn.claim = None
        self._ports.lease.give_back([turn.delivery.receipt], seconds)
        return Ending.RELEASED

    def _let_go(self, turn: _Turn) -> None:
        self._ports.lease.finish(turn.delivery.receipt)
        claim, turn.claim = turn.claim, None
        if claim is None:
            return
        try:
            self._ports.claims.release(claim)
        except (StoreDownError, ClientError) as error:  # then its lease ends by itself
            self._ports.note("claim not released", turn.delivery, cause=_words_of(error))

    def _age_s(self, turn: _Turn) -> float:
        return max(0.0, self._ports.clock.now_s() - turn.delivery.first_sent_ms / 1000)


def _patience_s(error: Exception, seconds: float) -> float:
    """How long a message that could not be sent on stays hidden."""
    return max(seconds, _NO_ROOM_S) if isinstance(error, _NoRoomError) else seconds


def _words_of(error: Exception) -> str:
    """For the log: a code or a type, never a text that AWS may have made of what was sent."""
    return f"refused with {code_of(error)}" if isinstance(error, ClientError) else str(error)
