"""One request from intent to record."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
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
_READS_AT_ONCE = 64  # half a second of a usual stream, and at most 2 MB


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
    ) -> None:
        self._transport = transport
        self._codec = codec
        self._timeouts = timeouts or Timeouts()
        self._clock_ns = clock_ns
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
            completion, outcome = answer.complete(codec)
        except InvocationFault as fault:
            refused = answer.refusal() if isinstance(fault, BudgetFault) else None
            outcome = refused or outcome_of_fault(answer.fault_read_before() or fault, answer.status)
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
        "_read_arrived_ns",
        "_read_lag_ns",
        "_reads",
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
        self._reads: list[bytes] = []  # not decoded yet
        self._read_arrived_ns, self._read_lag_ns = array("q"), array("q")
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

    def on_body(self, arrived_ns: int, read_ns: int, data: bytes) -> None:
        self.last_byte_ns = arrived_ns
        self._received_bytes += len(data)
        decoder = self._decoder
        if decoder is None:
            self._keep_body(data)
            return
        self._reads.append(data)
        self._read_arrived_ns.append(arrived_ns)
        self._read_lag_ns.append(read_ns - arrived_ns)
        # Going through one answer's state once for many reads, not once for each, is what lets one core keep up with a
        # thousand streams. A first token and what may be an error are not kept waiting.
        if (
            len(self._reads) >= _READS_AT_ONCE
            or not self.arrival_ns
            or data.find(b"rror") >= 0  # `in` costs bytes an exception inside
            or data.find(b"xception") >= 0
        ):
            self._decode(decoder)
        if self._received_bytes > self._look_at_bytes:
            self._look(decoder)

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
        self._decode(decoder)
        unwrapped = 0 if self._unwrapper is None else self._unwrapper.kept_bytes
        kept_bytes = decoder.kept_bytes + unwrapped + self._text_bytes
        self._allowance.keep(kept_bytes)
        self._look_at_bytes = self._received_bytes + self._allowance.granted_bytes - kept_bytes

    def let_go(self) -> None:
        """Nothing of it is kept any more."""
        self._allowance.keep(0)

    def _decode(self, decoder: StreamDecoder) -> None:
        reads, arrived_ns, lag_ns = self._reads, self._read_arrived_ns, self._read_lag_ns
        self._reads, self._read_arrived_ns, self._read_lag_ns = [], array("q"), array("q")
        unwrapper, at = self._unwrapper, 0
        while at < len(reads) and len(self.arrival_ns) <= self._allowance.events:
            if unwrapper is None:
                self._take(decoder, reads, arrived_ns, lag_ns)
                break
            parts, of = unwrapper.usual_parts(reads, at)
            if parts:
                self._take(decoder, parts, [arrived_ns[read] for read in of], [lag_ns[read] for read in of])
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
            self.arrival_ns.extend([arrived_ns[part] for part in of])
            self.read_lag_ns.extend([lag_ns[part] for part in of])
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
        """Reads that are not decoded yet count as a token each."""
        assert self.sent_ns is not None
        arrived = self._read_arrived_ns or self.arrival_ns
        first_ns = self.arrival_ns[0] if self.arrival_ns else None
        tokens = len(self.arrival_ns) + len(self._reads)
        return UnderWay(self.sent_ns, first_ns, arrived[-1] if first_ns is not None else None, tokens)

    def fault_read_before(self) -> InvocationFault | None:
        """Decode what is left of an answer that was cut off; the fault in it, which came before the cut."""
        try:
            if self._decoder is not None:
                self._decode(self._decoder)
        except InvocationFault as fault:
            return fault
        return None

    @property
    def refused(self) -> bool:
        return self.status is not None and not 200 <= self.status < 300

    def refusal(self) -> Outcome | None:
        """What an error's status and the beginning of its body say; None for any other answer."""
        if self.status is None or not self.refused:
            return None
        outcome = outcome_of_status(self.status, self._error_type, bytes(self._body), self._location)
        return replace(outcome, retry_after_s=_seconds(self._retry_after))

    def complete(self, codec: Codec) -> tuple[Completion | None, Outcome]:
        """What the whole answer amounts to. Raises InvocationFault."""
        assert self.status is not None
        if self._decoder is not None:
            self._decode(self._decoder)
        if refusal := self.refusal():
            return None, refusal
        if self._decoder is None:
            completion = codec.decode_unary(bytes(self._body))
        else:
            if self._unwrapper is not None:
                self._unwrapper.finish()
            completion = self._decoder.finish()
        return completion, _judge(completion, self.status)


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
