"""Traps of scaling, updates and alarms in templates that are not written as ours are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from review_rules_support import found, resource

PLACE = "endpoint/chat-1/variant/AllTraffic"


def served(number: int, **variant: Any) -> dict[str, Any]:
    """An endpoint `chat-<number>` of two instances of variant AllTraffic, without its model."""
    own = {"VariantName": "AllTraffic", "InstanceType": "ml.g6e.2xlarge", "InitialInstanceCount": 2, **variant}
    name = {"Fn::GetAtt": [f"Config{number}", "EndpointConfigName"]}
    return {
        f"Config{number}": resource("SageMaker::EndpointConfig", ProductionVariants=[own]),
        f"Endpoint{number}": resource("SageMaker::Endpoint", EndpointName=f"chat-{number}", EndpointConfigName=name),
    }


def scaled(place: Any = PLACE, **properties: Any) -> dict[str, Any]:
    """A scalable target and the policy that moves it."""
    return {
        "T": resource(
            "ApplicationAutoScaling::ScalableTarget",
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
            ResourceId=place,
            **{"MinCapacity": 2, "MaxCapacity": 6, **properties},
        ),
        "P": resource("ApplicationAutoScaling::ScalingPolicy", PolicyName="p", ScalingTargetId={"Ref": "T"}),
    }


def literal(resources: dict[str, Any], name: str) -> dict[str, Any]:
    """The same with its configuration's name written out, and the endpoint naming it so."""
    written = copy.deepcopy(resources)
    written["Config1"]["Properties"]["EndpointConfigName"] = name
    written["Endpoint1"]["Properties"]["EndpointConfigName"] = name
    return written


def rolling(kind: str, value: int) -> dict[str, Any]:
    """The endpoint with a rolling update of such batches."""
    resources = served(1)
    policy = {"MaximumBatchSize": {"Type": kind, "Value": value}, "WaitIntervalInSeconds": 60}
    resources["Endpoint1"]["Properties"]["DeploymentConfig"] = {"RollingUpdatePolicy": policy}
    return resources


def codes(before: dict[str, Any], after: dict[str, Any], *wanted: str) -> list[tuple[str, str, str]]:
    """Code, severity and subject."""
    return [(one.code, one.severity, one.place) for one in found(before, after, *wanted)]


def test_two_endpoints_may_name_their_variants_alike() -> None:
    """The first is not scaled, the second is: its counts are reset."""
    before = served(0) | served(1) | scaled()
    after = served(0) | served(1, InitialVariantWeight=2) | scaled()
    assert codes(before, after, "LR010") == [("LR010", "risk", "Endpoint1")]


@pytest.mark.parametrize("changed", [0, 1])
def test_the_reservation_of_either_of_two_endpoints_is_looked_at(changed: int) -> None:
    """Each variant of that name has a reservation of its own."""

    def reserved(number: int, kind: str) -> dict[str, Any]:
        held = {"CapacityReservationPreference": "capacity-reservations-only", "MlReservationArn": f"arn:r/{number}"}
        return served(number, CapacityReservationConfig=held, InstanceType=kind)

    before = reserved(0, "ml.g6e.2xlarge") | reserved(1, "ml.g6e.2xlarge")
    after = before | reserved(changed, "ml.g6e.4xlarge")
    assert codes(before, after, "LR024") == [("LR024", "break", f"Config{changed}")]


def test_a_configurations_name_may_be_written_out() -> None:
    """An endpoint that names its configuration literally uses it all the same."""
    before = literal(served(1) | scaled(), "cfg")
    after = literal(served(1, InstanceType="ml.g6e.4xlarge") | scaled(), "cfg2")
    assert codes(before, after, "LR010", "LR011") == [("LR011", "break", "Config1"), ("LR010", "risk", "Endpoint1")]


def test_a_place_may_be_substituted() -> None:
    """Fn::Sub with variables of its own names the endpoint too."""
    place = {"Fn::Sub": ["endpoint/${E}/variant/AllTraffic", {"E": {"Fn::GetAtt": ["Endpoint1", "EndpointName"]}}]}
    before, after = (served(1, InstanceType=kind) | scaled(place) for kind in ("ml.g6e.2xlarge", "ml.g6e.4xlarge"))
    assert codes(before, after, "LR011") == [("LR011", "break", "Config1")]


@pytest.mark.parametrize(("kind", "value"), [("INSTANCE_COUNT", 2), ("CAPACITY_PERCENT", 90)])
def test_a_batch_of_more_than_half_cannot_roll(kind: str, value: int) -> None:
    """Two of two, or 90 percent."""
    assert codes(served(1), rolling(kind, value), "LR015") == [("LR015", "break", "Endpoint1")]


@pytest.mark.parametrize(("kind", "value"), [("INSTANCE_COUNT", 1), ("CAPACITY_PERCENT", 50)])
def test_a_batch_of_half_rolls(kind: str, value: int) -> None:
    """One of two, or 50 percent."""
    assert codes(served(1), rolling(kind, value), "LR015") == []


def test_a_batch_is_measured_by_what_scaling_keeps() -> None:
    """Two of the four that are always there."""
    assert codes(served(1), rolling("INSTANCE_COUNT", 2) | scaled(MinCapacity=4), "LR015") == []


def test_a_retained_endpoint_is_not_deleted() -> None:
    """It leaves its stack, and runs on."""
    before = served(1)
    before["Endpoint1"]["DeletionPolicy"] = "Retain"
    (finding,) = found(before, {"Config1": before["Config1"]}, "LR001")
    assert finding.severity == "warning"
    assert "deleted with" not in finding.message


def test_scaling_without_a_policy_is_none() -> None:
    """The target stays, and nothing moves it."""
    with_policy, without = served(1) | scaled(), served(1) | {"T": scaled()["T"]}
    assert codes(with_policy, without, "LR013") == [("LR013", "risk", "T")]
    assert codes(without, without, "LR013") == []


def test_suspended_scaling_is_none() -> None:
    """Target and policies stay, and nothing happens."""
    off = {"DynamicScalingOutSuspended": True, "DynamicScalingInSuspended": True}
    suspended = served(1) | scaled(SuspendedState=off)
    assert codes(served(1) | scaled(), suspended, "LR013") == [("LR013", "risk", "T")]
    assert codes(suspended, suspended, "LR013") == []


def test_bounds_lowered_by_code_are_told() -> None:
    """No profile says so, the template does."""
    (finding,) = found(served(1) | scaled(), served(1) | scaled(MaxCapacity=2), "LR014")
    assert finding.message == "the most that scaling keeps of endpoint `chat-1/variant/AllTraffic`: 2 instead of 6"
    assert codes(served(1) | scaled(), served(1) | scaled(MaxCapacity=8), "LR014") == []


def test_an_alarm_may_be_silenced_with_its_topic_in_place() -> None:
    """ActionsEnabled: false tells nobody."""
    loud, silent = (
        {"A": resource("CloudWatch::Alarm", AlarmName="a", AlarmActions=["arn:aws:sns:t"], ActionsEnabled=enabled)}
        for enabled in (True, False)
    )
    assert codes(loud, silent, "LR057") == [("LR057", "warning", "A")]
    assert codes(silent, silent, "LR057") == []


def test_a_digest_is_kept_container_by_container() -> None:
    """The first of two gives it up, the second keeps it."""

    def model(*images: str) -> dict[str, Any]:
        return {"M": resource("SageMaker::Model", Containers=[{"Image": image} for image in images])}

    one, two = (f"{name}@sha256:{'a' * 64}" for name in "xy")
    assert codes(model(one, two), model("x:1", two), "LR045") == [("LR045", "warning", "M")]
    assert codes(model(one, "y:1"), model("y:1", one), "LR045") == []


def test_a_visibility_that_was_short_may_become_shorter() -> None:
    """1000 s against a function of 300 s was a risk; 310 s is a greater one. Alike, or longer, is no news."""

    def consumed(visibility_s: int) -> dict[str, Any]:
        return {
            "Q": resource("SQS::Queue", QueueName="q", VisibilityTimeout=visibility_s),
            "F": resource("Lambda::Function", Code={}, Role="r", Timeout=300),
            "S": resource(
                "Lambda::EventSourceMapping",
                EventSourceArn={"Fn::GetAtt": ["Q", "Arn"]},
                FunctionName={"Ref": "F"},
            ),
        }

    assert codes(consumed(1000), consumed(310), "LR030") == [("LR030", "risk", "Q")]
    assert codes(consumed(310), consumed(310), "LR030") == []
    assert codes(consumed(310), consumed(1000), "LR030") == []
