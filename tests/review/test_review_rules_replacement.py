"""What a review says is replaced, moved or removed (LR001 to LR007): by severity, place and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import review_profiles
from review_rules_support import Resources, found, resource, reviewed, side

from loadproof.review.model import Finding, Side
from loadproof.review.rules import NOT_JUDGED


def endpoint(name: str = "chat", **attributes: Any) -> dict[str, Any]:
    return resource("SageMaker::Endpoint", EndpointName=name, EndpointConfigName="c") | attributes


def component(name: str = "llama", at: Any = None, variant: str = "main", model: str = "m", **attributes: Any) -> Any:
    made = resource(
        "SageMaker::InferenceComponent",
        InferenceComponentName=name,
        EndpointName={"Ref": "Endpoint"} if at is None else at,
        VariantName=variant,
        Specification={"ModelName": model},
    )
    return made | attributes


def one(before: Resources, after: Resources, code: str) -> Finding:
    (finding,) = found(before, after, code)
    return finding


def codes(before: Side, after: Side) -> list[tuple[str, str]]:
    """What of LR001 to LR007 is found, with what it is about."""
    return [(each.code, each.place) for each in reviewed(before, after) if each.code < "LR008"]


def stacks(**resources: Resources) -> Side:
    """A side of several stacks."""
    return replace(side({}), templates={name: {"Resources": dict(each)} for name, each in resources.items()})


KEPT = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}


def test_a_renamed_endpoint_is_replaced() -> None:
    """The old one goes with its copies, and the property that did it is named."""
    finding = one({"Endpoint": endpoint()}, {"Endpoint": endpoint("talk")}, "LR001")
    assert (finding.severity, finding.place, finding.evidence) == ("break", "Endpoint", "changed: EndpointName")
    assert finding.message == (
        "endpoint `chat` is replaced by `talk`: the old one is deleted with its copies and its streams"
    )


def test_a_retained_endpoint_stays_beside_the_new_one() -> None:
    """It is billed on."""
    finding = one({"Endpoint": endpoint(**KEPT)}, {"Endpoint": endpoint("talk", **KEPT)}, "LR001")
    assert finding.severity == "break"
    assert finding.message == "endpoint `chat` is replaced by `talk`: the old one stays beside it and is billed on"


def test_an_endpoint_that_keeps_its_name_is_replaced_by_another() -> None:
    """What stood under its logical id was of another type: there is no new name to tell."""
    finding = one({"Endpoint": endpoint(Type="AWS::SageMaker::Model")}, {"Endpoint": endpoint()}, "LR001")
    assert finding.message.startswith("endpoint `chat` is replaced by another endpoint: the old one is deleted")


def test_a_removed_endpoint_is_deleted_with_all_on_it() -> None:
    """Nothing forces it, so there is no evidence."""
    finding = one({"Endpoint": endpoint()}, {}, "LR001")
    assert (finding.severity, finding.evidence) == ("break", "")
    assert (
        finding.message
        == "endpoint `chat` is deleted with everything that runs on it; requests to it fail from then on"
    )


def test_a_removed_endpoint_that_is_retained_is_a_warning() -> None:
    """It runs on."""
    finding = one({"Endpoint": endpoint(**KEPT)}, {}, "LR001")
    assert finding.severity == "warning"
    assert finding.message.startswith(
        "endpoint `chat` leaves its stack and is kept (DeletionPolicy Retain): it runs on"
    )


def test_an_endpoint_that_stays_is_no_finding() -> None:
    """Another configuration is an update, and a new endpoint replaces nothing."""
    updated = endpoint()
    updated["Properties"] = {**updated["Properties"], "EndpointConfigName": "d"}
    assert codes(side({"Endpoint": endpoint()}), side({"Endpoint": updated})) == []
    assert codes(side({"Model": resource("SageMaker::Model")}), side({"Model": resource("SageMaker::Model")})) == []
    assert codes(side({}), side({"Endpoint": endpoint()})) == []


def test_a_renamed_component_is_loaded_again() -> None:
    """All its copies are deleted."""
    both = {"Endpoint": endpoint()}
    finding = one(both | {"C": component()}, both | {"C": component("qwen")}, "LR002")
    assert (finding.severity, finding.place) == ("break", "C")
    assert finding.evidence == "changed: InferenceComponentName"
    assert finding.message == (
        "inference component `llama` becomes `qwen`: all its copies are deleted and the model is loaded again"
    )


def test_a_component_made_again_under_its_name_says_so() -> None:
    """Its type was another before."""
    both = {"Endpoint": endpoint()}
    other = component(Type="AWS::SageMaker::Model")
    finding = one(both | {"C": other}, both | {"C": component()}, "LR002")
    assert finding.message.startswith("inference component `llama` is made again: ")
    assert finding.evidence == "changed: Type"


def test_a_removed_component_answers_no_longer() -> None:
    """Under the logical id, where no profile explains it."""
    both = {"Endpoint": endpoint()}
    finding = one(both | {"C": component()}, both, "LR002")
    assert (finding.severity, finding.place, finding.evidence) == ("break", "C", "")
    assert finding.message == "inference component `llama` is deleted with its copies: its model answers no longer"


def test_what_the_profile_removed_is_told_by_its_field() -> None:
    """`components` changed, and that is where a reader looks."""
    embed = {"name": "embed", "model": review_profiles.PLAIN["model"], "container": review_profiles.PLAIN["container"]}
    room = {"endpoint": {"max_instances": 9}}
    two = room | {"components": [embed]}
    sides = [
        replace(review_profiles.side(changes), templates={"chat": {"Resources": resources}})
        for changes, resources in ((two, {"Endpoint": endpoint(), "C": component()}), (room, {"Endpoint": endpoint()}))
    ]
    (subject,) = [subject for code, subject in codes(*sides) if code == "LR002"]
    assert subject.startswith("components")


def test_a_component_goes_with_its_endpoint() -> None:
    """Replaced or removed, the endpoint's finding says it all; another endpoint's removal says nothing of it."""
    before = {"Endpoint": endpoint(), "C": component("llama")}
    assert codes(side(before), side({})) == [("LR001", "Endpoint")]
    assert codes(side(before), side({"Endpoint": endpoint("talk"), "C": component("qwen")})) == [("LR001", "Endpoint")]
    other = {"Other": endpoint("other")}
    assert codes(side(before | other), side({"Endpoint": endpoint()})) == [("LR001", "Other"), ("LR002", "C")]
    updated = endpoint()
    updated["Properties"] = {**updated["Properties"], "EndpointConfigName": "d"}
    assert codes(side(before), side({"Endpoint": updated})) == [("LR002", "C")]


def test_a_component_on_another_endpoint_has_moved() -> None:
    """It is told once, with both places by their names, and under its old name AWS refuses it."""
    both = {"Endpoint": endpoint(), "Large": endpoint("large")}
    before, after = both | {"C": component()}, both | {"C": component(at={"Ref": "Large"})}
    assert codes(side(before), side(after)) == [("LR003", "C"), ("LR004", "C")]
    assert one(before, after, "LR003").message == (
        "inference component `llama` moves from endpoint `chat`, variant `main` to endpoint `large`, variant `main`: "
        "it is deleted and made again, its copies load the model again"
    )


def test_a_move_names_each_endpoint_as_its_own_side_does() -> None:
    """The old endpoint is gone afterwards, the new one was not there before."""
    message = one(
        {"Endpoint": endpoint(), "C": component()},
        {"Large": endpoint("large"), "C": component(at={"Ref": "Large"})},
        "LR003",
    ).message
    assert "from endpoint `chat`, variant `main` to endpoint `large`, variant `main`" in message


def test_a_component_on_another_variant_has_moved() -> None:
    """An endpoint that no template holds is named as it is written, and a variant only where there is one."""
    before, after = {"C": component(at="far")}, {"C": component(at="far", variant="")}
    message = one(before, after, "LR003").message
    assert message.startswith(
        "inference component `llama` moves from endpoint `far`, variant `main` to endpoint `far`:"
    )


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("llama", "other", ["LR003", "LR004"]),  # known again by its name
        ("qwen", "m", ["LR003"]),  # known again by what it runs
        ("qwen", "other", ["LR002"]),
    ],
)
def test_a_component_under_a_new_id_is_known_by_name_or_work(name: str, model: str, expected: list[str]) -> None:
    """Elsewhere, and the old one gone: it has moved. Otherwise one is deleted and another comes."""
    both = {"Endpoint": endpoint(), "Large": endpoint("large")}
    after = side(both | {"New": component(name, at={"Ref": "Large"}, model=model)})
    assert [code for code, _ in codes(side(both | {"Old": component()}), after)] == expected


def test_a_component_under_a_new_id_in_its_place_has_not_moved() -> None:
    """The old one is deleted and the new one refused under its name."""
    both = {"Endpoint": endpoint()}
    assert codes(side(both | {"Old": component()}), side(both | {"New": component()})) == [
        ("LR002", "Old"),
        ("LR004", "New"),
    ]


QUEUE = resource("SQS::Queue", QueueName="in", FifoQueue=True)
STANDARD = resource("SQS::Queue", QueueName="in", FifoQueue=False)


def test_a_replacement_that_keeps_its_name_is_refused() -> None:
    """AWS makes the new queue before it deletes the old one."""
    finding = one({"Q": QUEUE}, {"Q": STANDARD}, "LR004")
    assert (finding.severity, finding.place, finding.evidence) == ("break", "Q", "changed: FifoQueue")
    assert finding.message == (
        "SQS Queue `in` is replaced under its old name: AWS refuses a second one, the deployment fails"
    )


@pytest.mark.parametrize("name", [{"QueueName": "out"}, {"QueueName": {"Ref": "P"}}, {}])
def test_a_replacement_under_another_name_is_not_refused(name: Mapping[str, Any]) -> None:
    """Nor under one that only the deployment knows, or that AWS makes up."""
    assert found({"Q": QUEUE}, {"Q": resource("SQS::Queue", FifoQueue=False, **name)}, "LR004", NOT_JUDGED) == []


def test_a_name_of_two_parts_collides_by_both() -> None:
    """A policy of the same name on another role is another policy."""
    before, after, other = (
        resource("IAM::RolePolicy", PolicyName=name, RoleName=role, PolicyDocument={})
        for name, role in (("p", "a"), ("p", "b"), ("q", "a"))
    )
    assert found({"P": before}, {"P": after}, "LR004") == found({"P": before}, {"P": other}, "LR004") == []


def test_a_name_that_only_the_deployment_knows_is_not_judged() -> None:
    """The parameter may have changed with it."""
    before, after = (resource("SQS::Queue", QueueName={"Ref": "P"}, FifoQueue=fifo) for fifo in (True, False))
    assert found({"Q": before}, {"Q": after}, "LR004") == []


def test_names_of_another_type_do_not_collide() -> None:
    """A table and a queue may both be called `in`."""
    assert found({"Q": QUEUE}, {"Q": resource("SNS::Topic", TopicName="in")}, "LR004") == []
    assert found({"Q": QUEUE}, {"New": resource("SNS::Topic", TopicName="in")}, "LR004") == []


def test_an_update_collides_with_nothing() -> None:
    """Its name is its own."""
    longer = resource("SQS::Queue", QueueName="in", FifoQueue=True, VisibilityTimeout=60)
    assert found({"Q": QUEUE}, {"Q": longer}, "LR004") == []


def test_a_component_keeps_its_name_from_a_new_one() -> None:
    """The name of a component is no identity in AWS's schema, and one of it all the same."""
    finding = one({"C": component(at="far")}, {"C": component(at="near")}, "LR004")
    assert finding.message.startswith("SageMaker InferenceComponent `llama` is replaced under its old name: ")


def test_a_new_resource_may_not_take_a_removed_ones_name() -> None:
    """Under another id in the same stack: the old one is still there when it is made."""
    finding = one({"Old": QUEUE}, {"New": QUEUE}, "LR004")
    assert (finding.severity, finding.place, finding.evidence) == ("break", "New", "")
    assert finding.message.startswith("SQS Queue `in` takes the place of Old under its old name: ")
    assert found({"Old": QUEUE}, {"New": resource("SQS::Queue", QueueName="out")}, "LR004") == []
    assert found({"Old": QUEUE}, {"Old": QUEUE, "New": QUEUE}, "LR004") == []


def test_a_name_is_held_until_all_new_resources_are_made() -> None:
    """A replaced resource may not take the name that a removed or a replaced one has."""
    out, other = (resource("SQS::Queue", QueueName="out", FifoQueue=fifo) for fifo in (True, False))
    finding = one({"A": QUEUE, "Old": out}, {"A": other}, "LR004")
    assert (finding.place, finding.message[:54]) == ("A", "SQS Queue `out` takes the place of Old under its old n")
    assert [each.place for each in found({"A": QUEUE, "B": out}, {"A": out, "B": QUEUE}, "LR004")] == ["A", "B"]


def test_an_update_beside_a_removal_keeps_its_own_name() -> None:
    """Two queues of one name under opposite conditions: what is updated had the name before."""
    longer = resource("SQS::Queue", QueueName="in", FifoQueue=True, VisibilityTimeout=60)
    assert found({"A": QUEUE, "B": QUEUE}, {"A": longer}, "LR004") == []


def test_a_name_of_two_parts_is_told_by_its_first() -> None:
    """A policy is known by its own name, not by its role's."""
    policy = resource("IAM::RolePolicy", PolicyName="p", RoleName="r", PolicyDocument={})
    assert one({"Old": policy}, {"New": policy}, "LR004").message.startswith("IAM RolePolicy `p` takes the place of ")


def test_a_name_is_known_only_where_all_its_parts_are() -> None:
    """The same policy name on a role that only the deployment knows."""
    policy = resource("IAM::RolePolicy", PolicyName="p", RoleName={"Ref": "P"}, PolicyDocument={})
    assert found({"Old": policy}, {"New": policy}, "LR004") == []


def test_another_stacks_name_may_be_free_in_time() -> None:
    """Which stack is deployed first decides."""
    before, after = stacks(a={"Old": QUEUE}, b={}), stacks(a={}, b={"New": QUEUE})
    assert [(each.code, each.severity) for each in reviewed(before, after) if each.code == "LR004"] == [
        ("LR004", "risk")
    ]


def test_nothing_collides_where_one_side_is_not_known() -> None:
    """A base that was not synthesized may have had any name."""
    unknown = replace(side({"Q": QUEUE}), templates={})
    assert codes(unknown, side({"Q": STANDARD})) == codes(side({"Q": QUEUE}), unknown) == []


def function(**properties: Any) -> dict[str, Any]:
    return resource("Lambda::Function", FunctionName="f", Code={}, Role="r", **properties)


def test_a_replacement_that_aws_may_not_make_is_a_risk() -> None:
    """Its schema calls `DurableConfig` of a function conditional."""
    finding = one({"F": function()}, {"F": function(DurableConfig={"ExecutionTimeout": 60})}, "LR004")
    assert (finding.severity, finding.evidence) == ("risk", "changed: DurableConfig/ExecutionTimeout")


TOPIC = resource("SNS::Topic", TopicName="alarms")


def test_a_replaced_topic_loses_the_subscriptions_of_others() -> None:
    """It is told by the name it had."""
    finding = one({"T": TOPIC}, {"T": resource("SNS::Topic", TopicName="pages")}, "LR005")
    assert (finding.severity, finding.place, finding.evidence) == ("warning", "T", "changed: TopicName")
    assert finding.message.startswith("SNS Topic alarms is replaced: subscriptions that were not made by this stack")


def test_a_removed_topic_is_not_replaced() -> None:
    """Nor is one that only has another display name."""
    assert found({"T": TOPIC}, {}, "LR005") == []
    shown = resource("SNS::Topic", TopicName="alarms", DisplayName="Alarms")
    assert found({"T": TOPIC}, {"T": shown}, "LR005") == []


def test_a_queue_is_held_by_nobody_else() -> None:
    """Its replacement is no news of LR005."""
    assert found({"Q": QUEUE}, {"Q": resource("SQS::Queue", QueueName="out")}, "LR005") == []


def test_what_is_replaced_with_another_is_told_there() -> None:
    """A security group of a replaced network follows it; LR005 names only what was changed itself."""
    group = resource("EC2::SecurityGroup", GroupDescription="g", VpcId={"Ref": "Vpc"})
    before, after = (
        {"Vpc": resource("EC2::VPC", CidrBlock=block), "Group": group} for block in ("10.0.0.0/16", "10.1.0.0/16")
    )
    assert found(before, after, "LR005") == []
    moved = resource("EC2::SecurityGroup", GroupDescription="h", VpcId="v")
    assert one({"Group": group}, {"Group": moved}, "LR005").evidence == "changed: GroupDescription, VpcId"


def test_what_follows_another_replacement_names_it() -> None:
    """A component of a replaced endpoint keeps its name, and collides with its old self."""
    at = {"Fn::GetAtt": ["Endpoint", "EndpointName"]}
    before, after = ({"Endpoint": endpoint(name), "C": component(at=at)} for name in ("chat", "talk"))
    assert one(before, after, "LR004").evidence == "it refers to Endpoint, which is replaced"


def test_three_properties_are_named_and_no_more() -> None:
    """Only those that force the replacement, and of four the first three."""
    old = {"ServiceName": "s3", "ServiceRegion": "a", "VpcEndpointType": "Gateway", "VpcId": "v", "PolicyDocument": {}}
    new = {"ServiceName": "kms", "ServiceRegion": "b", "VpcEndpointType": "Interface", "VpcId": "w"}
    before, after = (resource("EC2::VPCEndpoint", **each) for each in (old, new))
    assert one({"E": before}, {"E": after}, "LR005").evidence == "changed: ServiceName, ServiceRegion, VpcEndpointType"


PLAIN = {
    "endpoint": {"hosting": "plain_variant"},
    "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_model", "target": 4}]},
}


def test_another_kind_of_hosting_breaks_its_callers() -> None:
    """In either direction, and only where it changes."""
    components, plain = review_profiles.side(), review_profiles.side(PLAIN)
    messages = {
        each.message
        for pair in ((components, plain), (plain, components))
        for each in reviewed(*pair)
        if each.code == "LR006"
    }
    assert messages == {
        "the endpoint changes from inference components to a plain variant under its callers",
        "the endpoint changes from a plain variant to inference components under its callers",
    }
    assert codes(components, plain) == [("LR006", "endpoint.hosting")]
    assert codes(plain, plain) == []


def test_another_backend_is_another_api() -> None:
    """It is all that is said: hosting goes with it."""
    sagemaker, bedrock = review_profiles.side(), review_profiles.side(review_profiles.BEDROCK)
    (finding,) = [each for each in reviewed(sagemaker, bedrock) if each.code == "LR007"]
    assert (finding.severity, finding.place) == ("break", "backend")
    assert finding.message.startswith("the model moves from sagemaker to bedrock: ")
    assert codes(sagemaker, bedrock) == codes(bedrock, sagemaker) == [("LR007", "backend")]
    assert codes(bedrock, bedrock) == []


@pytest.mark.parametrize(
    ("changes", "code", "subject"),
    [(review_profiles.BEDROCK, "LR007", "backend"), (PLAIN, "LR006", "endpoint.hosting")],
)
def test_what_goes_with_the_old_kind_is_not_told_again(changes: dict[str, Any], code: str, subject: str) -> None:
    """Endpoint and components of the old backend, components of the old hosting."""
    before = replace(
        review_profiles.side(), templates={"chat": {"Resources": {"Endpoint": endpoint(), "C": component()}}}
    )
    left = {} if code == "LR007" else {"Endpoint": endpoint()}
    after = replace(review_profiles.side(changes), templates={"chat": {"Resources": left}})
    assert codes(before, after) == [(code, subject)]
