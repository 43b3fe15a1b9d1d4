"""Loadproof's own invokers against the local cloud's Bedrock: Converse and the models' own payloads."""

from __future__ import annotations

import asyncio

import pytest

from loadproof.catalog.bedrock import bedrock_models
from loadproof.invocation import GenerationRequest, Invocation, OutcomeKind, open_bedrock
from loadproof.invocation.credentials import fixed
from loadproof.invocation.sigv4 import Credentials
from loadproof.localcloud.local import LocalCloud

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
HAIKU = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
OPEN = "openai.gpt-oss-20b-1:0"
PROMPT = "one two three"


def invoked(cloud: LocalCloud, model_id: str, request: GenerationRequest, *, native: bool) -> Invocation:
    async def main() -> Invocation:
        invoker = open_bedrock(
            model_id,
            region=cloud.region,
            native=native,
            credentials=fixed(Credentials(cloud.state.access_key, cloud.state.secret_key)),
            endpoint_url=cloud.endpoint_url,
        )
        try:
            return await invoker.invoke(request)
        finally:
            await invoker.close()

    return asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("model_id", "native"),
    [(LLAMA, False), (f"us.{LLAMA}", False), (LLAMA, True), (HAIKU, True), (OPEN, True)],
)
def test_an_answer_is_read_as_it_was_written(cloud: LocalCloud, model_id: str, native: bool, stream: bool) -> None:
    """Five tokens, counted by the server, in every payload."""
    request = GenerationRequest(PROMPT, max_output_tokens=5, stream=stream)
    answer = invoked(cloud, model_id, request, native=native)
    assert answer.outcome.kind is OutcomeKind.OK, answer.outcome
    assert answer.output_tokens == 5
    assert answer.input_tokens is not None and answer.input_tokens >= 3


def test_a_model_that_only_a_profile_reaches(cloud: LocalCloud) -> None:
    """Told as a bad request: no retry would help."""
    bare = HAIKU.removeprefix("us.")
    answer = invoked(cloud, bare, GenerationRequest(PROMPT, max_output_tokens=5), native=False)
    assert answer.outcome.kind is not OutcomeKind.OK
    assert answer.outcome.retry.value == "poison"


def test_every_model_of_the_catalog_answers(cloud: LocalCloud) -> None:
    """Each over its first way in: the stand-in behind it starts."""
    for model in bedrock_models().values():
        prefix = "" if model.on_demand else f"{model.prefixes[0]}."
        request = GenerationRequest(PROMPT, max_output_tokens=2)
        answer = invoked(cloud, f"{prefix}{model.model_id}", request, native=False)
        assert (answer.outcome.kind, answer.output_tokens) == (OutcomeKind.OK, 2), model.model_id
