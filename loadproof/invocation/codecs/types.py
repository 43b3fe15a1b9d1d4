"""What every payload codec speaks in: one request, the chunks of its answer, its completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

TokenSource = Literal["server", "chunks", "none"]


class ChatMessage(NamedTuple):
    """One earlier turn of a conversation; `role` is "user" or "assistant", of a first one also "system"."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and what may be generated from it.

    `history` and `images` (`data:` or `http(s):` URIs) go with chat messages: there `prompt` is the user's newest turn.
    Elsewhere the prompt holds the whole conversation, and images are refused. `keep_text` asks for the answer's text
    (`Invocation.text`), which a conversation's next turn needs. `ignore_eos` asks the server to go on to
    `max_output_tokens`; TGI and Bedrock have no such parameter, so there a model may stop earlier. `temperature` None
    leaves sampling to the server's default; 0 means greedy.
    """

    prompt: str
    max_output_tokens: int
    stream: bool = True
    temperature: float | None = None
    seed: int | None = None
    ignore_eos: bool = False
    history: tuple[ChatMessage, ...] = ()
    images: tuple[str, ...] = ()
    keep_text: bool = False


class TokenChunk(NamedTuple):
    """One event of a stream that carried generated text; `tokens` is 1 where the event does not say more.

    `thought` is the reasoning in it, where the server tells it apart: the end of `text`. Before it comes the answer.
    """

    text: str
    tokens: int
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer.

    `token_source` says where `output_tokens` comes from: the server's own count, our count of the chunks, or nowhere
    (then it is None). `text` and `thought` (the reasoning, where it is told apart) are those of an answer which came
    whole; a stream gave its own in chunks. `text_length` counts both.
    """

    text_length: int
    finish_reason: str
    output_tokens: int | None
    input_tokens: int | None
    token_source: TokenSource
    text: str | None = field(default=None, compare=False, repr=False)
    thought: str = field(default="", compare=False, repr=False)

    @classmethod
    def whole(
        cls,
        text: str,
        finish_reason: str,
        *,
        output_tokens: int | None,
        input_tokens: int | None,
        thought: str = "",
    ) -> Completion:
        """An answer that came whole: what the server does not count is not counted."""
        source: TokenSource = "none" if output_tokens is None else "server"
        length = len(text) + len(thought)
        return cls(length, finish_reason, output_tokens, input_tokens, source, text, thought)

    @classmethod
    def streamed(
        cls, text_length: int, finish_reason: str, chunks: int, output_tokens: int | None, input_tokens: int | None
    ) -> Completion:
        """An answer that came in `chunks`, which are its tokens where the server counts none."""
        if output_tokens is not None:
            return cls(text_length, finish_reason, output_tokens, input_tokens, "server")
        return cls(text_length, finish_reason, chunks or None, input_tokens, "chunks" if chunks else "none")


class StreamDecoder(Protocol):
    """Sans-IO decoder of one streamed answer. However the bytes are cut, it gives the same tokens."""

    def usual_texts(self, parts: Sequence[bytes], at: int) -> tuple[list[str], list[int]]:
        """A short cut: the texts of the parts from `at` on, and of which part each is.

        It ends before the first part that is anything but whole events of one token each, of which nothing is taken:
        `feed` that one.
        """
        return [], []

    def feed(self, data: bytes) -> Iterable[TokenChunk]:
        """The chunks that `data` completes; take them all. Raises InBandError, PayloadError after those."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Of an event that has not ended."""
        return 0

    def finish(self) -> Completion:
        """Call at the end of the stream. Raises TruncatedStreamError without the model's end marker."""
        ...


@dataclass(frozen=True, slots=True)
class PayloadProtocol:
    """What a protocol's module says of it. `codec` takes the model's name and the service tier, which OpenAI's and
    Converse's payloads alone have a field for."""

    codec: Callable[[str | None, str | None], Codec]
    path: str | None  # of an HTTP server that is named without one
    bedrock_models: str | None  # how the ids of Bedrock's models begin whose own payloads these are


class JsonCodec:
    """What codecs share whose requests and answers are plain JSON."""

    content_type = "application/json"

    def accept(self, stream: bool) -> str:
        return "application/json"


class Codec(Protocol):
    """How one family of servers writes requests and answers."""

    @property
    def content_type(self) -> str: ...

    def accept(self, stream: bool) -> str:
        """Media type of the answer asked for."""
        ...

    def encode(self, request: GenerationRequest) -> bytes:
        """Request body. Raises InputError for text that is not valid Unicode, and for images where there are none."""
        ...

    def stream_decoder(self) -> StreamDecoder: ...

    def decode_unary(self, body: bytes) -> Completion:
        """A whole body. Raises InBandError, PayloadError, TruncatedStreamError (no finish reason)."""
        ...
