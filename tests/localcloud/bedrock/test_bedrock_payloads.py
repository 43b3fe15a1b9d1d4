"""What the stand-in reads and writes, without a clock: lengths, stop reasons, every provider's documents."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.catalog.bedrock import bedrock_models
from loadproof.invocation.eventstream import FrameDecoder
from loadproof.localcloud.bedrock.errors import BedrockError
from loadproof.localcloud.bedrock.payloads import converse, native
from loadproof.localcloud.bedrock.payloads.parsed import Timing, parsed_request

MODELS = bedrock_models()
LLAMA = MODELS["meta.llama3-1-8b-instruct-v1:0"]
NOVA = MODELS["amazon.nova-lite-v1:0"]
HAIKU = MODELS["anthropic.claude-haiku-4-5-20251001-v1:0"]
PNG = "iVBORw0KGgo="  # the eight bytes that every PNG begins with
TIMING = Timing(first_token_ms=20.4, last_token_ms=99.6)


def read(model: Any, body: dict[str, Any]) -> Any:
    return converse.read(model, json.dumps(body).encode(), model.model_id)


def hello(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"text": "one two three"}]}], **more}


def test_an_answer_fills_what_it_may() -> None:
    """`maxTokens` 7 makes 7 tokens and ends by `max_tokens`; 3 + 2 words are read."""
    parsed, _ = read(LLAMA, hello(system=[{"text": "be brief"}], inferenceConfig={"maxTokens": 7}))
    assert (parsed.input_tokens, parsed.output_tokens, parsed.stop_reason) == (5, 7, "max_tokens")


def test_a_prompt_may_ask_for_its_own_length() -> None:
    """ "in 9 words" ends by itself after 9 of 100 tokens, and the quota holds 100."""
    parsed = parsed_request(LLAMA, "say it in 9 words", max_tokens=100)
    assert (parsed.output_tokens, parsed.stop_reason, parsed.reserved_tokens) == (9, "end_turn", 100)
    assert parsed_request(LLAMA, "say it in 900 words", max_tokens=100).stop_reason == "max_tokens"


def test_without_a_limit_the_models_own_is_reserved() -> None:
    """256 tokens are written, 4096 are held: why AWS tells everybody to set maxTokens."""
    parsed, _ = read(LLAMA, hello())
    assert (parsed.output_tokens, parsed.stop_reason, parsed.reserved_tokens) == (256, "end_turn", 4096)


def test_a_stop_sequence_ends_an_answer_and_stays_hidden() -> None:
    """The text ends before its second word when that is the stop sequence."""
    whole = parsed_request(LLAMA, "hello", max_tokens=10)
    second = whole.text.split(" ")[2]
    parsed = parsed_request(LLAMA, "hello", max_tokens=10, stop_sequences=[second])
    assert parsed.stop_reason == "stop_sequence"
    assert parsed.stop_sequence == second
    assert second not in parsed.text
    assert whole.text.startswith(parsed.text)
    assert parsed.output_tokens <= 2


@settings(max_examples=60)
@given(st.text("abc ", min_size=1), st.integers(1, 40), st.lists(st.text("aeiou nt", min_size=1, max_size=3)))
def test_pieces_make_the_text(prompt: str, most: int, stops: list[str]) -> None:
    """Whatever the limits and stop sequences: as many pieces as tokens, together the text, without a stop in it."""
    parsed = parsed_request(LLAMA, prompt, max_tokens=most, stop_sequences=stops)
    pieces = list(parsed.pieces())
    assert len(pieces) == parsed.output_tokens <= most
    assert "".join(pieces) == parsed.text
    assert not any(stop in parsed.text for stop in stops)


@pytest.mark.parametrize(
    ("model", "body", "said"),
    [
        (LLAMA, hello(inferenceConfig={"maxTokens": 4097}), "exceeds the model limit of 4096"),
        (LLAMA, {"messages": []}, "must start with a user message"),
        (LLAMA, {"messages": [{"role": "assistant", "content": [{"text": "x"}]}]}, "must start with a user message"),
        (LLAMA, {"messages": hello()["messages"] * 2}, "must alternate"),
        (LLAMA, {"messages": [{"role": "user", "content": [{"text": " "}]}]}, "messages.0.content.0 is blank"),
        (LLAMA, {"messages": [{"role": "user", "content": []}]}, "content field in the Message object is empty"),
        (LLAMA, {"messages": [{"role": "user"}]}, "'messages.1.member.content' failed to satisfy constraint"),
        (LLAMA, hello(inferenceConfig={"temperature": 1.5}), "less than or equal to 1"),
        (LLAMA, hello(surprise=1), "Member is not known"),
        (LLAMA, hello(serviceTier={"type": "flex"}), "service tier flex is not supported"),
        (
            LLAMA,
            {"messages": [{"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": "eA=="}}}]}]},
            "doesn't support the image field",
        ),
        (
            MODELS["meta.llama3-8b-instruct-v1:0"],
            {"messages": [{"role": "user", "content": [{"text": "word " * 9000}]}]},
            "Input is too long for requested model.",
        ),
    ],
)
def test_a_bad_conversation_is_refused(model: Any, body: dict[str, Any], said: str) -> None:
    """Shapes by AWS's own model, then what only Bedrock knows; always ValidationException."""
    with pytest.raises(BedrockError) as refused:
        read(model, body)
    assert refused.value.code == "ValidationException"
    assert said in refused.value.message


def test_a_llama_uses_tools_only_where_nothing_streams() -> None:
    """The same request is answered whole: AWS's limit is one of the stream."""
    asked = hello(toolConfig=TOOLS)
    read(LLAMA, asked)
    with pytest.raises(BedrockError, match="doesn't support tool use in streaming mode"):
        converse.read(LLAMA, json.dumps(asked).encode(), LLAMA.model_id, stream=True)
    converse.read(NOVA, json.dumps(asked).encode(), NOVA.model_id, stream=True)


def test_a_document_of_more_than_four_and_a_half_mebibytes_is_refused() -> None:
    """By its bytes, not by their base64."""
    for size_bytes, refused in ((4_718_592, False), (4_718_593, True)):
        source = {"bytes": base64.b64encode(b"x" * size_bytes).decode()}
        content = [{"text": "Read."}, {"document": {"format": "txt", "name": "long", "source": source}}]
        body = {"messages": [{"role": "user", "content": content}]}
        if refused:
            with pytest.raises(BedrockError, match="the document exceeds"):
                read(NOVA, body)
        else:
            read(NOVA, body)


USES = [{"toolUse": {"toolUseId": one, "name": "weather", "input": {}}} for one in "ab"]
RESULTS = [{"toolResult": {"toolUseId": one, "content": [{"text": "dry"}]}} for one in "ab"]
TOOLS = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": {"type": "object"}}}}]}


def weather(results: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    turns = [("user", [{"text": "weather?"}]), ("assistant", USES), ("user", results)]
    return {"messages": [{"role": role, "content": content} for role, content in turns if content], **more}


def test_tools_used_side_by_side_are_answered_in_one_turn() -> None:
    """In any order, and other blocks may stand beside the results."""
    read(LLAMA, weather([{"text": "Both:"}, *RESULTS[::-1]], toolConfig=TOOLS))


@pytest.mark.parametrize(("results", "missing"), [([{"text": "And?"}], "a, b"), (RESULTS[:1], "b"), ([], "a, b")])
def test_a_tools_use_without_its_result_is_refused(results: list[dict[str, Any]], missing: str) -> None:
    """Also where the conversation ends with it."""
    with pytest.raises(BedrockError) as refused:
        read(LLAMA, weather(results, toolConfig=TOOLS))
    assert refused.value.message == (
        f"Expected toolResult blocks at messages.2.content for the following Ids: {missing}"
    )


def test_tools_used_need_their_definition() -> None:
    """Though nothing new is asked of them."""
    with pytest.raises(BedrockError, match="The toolConfig field must be defined when using toolUse and toolResult"):
        read(LLAMA, weather(RESULTS))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"system": [{"text": "Be brief."}]}, "This model doesn't support system messages."),
        ({"toolConfig": TOOLS}, "This model doesn't support tool use."),
    ],
)
def test_what_a_model_lacks_is_refused(more: dict[str, Any], said: str) -> None:
    """Mistral 7B takes neither system prompts nor tools."""
    with pytest.raises(BedrockError) as refused:
        read(MODELS["mistral.mistral-7b-instruct-v0:2"], hello(**more))
    assert refused.value.message.startswith(said)


def document(name: str) -> dict[str, Any]:
    return {"document": {"format": "txt", "name": name, "source": {"bytes": "eA=="}}}


@pytest.mark.parametrize("name", ["a_b.txt!", "two  blanks", "a\tb", "résumé", "全　角"])
def test_a_documents_name_has_its_characters(name: str) -> None:
    """Letters, digits, single blanks, hyphens and brackets; underscores pass as well."""
    body = hello()
    body["messages"][0]["content"].append(document("Bill (1) [a_b-c]"))
    read(NOVA, body)
    body["messages"][0]["content"].append(document(name))
    with pytest.raises(BedrockError, match="The document file name can only contain"):
        read(NOVA, body)


def test_a_document_from_a_tool_has_a_name_too() -> None:
    """It needs no text beside it."""
    results = [*RESULTS[:1], {"toolResult": {"toolUseId": "b", "content": [document("bill")]}}]
    read(NOVA, weather(results, toolConfig=TOOLS))
    results[1]["toolResult"]["content"] = [document("bill.txt")]
    with pytest.raises(BedrockError, match="The document file name can only contain"):
        read(NOVA, weather(results, toolConfig=TOOLS))


def test_a_model_that_sees_no_pictures_may_read_documents() -> None:
    """AWS's table of features: chat with documents is Llama's and Mistral's too, and not Nova Micro's."""
    body = {"messages": [{"role": "user", "content": [{"text": "Read."}, document("bill")]}]}
    read(bedrock_models()["meta.llama3-1-8b-instruct-v1:0"], body)
    with pytest.raises(BedrockError, match="This model doesn't support documents"):
        read(bedrock_models()["amazon.nova-micro-v1:0"], body)


def test_a_document_needs_a_text_beside_it() -> None:
    """In the same message."""
    with pytest.raises(BedrockError, match="A text block must be included when using documents"):
        read(NOVA, {"messages": [{"role": "user", "content": [document("bill")]}]})


def test_free_fields_are_taken_as_they_are() -> None:
    """`additionalModelRequestFields` is any JSON."""
    read(LLAMA, hello(additionalModelRequestFields={"top_k": 5, "nested": {"a": [1]}}))


def test_an_image_counts_a_thousand_tokens() -> None:
    """The stand-in cannot see: three words and a picture are 1003 tokens."""
    body = hello()
    body["messages"][0]["content"].append({"image": {"format": "png", "source": {"bytes": PNG}}})
    assert read(NOVA, body)[0].input_tokens == 1003


STARTS = {
    "png": b"\x89PNG\r\n\x1a\n",
    "jpeg": b"\xff\xd8\xff\xe0",
    "gif": b"GIF89a",
    "webp": b"RIFF\x24\x00\x00\x00WEBPVP8 ",
}


def picture(data: bytes, kind: str) -> dict[str, Any]:
    image = {"image": {"format": kind, "source": {"bytes": base64.b64encode(data).decode()}}}
    return {"messages": [{"role": "user", "content": [{"text": "What is it?"}, image]}]}


def claude_picture(data: bytes, kind: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    content = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
    messages = [{"role": "user", "content": content}]
    return {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 4, "messages": messages}


@pytest.mark.parametrize("kind", STARTS)
def test_pictures_of_their_said_format_are_taken(kind: str) -> None:
    """By their first bytes; nobody looks further."""
    read(NOVA, picture(STARTS[kind], kind))
    read(HAIKU, picture(STARTS[kind], kind))
    native.read(HAIKU, json.dumps(claude_picture(STARTS[kind], f"image/{kind}")).encode())


WRONG_KIND = (
    "messages.0.content.1.image.source.base64: The image was specified using the image/png media type, but the image "
    "appears to be a image/jpeg image"
)


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (NOVA, b"garbage", "The provided image does not match the specified image format."),
        (NOVA, STARTS["jpeg"], "The provided image does not match the specified image format."),
        (HAIKU, b"garbage", "Could not process image"),
        (HAIKU, STARTS["jpeg"], WRONG_KIND),
    ],
)
def test_converse_refuses_other_bytes_than_said(model: Any, data: bytes, said: str) -> None:
    """The model does, and Bedrock hands its words on."""
    with pytest.raises(BedrockError) as refused:
        read(model, picture(data, "png"))
    assert refused.value.code == "ValidationException"
    assert refused.value.message == f"The model returned the following errors: {said}"


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"garbage", "image/png", "Could not process image"),
        (STARTS["jpeg"], "image/png", WRONG_KIND),
        (STARTS["png"], "image/bmp", "messages.0.content.1.image.source.base64.media_type: Input should be"),
    ],
)
def test_claude_refuses_other_bytes_than_said(data: bytes, kind: str, said: str) -> None:
    """In its own body it is asked without anybody between."""
    with pytest.raises(BedrockError) as refused:
        native.read(HAIKU, json.dumps(claude_picture(data, kind)).encode())
    assert refused.value.message.startswith(said)


NATIVE = {
    "meta": (LLAMA, {"prompt": "a b c", "max_gen_len": 4}),
    "mistral": (MODELS["mistral.mistral-7b-instruct-v0:2"], {"prompt": "a b c", "max_tokens": 4}),
    "nova": (
        NOVA,
        {"messages": [{"role": "user", "content": [{"text": "a b c"}]}], "inferenceConfig": {"maxTokens": 4}},
    ),
    "anthropic": (
        HAIKU,
        {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 4,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a b c"}]}],
        },
    ),
    "openai": (
        MODELS["openai.gpt-oss-20b-1:0"],
        {"messages": [{"role": "user", "content": "a b c"}], "max_tokens": 4},
    ),
}
TEXT_OF = {
    "meta": lambda document: document["generation"],
    "mistral": lambda document: document["outputs"][0]["text"],
    "nova": lambda document: document["output"]["message"]["content"][0]["text"],
    "anthropic": lambda document: document["content"][0]["text"],
    "openai": lambda document: document["choices"][0]["message"]["content"],
}
DELTA_OF = {
    "meta": lambda document: document["generation"],
    "mistral": lambda document: document["outputs"][0]["text"],
    "nova": lambda document: document.get("contentBlockDelta", {}).get("delta", {}).get("text", ""),
    "anthropic": lambda document: document.get("delta", {}).get("text", ""),
    "openai": lambda document: document["choices"][0]["delta"].get("content", ""),
}


def streamed(parsed: Any, writer: Any) -> list[dict[str, Any]]:
    frames = writer.opening()
    frames += b"".join(writer.token(piece, index) for index, piece in enumerate(parsed.pieces()))
    frames += writer.closing(TIMING)
    decoded = list(FrameDecoder().feed(frames))
    assert {frame.headers[":event-type"] for frame in decoded} == {"chunk"}
    return [json.loads(base64.b64decode(json.loads(frame.payload)["bytes"])) for frame in decoded]


@pytest.mark.parametrize("payload", sorted(NATIVE))
def test_a_stream_says_what_the_whole_answer_says(payload: str) -> None:
    """In every provider's format: the same text, and Bedrock's own metrics on the last chunk only."""
    model, body = NATIVE[payload]
    parsed, writer = native.read(model, json.dumps(body).encode())
    documents = streamed(parsed, writer)
    whole = TEXT_OF[payload](json.loads(writer.unary(TIMING)))
    assert whole == parsed.text != ""
    assert "".join(DELTA_OF[payload](one) for one in documents) == whole
    metrics = {
        "inputTokenCount": 3,
        "outputTokenCount": 4,
        "invocationLatency": 100,
        "firstByteLatency": 20,
    }
    assert documents[-1]["amazon-bedrock-invocationMetrics"] == metrics
    assert not any("amazon-bedrock-invocationMetrics" in one for one in documents[:-1])


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        ("meta", {"max_gen_len": 4}, "required key [prompt] not found"),
        ("meta", {"prompt": "x", "max_gen_len": 0}, "#/max_gen_len: 0 is not between 1 and 8192"),
        ("anthropic", {"messages": [{"role": "user", "content": "x"}]}, "required key [anthropic_version] not found"),
        ("nova", {"inputText": "x"}, "required key [messages] not found"),
        ("openai", {"messages": []}, "required key [messages] not found"),
    ],
)
def test_a_body_of_another_provider_is_refused(payload: str, body: dict[str, Any], said: str) -> None:
    """As Bedrock words it: what is missing, and to reformat the input."""
    with pytest.raises(BedrockError) as refused:
        native.read(NATIVE[payload][0], json.dumps(body).encode())
    assert refused.value.code == "ValidationException"
    assert refused.value.message.startswith("Malformed input request: ") and said in refused.value.message
