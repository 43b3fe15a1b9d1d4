"""Conversations and pictures: how they are written, and that an answer's text is there for the next turn."""

from __future__ import annotations

import json

import pytest

from loadproof.errors import InputError
from loadproof.invocation import ChatMessage, GenerationRequest, codec_for

PICTURE = "data:image/png;base64,aGk="


def test_history_comes_before_the_newest_turn() -> None:
    """Chat messages in the order they were said, the prompt last."""
    history = (ChatMessage("user", "Hi"), ChatMessage("assistant", "Hello"))
    body = json.loads(codec_for("openai-chat").encode(GenerationRequest("And now?", 8, history=history)))
    assert [(message["role"], message["content"]) for message in body["messages"]] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "And now?"),
    ]


def test_a_picture_is_a_content_part_of_the_newest_turn() -> None:
    """As OpenAI's chat completions and vLLM read it: text first, then image_url parts."""
    body = json.loads(codec_for("openai-chat").encode(GenerationRequest("What is this?", 8, images=(PICTURE,))))
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": PICTURE}},
            ],
        }
    ]


@pytest.mark.parametrize("protocol", ["tgi", "lmi", "openai"])
def test_a_picture_is_never_left_out_in_silence(protocol: str) -> None:
    """Where the payload has no place for one, the request is refused."""
    with pytest.raises(InputError, match="images need chat messages"):
        codec_for(protocol).encode(GenerationRequest("What is this?", 8, images=(PICTURE,)))
