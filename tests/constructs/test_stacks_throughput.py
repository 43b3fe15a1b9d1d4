"""The function that makes provisioned throughput: what it asks, when it gives up, what it answers."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from loadproof.constructs.bedrock.throughput.infrastructure import CODE

_SPEC = importlib.util.spec_from_file_location("throughput_index", CODE / "index.py")
assert _SPEC is not None and _SPEC.loader is not None
index = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(index)

GIVEN = {"Name": "chat-1", "ModelId": "amazon.nova-lite-v1:0:24k", "ModelUnits": "2", "Tags": {"team": "a"}}


class Bedrock:
    """One provisioned model whose statuses come in this order; the last one stays."""

    def __init__(self, *statuses: str, until: datetime | None = None, there: bool = False) -> None:
        self.statuses = list(statuses)
        self.until = until
        self.made: list[dict[str, Any]] = []
        self.tagged: dict[str, Any] = {"present": {"stale": "x"}}
        self.deleted: list[str] = []
        self.there = there

    def get_provisioned_model_throughput(self, *, provisionedModelId: str) -> dict[str, Any]:  # noqa: N803
        if not self.there:
            error = {"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}
            raise ClientError(error, "GetProvisionedModelThroughput")  # type: ignore[arg-type]
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        found = {"status": status, "provisionedModelArn": "arn:pt", "failureMessage": "no units left"}
        return found | ({"commitmentExpirationTime": self.until} if self.until else {})

    def create_provisioned_model_throughput(self, **asked: Any) -> None:
        self.there = True
        self.made.append(asked)

    def list_tags_for_resource(self, **asked: Any) -> dict[str, Any]:
        return {"tags": [{"key": name, "value": value} for name, value in self.tagged["present"].items()]}

    def untag_resource(self, **asked: Any) -> None:
        self.tagged["removed"] = asked["tagKeys"]

    def tag_resource(self, **asked: Any) -> None:
        self.tagged["set"] = asked["tags"]

    def delete_provisioned_model_throughput(self, *, provisionedModelId: str) -> None:  # noqa: N803
        self.deleted.append(provisionedModelId)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes by sleeping only."""
    slept: list[float] = []
    monkeypatch.setattr(index.time, "sleep", slept.append)
    monkeypatch.setattr(index.time, "monotonic", lambda: sum(slept))
    return slept


def test_it_is_made_and_waited_for() -> None:
    """Asked for once with units, model and tags; the ARN comes when it is InService."""
    bedrock = Bedrock("Creating", "Creating", "InService")
    assert index.in_service(bedrock, {**GIVEN, "Commitment": "OneMonth"}) == "arn:pt"
    assert bedrock.made == [
        {
            "modelUnits": 2,
            "provisionedModelName": "chat-1",
            "modelId": "amazon.nova-lite-v1:0:24k",
            "tags": [{"key": "team", "value": "a"}],
            "commitmentDuration": "OneMonth",
        }
    ]


def test_a_second_run_of_the_function_makes_no_second_one() -> None:
    """Lambda runs it again after it gave up waiting: what is on its way is waited for, its tags as they are to be."""
    bedrock = Bedrock("Creating", "InService", there=True)
    assert index.in_service(bedrock, GIVEN) == "arn:pt"
    assert bedrock.made == []
    assert bedrock.tagged["removed"] == ["stale"]
    assert bedrock.tagged["set"] == [{"key": "team", "value": "a"}]


def test_it_gives_up_before_lambda_does(patience: list[float]) -> None:
    """Still Creating after 13 minutes: the function fails without an answer, within its 15 minutes."""
    with pytest.raises(index.NotReadyError):
        index.in_service(Bedrock("Creating"), GIVEN)
    assert 780 < sum(patience) < 800


def test_a_failed_one_tells_why() -> None:
    """Bedrock's own words."""
    with pytest.raises(RuntimeError, match="it is Failed: no units left"):
        index.in_service(Bedrock("Creating", "Failed"), GIVEN)


def test_what_is_committed_is_not_deleted() -> None:
    """The reason names the day; afterwards it is deleted, and what is gone already is no fault."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    bedrock = Bedrock("InService", until=tomorrow, there=True)
    with pytest.raises(RuntimeError, match=f"committed until {tomorrow:%Y-%m-%d}"):
        index.delete(bedrock, "chat-1")
    assert bedrock.deleted == []
    bedrock.until = datetime.now(UTC) - timedelta(days=1)
    index.delete(bedrock, "chat-1")
    assert bedrock.deleted == ["arn:pt"]
    index.delete(Bedrock("InService"), "chat-1")
