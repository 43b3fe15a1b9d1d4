"""Every protocol has all its readers: what the local cloud's server of it writes is read alike by each of them."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from loadproof.constructs.buffer.runtime.consumer.answer import AnswerBuilder
from loadproof.constructs.endpoint.proof.runtime.proof.answers import text_of
from loadproof.invocation.codecs import GenerationRequest, codec_for
from loadproof.localcloud.model_server.payloads import dialect_of
from loadproof.localcloud.model_server.payloads.ask import ServerLimits, Writer
from loadproof.localcloud.model_server.tokens import answer_text
from loadproof.wire.payloads import ContainerProtocol, error_of, payload_of

LIMITS = ServerLimits(max_total_tokens=4096, max_input_tokens=None, max_admitted_requests=8, max_body_bytes=None)
PROTOCOLS: tuple[ContainerProtocol, ...] = get_args(ContainerProtocol)
ANSWER_TOKENS = 5


def answering(protocol: ContainerProtocol, *, stream: bool) -> Writer:
    """A server's answer to what the codec asks; of a stream, to what the buffer's consumer makes of it."""
    request = json.loads(codec_for(protocol).encode(GenerationRequest("Once", ANSWER_TOKENS, stream=False, seed=3)))
    asked = payload_of(protocol).streaming(request) if stream else request
    return dialect_of(protocol, LIMITS, "model").read(json.dumps(asked).encode())[1]


def streamed(writer: Writer) -> bytes:
    return b"".join([writer.opening(), *map(writer.token, range(ANSWER_TOKENS)), writer.closing()])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_and_proof_read_the_same_whole_answer(protocol: ContainerProtocol) -> None:
    """The proof is not told the protocol."""
    writer = answering(protocol, stream=False)
    text = text_of(writer.unary())
    assert text.endswith(answer_text(3, ANSWER_TOKENS))
    assert codec_for(protocol).decode_unary(writer.unary()).text == text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_and_consumer_read_the_same_stream(protocol: ContainerProtocol) -> None:
    """Text and, but for LMI's which counts one too many, the tokens."""
    stream = streamed(answering(protocol, stream=True))
    builder, decoder = AnswerBuilder(), codec_for(protocol).stream_decoder()
    builder.feed(stream)
    answer = builder.finish()
    (choice,) = answer["choices"]
    read = "".join(chunk.text for chunk in decoder.feed(stream))
    assert read == choice.get("text", choice.get("message", {}).get("content")) == answer_text(3, ANSWER_TOKENS)
    assert decoder.finish().output_tokens == ANSWER_TOKENS
    assert answer["usage"]["completion_tokens"] - (protocol == "lmi") == ANSWER_TOKENS


def test_protocols_have_titles_of_their_own() -> None:
    """A review names the one that callers send, and the one that is taken."""
    titles = {payload_of(protocol).title for protocol in PROTOCOLS}
    assert titles >= {"TGI", "LMI", "OpenAI", "OpenAI chat"}
    assert len(titles) == len(PROTOCOLS)


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"error": "Model is overloaded", "error_type": "overloaded"}, (["overloaded"], "Model is overloaded")),
        ({"error": "too long", "code": 424}, (["424"], "too long")),
        ({"error": {"message": "bad", "type": "BadRequestError", "code": 400}}, (["BadRequestError", "400"], "bad")),
        ({"object": "error", "message": "bad", "type": "Bad Request", "code": 400}, (["Bad Request", "400"], "bad")),
        ({"error": None, "choices": []}, None),
    ],
)
def test_every_servers_error_is_seen(event: dict[str, object], error: tuple[list[str], str] | None) -> None:
    """TGI's, LMI's, vLLM's two; none where there is none."""
    assert error_of(event) == error
