"""What each model server accepts and refuses, and that any request it accepts is answered in full."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.localcloud.model_server import tokens
from loadproof.localcloud.model_server.payloads.ask import Dialect, RefusalError, ServerLimits
from loadproof.localcloud.model_server.payloads.lmi import LmiDialect
from loadproof.localcloud.model_server.payloads.openai import OpenAiDialect
from loadproof.localcloud.model_server.payloads.tgi import TgiDialect

LIMITS = ServerLimits(max_total_tokens=100, max_input_tokens=60, max_admitted_requests=4, max_body_bytes=5000)
TGI, LMI, OPENAI = TgiDialect(LIMITS, "m"), LmiDialect(LIMITS, "m"), OpenAiDialect(LIMITS, "m")


def refused(dialect: Dialect, body: object) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(RefusalError) as raised:
        dialect.read(raw)
    said = raised.value.body
    try:
        return raised.value.status, json.loads(said.removeprefix(b"data:"))
    except ValueError:
        return raised.value.status, said.decode()


def test_a_word_is_a_token() -> None:
    """A prompt counts its whitespace-separated words, a chat the words of its contents, and nothing counts 0."""
    assert tokens.count_tokens("one  two\nthree") == 3
    assert tokens.count_tokens("") == 1
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert tokens.count_message_tokens(chat) == 3
    assert len(tokens.answer_text(seed=3, tokens=40).split()) == 40


def test_tgi_validates_with_its_own_words() -> None:
    """422 with error_type validation for too long inputs and sums; the sum names both counts."""
    status, said = refused(TGI, {"inputs": "w " * 61, "parameters": {"max_new_tokens": 1}})
    assert (status, said["error_type"]) == (422, "validation")
    assert said["error"] == "Input validation error: `inputs` must have less than 60 tokens. Given: 61"
    status, said = refused(TGI, {"inputs": "w " * 50, "parameters": {"max_new_tokens": 51}})
    assert status == 422
    assert said["error"] == (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 100. "
        "Given: 50 `inputs` tokens and 51 `max_new_tokens`"
    )
    assert refused(TGI, {"inputs": "w", "parameters": {"max_new_tokens": 0}})[0] == 422


def test_tgi_says_streamed_refusals_in_band() -> None:
    """With stream true the same refusal is an event in a 200 answer."""
    status, said = refused(TGI, {"inputs": "w", "stream": True, "parameters": {"max_new_tokens": 1000}})
    assert (status, said["error_type"]) == (200, "validation")
    assert TGI.overloaded(stream=True).status == 200
    overloaded = TGI.overloaded(stream=False)
    assert (overloaded.status, json.loads(overloaded.body)["error_type"]) == (429, "overloaded")


def test_tgi_bounds_the_body() -> None:
    """PAYLOAD_LIMIT is 413 in plain words."""
    status, said = refused(TGI, {"inputs": "w" * 6000})
    assert (status, said) == (413, "Failed to buffer the request body: length limit exceeded")


def test_lmi_answers_bad_input_424() -> None:
    """Too long, no prompt, no JSON: 424 with a code and an error."""
    for body in ({"inputs": "w " * 90}, {"nothing": 1}, b"{", {"inputs": 5}):
        status, said = refused(LMI, body)
        assert (status, said["code"]) == (424, 424), body
        assert said["error"]


def test_vllm_answers_bad_input_400_in_openai_form() -> None:
    """The error object has message, type and code; streams are refused with a real status."""
    for body in ({"prompt": "w " * 90, "max_tokens": 20, "stream": True}, {"messages": []}, {"max_tokens": 3}, b"[]"):
        status, said = refused(OPENAI, body)
        assert (status, said["error"]["code"]) == (400, 400), body
        assert said["error"]["message"]


def test_a_chat_without_a_bound_fills_the_context() -> None:
    """100 tokens of context, 10 of prompt: 90 are generated, as vLLM does."""
    ask, _ = OPENAI.read(json.dumps({"messages": [{"role": "user", "content": "w " * 10}]}).encode())
    assert (ask.input_tokens, ask.output_tokens) == (10, 90)


@given(
    body=st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda s: (
            st.lists(s)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "inputs",
                        "prompt",
                        "messages",
                        "parameters",
                        "max_new_tokens",
                        "max_tokens",
                        "stream",
                        "content",
                        "role",
                        "seed",
                        "details",
                        "stream_options",
                        "model",
                    ]
                ),
                s,
            )
        ),
        max_leaves=12,
    ).map(lambda document: json.dumps(document).encode())
)
def test_any_body_is_answered_in_full_or_refused_in_words(body: bytes) -> None:
    """No request crashes a server; an accepted one is answered with exactly its tokens, and stays in the limits."""
    for dialect in (TGI, LMI, OPENAI):
        try:
            ask, writer = dialect.read(body)
        except RefusalError as refusal:
            assert refusal.body
            continue
        assert 1 <= ask.output_tokens <= 99 and ask.input_tokens + ask.output_tokens <= 100
        streamed = writer.opening() + b"".join(map(writer.token, range(ask.output_tokens))) + writer.closing()
        assert streamed.endswith(b"\n")
        assert json.loads(writer.unary())
