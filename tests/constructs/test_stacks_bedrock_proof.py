"""The function that asks a model of Bedrock's once: what is no answer, or comes too late, fails the deployment."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from loadproof.constructs.bedrock.proof.infrastructure import CODE
from loadproof.wire.custom_resource import RefusedError

_SPEC = importlib.util.spec_from_file_location("bedrock_proof_index", CODE)
assert _SPEC is not None and _SPEC.loader is not None
index = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(index)


class Bedrock:
    """Gives or raises one after the other; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def converse(self, **asked: Any) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"output": {"message": {"content": answer}}}


def refusal(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Converse")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now_s.__setitem__(0, now_s[0] + seconds))


def prove(*answers: Any) -> None:
    index.prove(Bedrock(*answers), "arn:model", "Count.", 32)


@pytest.mark.parametrize("parts", [[{"text": "One"}], [{"reasoningContent": {"reasoningText": {"text": "Hm"}}}]])
def test_text_and_thoughts_are_answers(parts: list[dict[str, Any]]) -> None:
    """A model that thinks may spend all of a short answer on it."""
    prove(parts)


def test_an_answer_without_text_is_none() -> None:
    """Blanks are no text."""
    with pytest.raises(RefusedError, match="without any text"):
        prove([{"text": " \n"}])


def test_a_model_that_the_account_may_not_use_is_said_in_bedrocks_words() -> None:
    """At once: no waiting mends it."""
    with pytest.raises(RefusedError, match=r"does not answer: .*Operation not allowed"):
        prove(refusal("ValidationException", "Operation not allowed"), [{"text": "One"}])


def test_throttling_is_waited_for_and_has_an_end() -> None:
    """A quota of none never ends; one that others use does."""
    throttled = refusal("ThrottlingException", "Too many tokens per day")
    prove(throttled, throttled, [{"text": "One"}])
    with pytest.raises(RefusedError, match="Too many tokens per day"):
        prove(throttled)
