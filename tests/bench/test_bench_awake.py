"""A job's endpoint is waited for while scaling is at work on it, and woken where it sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from loadproof.bench.remote import awake
from loadproof.bench.spec import Target

TARGET = Target("sagemaker", "chat", "tgi", component="chat-main", region="us-east-1")


class World:
    """SageMaker and its runtime: one (status, copies) a look, the last one for good; time passes by sleeping only."""

    def __init__(self, *looks: tuple[str, int]) -> None:
        self._looks = list(looks)
        self.asked_s: list[float] = []
        self.now_s = 0.0
        self.meta = type("Meta", (), {"region_name": "us-east-1"})

    def describe_endpoint(self, **_: Any) -> dict[str, Any]:
        return {"EndpointStatus": "InService", "ProductionVariants": []}

    def describe_inference_component(self, **_: Any) -> dict[str, Any]:
        status, copies = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        return {
            "EndpointName": "chat",
            "InferenceComponentName": "chat-main",
            "InferenceComponentStatus": status,
            "Specification": {},
            "RuntimeConfig": {"CurrentCopyCount": copies},
        }

    def invoke_endpoint(self, **_: Any) -> None:
        self.asked_s.append(self.now_s)
        raise ClientError({"Error": {"Code": "ValidationError", "Message": "has no capacity"}}, "InvokeEndpoint")

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as made:
        yield made


def waited(patch: pytest.MonkeyPatch, *looks: tuple[str, int]) -> World:
    """The world after `await_serving` has returned."""
    world = World(*looks)
    patch.setattr(awake, "aws_client", lambda *_: world)
    patch.setattr("time.monotonic", lambda: world.now_s)
    patch.setattr("time.sleep", world.sleep)
    awake.await_serving(TARGET)
    return world


def test_what_serves_is_not_kept_waiting(patch: pytest.MonkeyPatch) -> None:
    """Two copies in service: no request, no wait."""
    world = waited(patch, ("InService", 2))
    assert (world.now_s, world.asked_s) == (0, [])


def test_what_sleeps_is_woken_by_one_request(patch: pytest.MonkeyPatch) -> None:
    """At zero copies for two looks, then on its way: one refusal, since each might add a copy; then it serves."""
    world = waited(patch, ("InService", 0), ("InService", 0), ("Updating", 0), ("InService", 1))
    assert world.asked_s == [0]
    assert world.now_s == 3 * awake.POLL_S


def test_scaling_at_work_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A component that is Updating serves, but a plan asks for one in service."""
    world = waited(patch, ("Updating", 2), ("InService", 3))
    assert (world.now_s, world.asked_s) == (awake.POLL_S, [])


def test_what_never_wakes_is_left_to_the_run_itself(patch: pytest.MonkeyPatch) -> None:
    """A quarter of an hour, and a request every four minutes of it; the benchmark then says why it could not run."""
    world = waited(patch, ("InService", 0))
    assert world.now_s == 900
    assert world.asked_s == [0, 240, 480, 720]


def test_what_failed_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """Waiting mends nothing there."""
    assert waited(patch, ("Failed", 0)).now_s == 0
