"""One request from intent to record."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import sub
from typing import NamedTuple

from loadproof.invocation.budgets import LINE_OVERHEAD_BYTES, MOST_BODY_BYTES, MOST_ERROR_BYTES, Allowance, Memory
from loadproof.invocation.codecs.types import (
    Codec,
    Completion,
    GenerationRequest,
    StreamDecoder,
    TokenChunk,
    TokenSource,
)
from loadproof.invocation.connections import Timeouts
from loadproof.invocation.faults import BudgetFault, HttpProtocolFault, InvocationFault
from loadproof.invocation.outcomes import (
    Hide,
    Outcome,
    OutcomeKind,
    empty_answer,
    outcome_of_fault,
    outcome_of_status,
    without_prompt,
)
from loadproof.invocation.sockets import ClockNs
from loadproof.invocation.transports import Transport, Unwrapper

_ONE = array("q", [1])


@dataclass(frozen=True, slots=True)
class Invocation:
    """One request as it went. All times are `perf_counter_ns` of this process.

    `arrival_ns[i]` is when the i-th event with generated text was read, `arrival_tokens[i]` how many tokens it is known
    to carry (at least 1; their sum may be below `output_tokens`, the better figure where `token_source` is `server`).
    Both are empty for a request that did not stream; `sent_ns` is None if the request was never written.

    `read_lag_ns[i]` is how much later than it arrived that event was read. Where the kernel stamps arrivals, this lag
    is in no other time here. Events that were read together share the last one's arrival. All 0: not known.
    """

    intended_ns: int
    sent_ns: int | None
    first_token_ns: int | None
    last_token_ns: int | None
    end_ns: int
    arrival_ns: array[int]
    arrival_tokens: array[int]
    input_tokens: int | None
    output_tokens: int | None
    token_source: TokenSource
    text_length: int
    finish_reason: str | None
    outcome: Outcome
    read_lag_ns: array[int] = field(default_factory=lambda: array("q"))
    text: str | None = None  # the answer, where the request asked for it
    reasoning: str | None = None  # what came before it, where the server tells it apart


class UnderWay(NamedTuple):
    """One request in flight, as it is now. `tokens`: pieces of text so far; `last_ns`: when the newest one arrived."""

    sent_ns: int
    first_token_ns: int | None
    last_ns: int | None
    tokens: int


class Invoker:
    """Turns requests into invocations over one transport, in one codec; any number of them at a time."""

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        *,
        timeouts: Timeouts | None = None,
        clock_ns: ClockNs = time.perf_counter_ns,
        hide: Hide = str,
    ) -> None:
        """`hide` cuts out of a server's words what must not be told, as `addresses.hider` does."""
        self._transport = transport
        self._codec = codec
        self._timeouts = timeouts or Timeouts()
        self._clock_ns = clock_ns
        self._hide = hide
        self._memory = Memory()
        self._under_way: set[_Answer] = set()

    async def invoke(self, request: GenerationRequest, intended_ns: int | None = None) -> Invocation:
        """Send one request and read its answer to the end.

        Faults of the endpoint, the network and the payload are outcomes, never exceptions. Raises InputError for a
        prompt no JSON can carry. Exactly one HTTP request is made: the retry policy wraps this method, nothing below.
        """
        intended_ns = self._clock_ns() if intended_ns is None else intended_ns
        codec, stream = self._codec, request.stream
        body = codec.encode(request)
        answer = _Answer(
            codec.stream_decoder() if stream else None,
            self._transport.unwrapper(stream) if stream else None,
            Allowance(request.max_output_tokens, self._memory),
        )
        completion: Completion | None = None
        answer.texts = [] if request.keep_text else None
        self._under_way.add(answer)
        try:
            await self._transport.send(
                body,
                stream=stream,
                content_type=codec.content_type,
                accept=codec.accept(stream),
                receiver=answer,
                timeouts=self._timeouts,
            )
            completion, outcome = answer.complete(codec, self._hide)
        except InvocationFault as fault:
            refused = answer.refusal(self._hide) if isinstance(fault, BudgetFault) else None
            outcome = refused or outcome_of_fault(fault, answer.status, self._hide)
        finally:
            answer.let_go()
            self._under_way.discard(answer)
        if not outcome.ok:
            outcome = without_prompt(outcome, request.prompt)
        return self._record(intended_ns, answer, completion, outcome)

    async def warm(self, count: int) -> None:
        """Open `count` connections ahead. Raises InvocationFault, a message for people."""
        await self._transport.warm(count, self._timeouts)

    def waiting_for_first_token(self) -> int:
        """How many requests are under way without a token yet."""
        return sum(not answer.arrival_ns for answer in self._under_way)

    def under_way(self) -> list[UnderWay]:
        """All requests that were sent and have not ended."""
        self._transport.hand_over()
        return [answer.so_far() for answer in self._under_way if answer.sent_ns is not None]

    def cancel_all(self) -> None:
        """End all requests in flight; each is recorded as `canceled` with the tokens it had."""
        self._transport.cancel_all()

    async def close(self) -> None:
        await self._transport.close()

    def _record(self, intended_ns: int, answer: _Answer, completion: Completion | None, outcome: Outcome) -> Invocation:
        arrivals = answer.arrival_ns
        counted = sum(answer.arrival_tokens)
        return Invocation(
            intended_ns=intended_ns,
            sent_ns=answer.sent_ns,
            first_token_ns=arrivals[0] if arrivals else None,
            last_token_ns=arrivals[-1] if arrivals else None,
            # An answer ends when its last byte arrives, not when this task's turn comes.
            end_ns=answer.last_byte_ns if outcome.ok and answer.last_byte_ns else self._clock_ns(),
            arrival_ns=arrivals,
            arrival_tokens=answer.arrival_tokens,
            input_tokens=completion.input_tokens if completion else None,
            output_tokens=completion.output_tokens if completion else counted or None,
            token_source=completion.token_source if completion else "chunks" if counted else "none",
            text_length=completion.text_length if completion else answer.text_length,
            finish_reason=completion.finish_reason if completion else None,
            outcome=outcome,
            read_lag_ns=answer.read_lag_ns,
            text=_text(answer, completion),
            reasoning=_reasoning(answer, completion),
        )


class _Answer:
    """Receiver of one answer; all of it runs while its bytes are read."""

    __slots__ = (
        "_allowance",
        "_body",
        "_decoder",
        "_error_type",
        "_location",
        "_look_at_bytes",
        "_received_bytes",
        "_retry_after",
        "_text_bytes",
        "_unwrapper",
        "arrival_ns",
        "arrival_tokens",
        "last_byte_ns",
        "read_lag_ns",
        "sent_ns",
        "status",
        "text_length",
        "texts",
        "thoughts",
    )

    def __init__(self, decoder: StreamDecoder | None, unwrapper: Unwrapper | None, allowance: Allowance) -> None:
        self._decoder = decoder
        self._unwrapper = unwrapper
        self._allowance = allowance
        self._received_bytes = self._text_bytes = 0
        self._look_at_bytes = allowance.granted_bytes  # no more than came can be kept: below this nobody has to look
        self._body = bytearray()
        self._error_type = ""
        self._location = self._retry_after = ""
        self.status: int | None = None
        self.sent_ns: int | None = None
        self.last_byte_ns = 0
        self.arrival_ns = array("q")
        self.arrival_tokens = array("q")
        self.read_lag_ns = array("q")
        self.text_length = 0
        self.texts: list[str] | None = None
        self.thoughts: list[str] = []

    def on_sent(self, now_ns: int) -> None:
        self.sent_ns = now_ns

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self._error_type = headers.get("x-amzn-errortype", "")
        self._location = headers.get("location", "")
        self._retry_after = headers.get("retry-after", "")
        if not 200 <= status < 300:
            self._decoder = None  # an error comes as one plain body, also to a streaming request
        elif (encoding := headers.get("content-encoding", "identity").lower()) != "identity":
            raise HttpProtocolFault(f"the answer is encoded as `{encoding[:40]}`, though only identity was accepted")

    def on_bodies(self, arrived_ns: Sequence[int], read_ns: Sequence[int], bodies: Sequence[bytes]) -> bool:
        """A first token is not kept waiting."""
        self.last_byte_ns = arrived_ns[-1]
        self._received_bytes += sum(map(len, bodies))
        decoder = self._decoder
        if decoder is None:
            for body in bodies:
                self._keep_body(body)
            return False
        self._decode(decoder, bodies, arrived_ns, [*map(sub, read_ns, arrived_ns)])
        if self._received_bytes > self._look_at_bytes:
            self._look(decoder)
        return bool(self.arrival_ns)

    def _keep_body(self, data: bytes) -> None:
        self._allowance.take(self._received_bytes)
        if self.refused:
            self._body += data[: MOST_ERROR_BYTES - len(self._body)]  # of an error's long story the beginning
        else:
            self._body += data
            if len(self._body) > MOST_BODY_BYTES:
                raise BudgetFault("AnswerTooLong", f"the answer is longer than {MOST_BODY_BYTES:,} bytes")
        self._allowance.keep(len(self._body))

    def _look(self, decoder: StreamDecoder) -> None:
        """See what is really kept of all that came, and have it granted. Raises BudgetFault."""
        self._allowance.take(self._received_bytes)
        unwrapped = 0 if self._unwrapper is None else self._unwrapper.kept_bytes
        kept_bytes = decoder.kept_bytes + unwrapped + self._text_bytes
        self._allowance.keep(kept_bytes)
        self._look_at_bytes = self._received_bytes + self._allowance.granted_bytes - kept_bytes

    def let_go(self) -> None:
        """Nothing of it is kept any more."""
        self._allowance.keep(0)

    def _decode(
        self, decoder: StreamDecoder, reads: Sequence[bytes], arrived_ns: Sequence[int], lag_ns: Sequence[int]
    ) -> None:
        unwrapper, at = self._unwrapper, 0
        while at < len(reads) and len(self.arrival_ns) <= self._allowance.events:
            if unwrapper is None:
                self._take(decoder, reads, arrived_ns, lag_ns)
                break
            parts, of = unwrapper.usual_parts(reads, at)
            if parts:
                self._take(decoder, parts, _times(arrived_ns, of), _times(lag_ns, of))
                at = of[-1] + 1
            else:
                for part in unwrapper.feed(reads[at]):
                    self._take(decoder, (part,), (arrived_ns[at],), (lag_ns[at],))
                at += 1
        self._allowance.count(len(self.arrival_ns))

    def _take(
        self, decoder: StreamDecoder, parts: Sequence[bytes], arrived_ns: Sequence[int], lag_ns: Sequence[int]
    ) -> None:
        """Decode parts with their times; what is usual all at once."""
        at = 0
        while at < len(parts):
            texts, of = decoder.usual_texts(parts, at)
            if not of:
                self._take_unusual(decoder.feed(parts[at]), arrived_ns[at], lag_ns[at])
                at += 1
                continue
            self.arrival_ns.extend(_times(arrived_ns, of))
            self.read_lag_ns.extend(_times(lag_ns, of))
            self.arrival_tokens.extend(_ONE * len(of))
            self.text_length += sum(map(len, texts))
            if self.texts is not None:
                for text in texts:
                    self._keep_text(self.texts, text, "")
            at = of[-1] + 1

    def _take_unusual(self, chunks: Iterable[TokenChunk], arrived_ns: int, lag_ns: int) -> None:
        for text, tokens, thought in chunks:
            self.arrival_ns.append(arrived_ns)
            self.read_lag_ns.append(lag_ns)
            self.arrival_tokens.append(tokens)
            self.text_length += len(text)
            if self.texts is not None:
                self._keep_text(self.texts, text.removesuffix(thought), thought)
            self._allowance.count(len(self.arrival_ns))

    def _keep_text(self, texts: list[str], said: str, thought: str) -> None:
        texts.append(said)
        if thought:
            self.thoughts.append(thought)
        self._text_bytes += len(said) + len(thought) + LINE_OVERHEAD_BYTES

    def so_far(self) -> UnderWay:
        assert self.sent_ns is not None
        arrivals = self.arrival_ns
        first_ns, last_ns = (arrivals[0], arrivals[-1]) if arrivals else (None, None)
        return UnderWay(self.sent_ns, first_ns, last_ns, len(arrivals))

    @property
    def refused(self) -> bool:
        return self.status is not None and not 200 <= self.status < 300

    def refusal(self, hide: Hide) -> Outcome | None:
        """What an error's status and the beginning of its body say; None for any other answer."""
        if self.status is None or not self.refused:
            return None
        outcome = outcome_of_status(self.status, self._error_type, bytes(self._body), self._location, hide)
        return replace(outcome, retry_after_s=_seconds(self._retry_after))

    def complete(self, codec: Codec, hide: Hide) -> tuple[Completion | None, Outcome]:
        """What the whole answer amounts to. Raises InvocationFault."""
        assert self.status is not None
        if refusal := self.refusal(hide):
            return None, refusal
        if self._decoder is None:
            completion = codec.decode_unary(bytes(self._body))
        else:
            if self._unwrapper is not None:
                self._unwrapper.finish()
            completion = self._decoder.finish()
        return completion, _judge(completion, self.status)


def _times(times: Sequence[int], of: Sequence[int]) -> Sequence[int]:
    """The time of each place in `of`, which rises."""
    if len(of) == len(times) == of[-1] + 1:  # every one once
        return times
    return [times[place] for place in of]


def _text(answer: _Answer, completion: Completion | None) -> str | None:
    if answer.texts is None:  # not asked for
        return None
    return "".join(answer.texts) or (completion.text if completion else None) or None


def _reasoning(answer: _Answer, completion: Completion | None) -> str | None:
    if answer.texts is None:
        return None
    return "".join(answer.thoughts) or (completion.thought if completion else None) or None


def _seconds(retry_after: str) -> float:
    """0 for a date, which a client and a server may read differently, and for nonsense."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 7 else 0.0


def _judge(completion: Completion, status: int) -> Outcome:
    """An answer with neither a token nor the server's word that none was generated is not a success."""
    if completion.text_length == 0 and completion.token_source == "none":
        return empty_answer(status, completion.finish_reason)
    return Outcome(OutcomeKind.OK, status)
