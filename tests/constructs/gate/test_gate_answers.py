"""After a deployment everything is asked once: no answer, a wrong one, or an adapter without effect fails it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from stacks_cloud import Cloud, local_cloud
from stacks_support import profile

from loadproof.constructs.endpoint.proof.runtime.proof import answers
from loadproof.constructs.endpoint.proof.runtime.proof.answers import WrongAnswerError, text_of, unanswered

ASKS = ["one", "two"]
BASE = {"Name": "chat-main", "Asks": ASKS}
ADAPTER = {"Name": "chat-main-legal", "Base": "chat-main", "Asks": ASKS}
GIVEN = {"EndpointName": "chat", "Components": [BASE, ADAPTER]}


def refusal(code: str, message: str, status: int = 400, **more: Any) -> ClientError:
    metadata = {"HTTPStatusCode": status}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata} | more, "Invoke")  # type: ignore[arg-type]


NOT_FOUND = refusal("ModelError", 'Received client error (404) with message "{"detail":"Not Found"}"')


def generated(text: str) -> bytes:
    return json.dumps({"generated_text": text}).encode()


class Runtime:
    """Answers by component (None: the endpoint's own) and body; an error is raised."""

    def __init__(self, answer: Callable[[str | None, str], bytes]) -> None:
        self.answer = answer

    def invoke_endpoint(self, Body: bytes, InferenceComponentName: str | None = None, **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"Body": io.BytesIO(self.answer(InferenceComponentName, Body.decode()))}

    def invoke_endpoint_async(self, InputLocation: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"OutputLocation": "s3://results/out/1", "FailureLocation": "s3://results/failed/1"}


class Bucket:
    """Objects by place."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = {place.replace("__", "/"): body for place, body in objects.items()}

    def put_object(self, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803
        self.objects[f"{Bucket}/{Key}"] = Body

    def delete_object(self, Bucket: str, Key: str) -> None:  # noqa: N803
        del self.objects[f"{Bucket}/{Key}"]

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        if (body := self.objects.get(f"{Bucket}/{Key}")) is None:
            raise refusal("AccessDenied", "Access Denied", 403)
        return {"Body": io.BytesIO(body)}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause, and a patience of three of them."""
    now_s = [0.0]
    monkeypatch.setattr(answers.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(answers.time, "sleep", lambda seconds: now_s.__setitem__(0, now_s[0] + seconds))


def found(answer: Callable[[str | None, str], bytes], given: dict[str, Any] = GIVEN, asleep: str = "") -> list[str]:
    return [*unanswered(given, lambda name: name != asleep, Runtime(answer), None)]


def test_a_base_and_an_adapter_that_differ_are_well() -> None:
    """In one of two answers."""
    assert found(lambda name, body: generated(f"{name if body == 'two' else ''} {body}")) == []


def test_an_adapter_that_answers_like_its_base_takes_no_part() -> None:
    """In every answer: its server never loaded it."""
    assert found(lambda name, body: generated(body)) == [
        "component chat-main-legal answers like its base chat-main does: the adapter takes no part in it"
    ]


def test_an_adapter_that_is_not_found_does_not_answer() -> None:
    """Its component is InService all the same."""

    def answer(name: str | None, body: str) -> bytes:
        if name == ADAPTER["Name"]:
            raise NOT_FOUND
        return generated(body)

    (wrong,) = found(answer)
    assert wrong.startswith("component chat-main-legal does not answer: ") and "Not Found" in wrong


def test_all_that_is_wrong_is_said_at_once() -> None:
    """The base talks nonsense and the adapter says nothing."""
    assert found(lambda name, body: b"<html>" if name == "chat-main" else generated("")) == [
        "component chat-main does not answer: found <html>",
        "component chat-main-legal answers without any text",
    ]


@pytest.mark.parametrize(
    "said", ["\u200b\u200b", "\ufffd\ufffd\ufffd", "<|endoftext|><pad><pad>", "</s>", "\x00\x07", "[PAD]"]
)
def test_what_nobody_can_read_is_no_answer(said: str) -> None:
    """Zero-width and control characters, bytes that are no text, and tokens that only mark."""
    given = {"EndpointName": "chat", "Components": [{"Name": "chat-main", "Asks": ["one"]}]}
    assert found(lambda name, body: generated(said), given) == ["component chat-main answers without any text"]


@pytest.mark.parametrize("said", ["!" * 16, "! ! ! ! ! ! ! !", " the the the the the the the the", "哈" * 9])
def test_one_token_over_and_over_is_no_answer(said: str) -> None:
    """As published of broken weights and of fp16 that overflows (vllm-project/vllm/issues/22881, 13035)."""
    (wrong,) = found(lambda name, body: generated(said), {"EndpointName": "chat", "Components": [BASE]})
    assert "and nothing else: broken weights" in wrong


@pytest.mark.parametrize("said", ["three", "!!!", " three, four, five", "1 1 2 1 1 1 1 1 1 1", "ten ten ten"])
def test_an_answer_that_only_repeats_something_is_one(said: str) -> None:
    """A short answer, or one with anything else in it."""
    given = {"EndpointName": "chat", "Components": [{"Name": "chat-main", "Asks": ["one"]}]}
    assert found(lambda name, body: generated(said), given) == []


def test_what_sleeps_is_not_woken() -> None:
    """Neither the component at zero, nor its adapter, which has no copies of its own."""
    assert found(lambda name, body: b"", asleep="chat-main") == []


@pytest.mark.usefixtures("at_once")
def test_what_is_not_ready_yet_is_asked_again() -> None:
    """A copy that has only just started answers 503 for a while."""
    left = [refusal("ModelError", "busy", OriginalStatusCode=503), refusal("ModelNotReadyException", "loading", 429)]

    def answer(name: str | None, body: str) -> bytes:
        if left:
            raise left.pop()
        return generated(f"{name}{body}")

    assert found(answer) == []


@pytest.mark.usefixtures("at_once")
def test_patience_has_an_end() -> None:
    """Two minutes of 429."""

    def answer(name: str | None, body: str) -> bytes:
        raise refusal("ModelNotReadyException", "still loading", 429)

    (wrong,) = found(answer, {"EndpointName": "chat", "Components": [BASE]})
    assert "still loading" in wrong


def test_a_plain_variant_is_asked_without_a_component() -> None:
    """There is none to name."""
    given = {"EndpointName": "chat", "Variants": [{"Name": "AllTraffic", "Asks": ["one"]}]}
    assert found(lambda name, body: generated(f"{name}"), given) == []
    assert found(lambda name, body: b"[]", given) == ["endpoint chat does not answer: found []"]


LATER = {
    "EndpointName": "chat",
    "AsyncInput": "s3://requests/in",
    "Variants": [{"Name": "AllTraffic", "Asks": ["one"]}],
}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("left", "wrong"),
    [
        ({"results__out__1": generated("yes")}, []),
        ({"results__failed__1": b"out of memory"}, ["endpoint chat does not answer: out of memory"]),
        ({}, ["endpoint chat does not answer: nothing at s3://results/out/1 after 120 s"]),
    ],
)
def test_an_asynchronous_endpoint_is_asked_through_s3(left: dict[str, bytes], wrong: list[str]) -> None:
    """Its answer, its failure, or neither; the request is taken away again."""
    bucket = Bucket(**left)
    assert [*unanswered(LATER, lambda name: True, Runtime(lambda *_: b""), bucket)] == wrong
    assert not [place for place in bucket.objects if place.startswith("requests/")]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([{"generated_text": "three"}], "three"),
        ({"generated_text": "three", "details": None}, "three"),
        ({"choices": [{"text": "three"}]}, "three"),
        ({"choices": [{"message": {"content": "three"}}]}, "three"),
        ({"choices": [{"message": {"content": None, "reasoning_content": "Let me think"}}]}, "Let me think"),
    ],
)
def test_every_servers_answer_is_read(document: Any, text: str) -> None:
    """TGI's list, LMI's object, completions and chats, and one that has only thought so far."""
    assert text_of(json.dumps(document).encode()) == text


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"null", b'"text"', b'{"choices": []}', b'{"detail": "Not Found"}']
)
def test_what_is_no_answer_is_wrong(body: bytes) -> None:
    """Whatever its status was."""
    with pytest.raises(WrongAnswerError):
        text_of(body)


ADAPTED: dict[str, Any] = {
    "container": {"family": "vllm", "version": "0.30.0", "settings": {"max_total_tokens": None, "enable_lora": True}},
    "adapters": [{"name": "legal", "s3_uri": "s3://weights/legal.tar.gz"}],
}


STACK = "loadproof-test-chat"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "answers", speed=30) as made:
        yield made


@pytest.mark.parametrize(
    ("switch", "status"), [("true", "CREATE_COMPLETE"), ("false", "ROLLBACK_COMPLETE")], ids=["loaded", "never loaded"]
)
def test_an_adapter_that_its_server_never_loaded_fails_the_deployment(
    cloud: Cloud, tmp_path: Path, switch: str, status: str
) -> None:
    """vLLM mounts its adapter routes only with a variable; the component is InService without it."""
    template = cloud.template(profile(tmp_path, ADAPTED))
    variables = variables_of(template)
    assert variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "true"
    variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = switch
    assert cloud.apply(STACK, template) == status, cloud.reasons(STACK)
    reasons = [reason for reason in cloud.reasons(STACK) if reason.startswith("Proof")]
    assert bool(reasons) == (switch == "false") and all("Not Found" in reason for reason in reasons)
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def test_an_edited_template_is_proven_again(cloud: Cloud, tmp_path: Path) -> None:
    """The profile is the same: an adapter's other weights are asked, and containers that know no adapters go back."""
    template = cloud.template(profile(tmp_path, ADAPTED))
    assert cloud.apply(STACK, template) == "CREATE_COMPLETE", cloud.reasons(STACK)
    (adapter,) = [one for one in template["Resources"].values() if "ArtifactUrl" in json.dumps(one)]
    adapter["Properties"]["Specification"]["Container"]["ArtifactUrl"] = "s3://weights/other.tar.gz"
    assert cloud.apply(STACK, template) == "UPDATE_COMPLETE", cloud.reasons(STACK)
    assert proofs(cloud) == ["UPDATE_COMPLETE", "CREATE_COMPLETE"]
    del variables_of(template)["VLLM_ALLOW_RUNTIME_LORA_UPDATING"]
    assert cloud.apply(STACK, template) == "UPDATE_ROLLBACK_COMPLETE"
    (reason,) = [reason for reason in cloud.reasons(STACK) if reason.startswith("Proof")]
    assert "component loadproof-test-chat-main-legal does not answer" in reason and "Not Found" in reason
    assert text_of(asked_adapter(cloud))
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def variables_of(template: dict[str, Any]) -> dict[str, str]:
    """Of the only model, to be changed in place."""
    (model,) = [one for one in template["Resources"].values() if one["Type"] == "AWS::SageMaker::Model"]
    found: dict[str, str] = model["Properties"]["PrimaryContainer"]["Environment"]
    return found


def asked_adapter(cloud: Cloud) -> bytes:
    answer = cloud.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="loadproof-test-chat",
        InferenceComponentName="loadproof-test-chat-main-legal",
        ContentType="application/json",
        Body=json.dumps({"prompt": "Hello", "max_tokens": 8}).encode(),
    )
    return bytes(answer["Body"].read())


def proofs(cloud: Cloud) -> list[str]:
    """How the proof has ended each time, newest first."""
    events = cloud.client("cloudformation").describe_stack_events(StackName=STACK)["StackEvents"]
    of_proof = [one for one in events if one["ResourceType"] == "AWS::CloudFormation::CustomResource"]
    ended = [one for one in of_proof if one["ResourceStatus"].endswith("_COMPLETE")]
    return [one["ResourceStatus"] for one in ended if one["LogicalResourceId"].startswith("Proof")]
