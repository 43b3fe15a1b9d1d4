"""Benchmarks of Bedrock: by model, and of a profile as it is deployed; against a small Bedrock of these tests' own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
from aiohttp import web

from loadproof.bench.connect import open_invoker, parse_target
from loadproof.bench.evidence.document import mismatches
from loadproof.bench.from_profile import ProfileChoice, spec_of_profile
from loadproof.bench.plan import new_plan, read_plan, write_plan
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.cli import main
from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.eventstream import encode_exception, encode_frame

ARN = "arn:aws:bedrock:eu-west-1:123456789012"
# Deployed names end with the beginning of the SHA-256 of what is invoked.
PROFILE_NAME, PROVISIONED_NAME = "loadproof-dev-chat-13ddbd65", "loadproof-dev-chat-07662e7a"
PROFILE_ARN, PROVISIONED_ARN = f"{ARN}:application-inference-profile/abc", f"{ARN}:provisioned-model/def"
CHAT = """
name: chat
backend: bedrock
model: {id: meta.llama3-1-8b-instruct-v1:0}
objectives: {at_concurrency: 2, ttft_p95_ms: 5000, error_rate_max: 0}
workload: {input_tokens: 16, output_tokens: 6}
benchmark: {concurrency: [1, 2], requests_per_level: 4, warmup_requests: 1}
"""


@dataclass
class FakeBedrock:
    """Streams one token an event. Every `throttles_each`-th request is refused, or breaks after its first token."""

    throttles_each: int = 0
    in_stream: bool = False
    status: str = "ACTIVE"
    url: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/model/{tail:.+}", self.converse),
            web.get("/inference-profiles", self.profiles),
            web.get("/provisioned-model-throughput/{name}", self.provisioned),
        ]

    async def converse(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.asked.append((unquote(request.raw_path), body))
        tokens = body["inferenceConfig"]["maxTokens"]
        throttled = bool(self.throttles_each) and len(self.asked) % self.throttles_each == 0
        if throttled and not self.in_stream:
            error = {"message": "Too many tokens, please wait before trying again."}
            return web.json_response(error, status=429, headers={"x-amzn-ErrorType": "ThrottlingException"})
        usage = {"inputTokens": 16, "outputTokens": tokens, "totalTokens": 16 + tokens}
        if request.path.endswith("/converse"):
            message = {"role": "assistant", "content": [{"text": "word " * tokens}]}
            metrics = {"latencyMs": 1}
            whole = {"output": {"message": message}, "stopReason": "max_tokens", "usage": usage, "metrics": metrics}
            return web.json_response(whole)
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(_event("messageStart", {"role": "assistant"}))
        for number in range(tokens):
            await asyncio.sleep(0.001)
            await answer.write(_event("contentBlockDelta", {"delta": {"text": " word"}, "contentBlockIndex": number}))
            if throttled:
                await answer.write(encode_exception("throttlingException", "Too many tokens"))
                return answer
        await answer.write(_event("messageStop", {"stopReason": "max_tokens"}))
        await answer.write(_event("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
        return answer

    async def profiles(self, request: web.Request) -> web.Response:
        assert request.query["type"] == "APPLICATION"
        pages = {None: ("other", "second"), "second": (PROFILE_NAME, None)}
        name, following = pages[request.query.get("nextToken")]
        found = {
            "inferenceProfileName": name,
            "inferenceProfileArn": PROFILE_ARN,
            "inferenceProfileId": "abc",
            "models": [],
            "status": self.status,
            "type": "APPLICATION",
        }
        return web.json_response({"inferenceProfileSummaries": [found], "nextToken": following})

    async def provisioned(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != PROVISIONED_NAME:
            error = {"message": "no such throughput"}
            return web.json_response(error, status=404, headers={"x-amzn-ErrorType": "ResourceNotFoundException"})
        return web.json_response({"provisionedModelArn": PROVISIONED_ARN, "status": self.status})


def _event(name: str, event: dict[str, Any]) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, orjson.dumps(event))


@contextmanager
def serving(bedrock: FakeBedrock) -> Iterator[FakeBedrock]:
    """On a free port, from a thread of its own, so that the client's event loop is the client's alone."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        app = web.Application()
        app.add_routes(bedrock.routes())
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        bedrock.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        stopped = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stopped))
        await stopped.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    loop, stopped = started.result(timeout=60)
    try:
        yield bedrock
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    (folder / "environment.yaml").write_text('account: "123456789012"\nregion: eu-west-1\n')
    (folder / "chat.yaml").write_text(CHAT)
    return folder / "chat.yaml"


def bench(tmp_path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """`loadproof bench`: its exit code and summary. INVALID (3) is a crowded machine's word, not the product's."""
    code = main.run(["bench", *options, "--out", str(tmp_path / "run")])
    return code, json.loads((tmp_path / "run" / "summary.json").read_text())


def outcome_agrees(code: int, summary: dict[str, Any]) -> bool:
    return (
        code == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 1, "INVALID": 3, "NOT JUDGED": 4}[summary["verdict"]["outcome"]]
    )


# Targets


def test_a_model_is_a_target() -> None:
    """An id, a cross-region profile or an ARN, whole, behind bedrock://."""
    for model_id in ("meta.llama3-1-8b-instruct-v1:0", "us.meta.llama3-1-8b-instruct-v1:0", PROFILE_ARN):
        target = parse_target(f"bedrock://{model_id}", "converse", streaming=True, region="eu-west-1")
        assert target == Target("bedrock", model_id, "converse", region="eu-west-1")
        assert target.chat


@pytest.mark.parametrize(
    ("text", "protocol"), [("bedrock://m", "tgi"), ("sagemaker://e", "converse"), ("http://h/", "converse")]
)
def test_converse_is_bedrocks_alone(text: str, protocol: Any) -> None:
    """Any other pair is refused before anything is sent."""
    with pytest.raises(InputError, match="bedrock:// and converse go together"):
        parse_target(text, protocol, streaming=True)


def test_a_model_without_a_name_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bedrock://` alone names nothing."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with pytest.raises(InputError, match="expected a model id"):
        open_invoker(parse_target("bedrock://", "converse", streaming=True), 10.0)


def test_a_plan_brings_its_target_back(tmp_path: Path) -> None:
    """The tier is part of what a resumed run goes on with."""
    target = Target("bedrock", "m", "converse", service_tier="flex")
    spec = BenchmarkSpec(target, WorkloadSpec(fixed_tokens(4), fixed_tokens(2)), (1,), 1)
    write_plan(tmp_path, new_plan(spec, "run", 0, {}))
    assert read_plan(tmp_path).spec.target == target


# Runs


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_a_model_is_benchmarked(tmp_path: Path, stream: str) -> None:
    """Every request is Converse's; the service's counts stand; summary, report and evidence are written."""
    options = ["--concurrency", "1,2", "--requests-per-level", "4", "--input-tokens", "16", "--output-tokens", "6"]
    with serving(FakeBedrock()) as bedrock:
        code, summary = bench(
            tmp_path, "--target", "bedrock://us.meta.llama3", "--endpoint-url", bedrock.url, stream, *options
        )
    assert outcome_agrees(code, summary)
    assert summary["verdict"]["outcome"] in ("NOT JUDGED", "INVALID")
    path = "/model/us.meta.llama3/converse" + ("-stream" if stream == "--stream" else "")
    assert {asked for asked, _ in bedrock.asked} == {path}
    target = summary["target"]
    assert (target["kind"], target["protocol"], target["endpoint"]) == ("bedrock", "converse", "us.meta.llama3")
    for level in summary["levels"]:
        assert (level["requests"], level["errors"], level["token_source"]) == (4, 0, "server")
        assert (level["ttft_ms"]["p50"] is not None) == (stream == "--stream")
    assert mismatches(tmp_path / "run") == []
    assert "us.meta.llama3" in (tmp_path / "run" / "report.html").read_text()


def test_pictures_go_into_the_message(tmp_path: Path) -> None:
    """A chat workload's images arrive as Converse's blocks of bytes."""
    options = ["--concurrency", "1", "--requests-per-level", "2", "--output-tokens", "2", "--image", "16x16"]
    with serving(FakeBedrock()) as bedrock:
        bench(tmp_path, "--target", "bedrock://m.m", "--endpoint-url", bedrock.url, *options)
    blocks = bedrock.asked[0][1]["messages"][0]["content"]
    assert [set(block) for block in blocks] == [{"text"}, {"image"}]
    assert blocks[1]["image"]["format"] == "png"


@pytest.mark.parametrize(("in_stream", "kind"), [(False, "throttled"), (True, "stream_error")])
def test_throttles_are_errors_by_kind(tmp_path: Path, in_stream: bool, kind: str) -> None:
    """Every third request is throttled, before its answer or in the middle of it: 4 of 12, and the run fails."""
    options = ["--concurrency", "1", "--requests-per-level", "12", "--warmup", "0", "--output-tokens", "4"]
    with serving(FakeBedrock(throttles_each=3, in_stream=in_stream)) as bedrock:
        code, summary = bench(tmp_path, "--target", "bedrock://m.m", "--endpoint-url", bedrock.url, *options)
    assert summary["levels"][0]["errors_by_kind"] == {kind: 4}
    assert outcome_agrees(code, summary) and code != 0
    assert len(bedrock.asked) == 12, "a throttled request is counted, not repeated"


# Profiles


def test_a_profile_is_benchmarked_as_it_is_deployed(chat: Path, tmp_path: Path) -> None:
    """Its application inference profile is found by name, on the second page, and invoked by its ARN."""
    with serving(FakeBedrock()) as bedrock:
        code, summary = bench(tmp_path, str(chat), "--endpoint-url", bedrock.url)
    assert outcome_agrees(code, summary)
    assert {asked for asked, _ in bedrock.asked} == {f"/model/{PROFILE_ARN}/converse-stream"}
    assert summary["target"]["endpoint"] == PROFILE_ARN
    assert (summary["profile"]["name"], summary["profile"]["environment"]) == ("chat", "dev")
    assert summary["predicted"] is None, "nobody tells Bedrock's machines, so nothing is predicted"
    by_name = {one["name"]: one for one in summary["objectives"]}
    assert by_name["ttft_p95_ms"]["observed"] < 5000


def test_provisioned_throughput_is_invoked_where_the_profile_has_it(chat: Path) -> None:
    """By its own ARN, in the environment's region."""
    chat.write_text(CHAT + "bedrock: {provisioned_throughput: {model_units: 1}}\n")
    with serving(FakeBedrock(status="InService")) as bedrock:
        target = spec_of_profile(ProfileChoice(chat, endpoint_url=bedrock.url)).target
    assert (target.endpoint, target.service_tier, target.region) == (PROVISIONED_ARN, None, "eu-west-1")


def test_a_dry_run_asks_nothing_of_aws(chat: Path) -> None:
    """The model the profile is made of stands for what would be found; the profile's tier goes along."""
    model = CHAT.replace("meta.llama3-1-8b-instruct-v1:0", "openai.gpt-oss-20b-1:0")
    chat.write_text(model + "bedrock: {service_tier: priority}\n")
    target = spec_of_profile(ProfileChoice(chat, endpoint_url="http://127.0.0.1:9", ask=False)).target
    assert (target.endpoint, target.service_tier) == ("openai.gpt-oss-20b-1:0", "priority")


@pytest.mark.parametrize(
    ("name", "status", "more", "message"),
    [
        (
            "chat",
            "Creating",
            "bedrock: {provisioned_throughput: {model_units: 1}}",
            f"{PROVISIONED_NAME} in eu-west-1 is Creating",
        ),
        ("gone", "InService", "bedrock: {provisioned_throughput: {model_units: 1}}", "ResourceNotFoundException"),
        ("gone", "ACTIVE", "", "loadproof-dev-gone-13ddbd65 in eu-west-1 is not there; deploy the profile"),
    ],
)
def test_what_does_not_serve_could_not_be_run(chat: Path, name: str, status: str, more: str, message: str) -> None:
    """Not there, or not ready yet: said before any load."""
    file = chat.with_name(f"{name}.yaml")
    file.write_text(CHAT.replace("name: chat", f"name: {name}") + more + "\n")
    with serving(FakeBedrock(status=status)) as bedrock, pytest.raises(CouldNotRunError, match=message):
        spec_of_profile(ProfileChoice(file, endpoint_url=bedrock.url))


def test_a_component_is_bad_input(chat: Path) -> None:
    """Only SageMaker's endpoints have any."""
    with pytest.raises(InputError, match="has no components"):
        spec_of_profile(ProfileChoice(chat, component="main"))


def test_the_tier_reaches_the_request(tmp_path: Path) -> None:
    """What is asked for on the command line is what Converse is asked for."""
    options = ["--concurrency", "1", "--requests-per-level", "2", "--output-tokens", "2", "--service-tier", "flex"]
    with serving(FakeBedrock()) as bedrock:
        bench(tmp_path, "--target", "bedrock://m.m", "--endpoint-url", bedrock.url, *options)
    assert [body["serviceTier"] for _, body in bedrock.asked] == [{"type": "flex"}] * len(bedrock.asked)


@pytest.mark.parametrize(
    ("target", "tier", "message"),
    [
        (["bedrock://m.m"], "gold", "service tier `gold`: expected default, priority, flex, reserved"),
        (["sagemaker://e", "--protocol", "tgi"], "flex", "goes with a model of Bedrock's only"),
    ],
)
def test_a_tier_that_cannot_be_is_bad_usage(
    target: list[str], tier: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before anything is sent."""
    assert main.run(["bench", "--target", *target, "--service-tier", tier]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
