"""Loadproof's own transport, and `loadproof bench`, against the local cloud's Bedrock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadproof.cli import main
from loadproof.invocation import GenerationRequest, Invocation, OutcomeKind, RetryClass, open_bedrock
from loadproof.invocation.credentials import fixed
from loadproof.invocation.endpoints import find_bedrock_model
from loadproof.invocation.sigv4 import Credentials
from loadproof.localcloud.bedrock.faults import FAULT_PARAMETER
from loadproof.localcloud.local import LocalCloud

LLAMA, CLAUDE, OPENAI = (
    "meta.llama3-1-8b-instruct-v1:0",
    "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "openai.gpt-oss-20b-1:0",
)
Aws = Callable[[str], Any]


def invoke(cloud: LocalCloud, model_id: str, *, native: bool = False, stream: bool = True) -> Invocation:
    """One request of three words for five tokens."""

    async def ask() -> Invocation:
        invoker = open_bedrock(
            model_id,
            region=cloud.region,
            native=native,
            endpoint_url=cloud.endpoint_url,
            credentials=fixed(Credentials(cloud.state.access_key, cloud.state.secret_key)),
        )
        try:
            return await invoker.invoke(GenerationRequest("one two three", 5, stream=stream))
        finally:
            await invoker.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("model_id", [LLAMA, CLAUDE, OPENAI])
def test_every_way_to_ask_gives_the_same_counts(cloud: LocalCloud, model_id: str, native: bool, stream: bool) -> None:
    """Three words in, five tokens out, one at a time where it streams, by the service's own word."""
    invocation = invoke(cloud, model_id, native=native, stream=stream)
    assert invocation.outcome.kind is OutcomeKind.OK, invocation.outcome
    assert (invocation.input_tokens, invocation.output_tokens, invocation.token_source) == (3, 5, "server")
    assert len(invocation.arrival_ns) == (5 if stream else 0)


def test_a_profile_is_found_by_its_name_and_invoked_by_its_arn(cloud: LocalCloud, aws: Aws) -> None:
    """As `loadproof bench PROFILE` does it."""
    name = "loadproof-dev-found"
    source = f"arn:aws:bedrock:{cloud.region}::foundation-model/{LLAMA}"
    made = aws("bedrock").create_inference_profile(inferenceProfileName=name, modelSource={"copyFrom": source})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", cloud.state.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", cloud.state.secret_key)
        arn = find_bedrock_model(name, provisioned=False, region=cloud.region, endpoint_url=cloud.endpoint_url)
    assert arn == made["inferenceProfileArn"]
    assert invoke(cloud, arn).outcome.ok


@pytest.mark.parametrize(
    ("error", "when", "kind", "retry"),
    [
        ("ThrottlingException", "before", OutcomeKind.THROTTLED, RetryClass.SLOW_DOWN),
        ("ModelNotReadyException", "before", OutcomeKind.NOT_READY, RetryClass.SLOW_DOWN),
        ("ServiceUnavailableException", "before", OutcomeKind.UNAVAILABLE, RetryClass.SLOW_DOWN),
        ("ModelTimeoutException", "before", OutcomeKind.TIMEOUT, RetryClass.TRY_AGAIN),
        ("ServiceUnavailableException", "midway", OutcomeKind.STREAM_ERROR, RetryClass.SLOW_DOWN),
        ("InternalServerException", "midway", OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN),
    ],
)
def test_the_clouds_faults_have_their_classes(
    cloud: LocalCloud, aws: Aws, error: str, when: str, kind: OutcomeKind, retry: RetryClass
) -> None:
    """Before the answer as a status, in the middle of it as an exception's frame after the tokens that came."""
    aws("ssm").put_parameter(
        Name=FAULT_PARAMETER, Value=json.dumps({"error": error, "when": when}), Type="String", Overwrite=True
    )
    try:
        invocation = invoke(cloud, LLAMA)
    finally:
        aws("ssm").delete_parameter(Name=FAULT_PARAMETER)
    assert (invocation.outcome.kind, invocation.outcome.retry) == (kind, retry)
    assert (len(invocation.arrival_ns) > 0) == (when == "midway")


def test_a_model_is_benchmarked(cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two levels, all answered, with the twin's latencies said to be simulated. INVALID is a crowded machine's word."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", cloud.state.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud.state.secret_key)
    options = ["--concurrency", "1,2", "--requests-per-level", "4", "--input-tokens", "16", "--output-tokens", "4"]
    target = ["--target", f"bedrock://us.{LLAMA}", "--endpoint-url", cloud.endpoint_url, "--region", cloud.region]
    code = main.run(["bench", *target, *options, "--out", str(tmp_path / "run")])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert code == {"NOT JUDGED": 4, "INVALID": 3}[summary["verdict"]["outcome"]]
    assert [(level["requests"], level["errors"]) for level in summary["levels"]] == [(4, 0), (4, 0)]
    assert summary["conditions"]["local_cloud"] is True
