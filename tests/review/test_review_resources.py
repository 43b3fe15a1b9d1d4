"""What a deployment does to each resource, from hand-written templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.review.model import ResourceChange
from loadproof.review.resources import macros, resource_changes, unknown_types

Resources = dict[str, Any]
HASH = "0123456789abcdef" * 4


def of(kind: str, attributes: Mapping[str, Any] | None = None, /, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties, **(attributes or {})}


def changes(before: Resources, after: Resources, **sections: Any) -> dict[str, ResourceChange]:
    """By logical id, in one stack; `sections` are (before, after) of other parts of the template."""
    old, new = ({name: pair[side] for name, pair in sections.items()} for side in (0, 1))
    found = resource_changes({"S": {"Resources": before, **old}}, {"S": {"Resources": after, **new}})
    return {change.logical_id: change for change in found}


def told(change: ResourceChange) -> list[tuple[str, Any, Any, bool]]:
    return [(one.path, one.before, one.after, one.replaces) for one in change.properties]


QUEUE = of("AWS::SQS::Queue", QueueName="jobs", VisibilityTimeout=30)
GET_ARN = {"Fn::GetAtt": ["Queue", "Arn"]}


def test_equal_templates_change_nothing() -> None:
    assert changes({"Queue": QUEUE}, {"Queue": QUEUE}) == {}


def test_an_update_names_the_property() -> None:
    """Path, before and after; nothing is replaced."""
    found = changes({"Queue": QUEUE}, {"Queue": of("AWS::SQS::Queue", QueueName="jobs", VisibilityTimeout=60)})
    assert found["Queue"].action == "update"
    assert told(found["Queue"]) == [("VisibilityTimeout", 30, 60, False)]


def test_a_create_only_property_replaces() -> None:
    """And the other changes of the resource are told too, by path."""
    found = changes({"Queue": QUEUE}, {"Queue": of("AWS::SQS::Queue", QueueName="tasks", VisibilityTimeout=60)})
    assert found["Queue"].action == "replace"
    assert told(found["Queue"]) == [("QueueName", "jobs", "tasks", True), ("VisibilityTimeout", 30, 60, False)]
    assert not found["Queue"].possible


@pytest.mark.parametrize("argument", [None, True, 3, [], {}, "Queue.Arn", ["Queue", None]])
def test_a_function_that_makes_no_sense_is_shown_as_it_is(argument: object) -> None:
    """A broken template of the other side ends no review."""
    broken = of("AWS::SQS::Queue", QueueName={"Fn::GetAtt": argument})
    assert changes({"Queue": QUEUE}, {"Queue": broken})["Queue"].action == "replace"


def test_added_and_removed() -> None:
    found = changes({"Old": QUEUE}, {"New": QUEUE})
    assert {name: change.action for name, change in found.items()} == {"Old": "remove", "New": "add"}


def test_lists_are_told_by_index() -> None:
    """What an endpoint configuration holds of its variants."""
    before = of("AWS::SageMaker::EndpointConfig", ProductionVariants=[{"InstanceType": "ml.g5.xlarge"}])
    after = of("AWS::SageMaker::EndpointConfig", ProductionVariants=[{"InstanceType": "ml.g6.xlarge"}])
    found = changes({"C": before}, {"C": after})["C"]
    assert told(found) == [("ProductionVariants/0/InstanceType", "ml.g5.xlarge", "ml.g6.xlarge", True)]
    assert found.expected


def test_a_new_type_under_an_old_id_replaces() -> None:
    """CloudFormation refuses it; `Type` is the property that says so."""
    found = changes({"Queue": QUEUE}, {"Queue": of("AWS::SNS::Topic")})["Queue"]
    assert (found.action, found.type) == ("replace", "AWS::SNS::Topic")
    assert told(found) == [("Type", "AWS::SQS::Queue", "AWS::SNS::Topic", True)]


def test_numbers_and_words_are_as_cloudformation_reads_them() -> None:
    """`"true"` is true, `"1"` is 1 and 1.0 is 1; `"1.0"` and `"1"` are two texts."""
    before = of("AWS::SQS::Queue", FifoQueue="true", DelaySeconds="1", QueueName="1", Weight=1)
    after = of("AWS::SQS::Queue", FifoQueue=True, DelaySeconds=1, QueueName="1.0", Weight=1.0)
    assert told(changes({"Q": before}, {"Q": after})["Q"]) == [("QueueName", "1", "1.0", True)]


def test_metadata_order_and_the_libraries_versions_are_no_change() -> None:
    """`Metadata`, `DependsOn` and CDK's own resource change nothing that runs."""
    before = {**QUEUE, "Metadata": {"aws:cdk:path": "a"}, "DependsOn": ["A"]}
    after = {**QUEUE, "Metadata": {"aws:cdk:path": "b"}, "DependsOn": ["B", "A"]}
    cdk = [of("AWS::CDK::Metadata", Analytics=text) for text in ("a", "b")]
    assert changes({"Queue": before, "CDKMetadata": cdk[0]}, {"Queue": after, "CDKMetadata": cdk[1]}) == {}


def test_code_is_updated_and_named_by_its_hash() -> None:
    """Twelve digits of the asset's hash, not a key of seventy characters."""
    other = "f" * 64
    before = of("AWS::Lambda::Function", Code={"S3Bucket": "assets", "S3Key": f"{HASH}.zip"})
    after = of("AWS::Lambda::Function", Code={"S3Bucket": "assets", "S3Key": f"{other}.zip"})
    found = changes({"F": before}, {"F": after})["F"]
    assert found.action == "update"
    assert told(found) == [("Code/S3Key", "asset 0123456789ab", "asset ffffffffffff", False)]


def test_a_replacement_goes_on_to_what_refers_to_it() -> None:
    """The event source of a replaced queue is replaced, because its queue is create-only; the function is updated."""
    source = of("AWS::Lambda::EventSourceMapping", EventSourceArn=GET_ARN, FunctionName="f")
    function = of("AWS::Lambda::Function", Environment={"Variables": {"QUEUE": {"Ref": "Queue"}}})
    alike = {"Source": source, "Function": function}
    after = of("AWS::SQS::Queue", QueueName="tasks", VisibilityTimeout=30)
    found = changes({"Queue": QUEUE, **alike}, {"Queue": after, **alike})
    assert (found["Source"].action, found["Source"].cause) == ("replace", "Queue")
    assert told(found["Source"]) == [("EventSourceArn", "the old Queue", "the new Queue", True)]
    assert (found["Function"].action, found["Function"].cause) == ("update", "Queue")


def test_a_replacement_goes_on_and_on() -> None:
    """VPC, subnet in it, machine in that: the last is replaced because the first is."""
    alike = {
        "Subnet": of("AWS::EC2::Subnet", VpcId={"Ref": "Vpc"}),
        "Machine": of("AWS::EC2::Instance", SubnetId={"Ref": "Subnet"}),
    }
    vpcs = [of("AWS::EC2::VPC", CidrBlock=block) for block in ("10.0.0.0/16", "10.1.0.0/16")]
    found = changes({"Vpc": vpcs[0], **alike}, {"Vpc": vpcs[1], **alike})
    assert [(found[name].action, found[name].cause) for name in ("Subnet", "Machine")] == [
        ("replace", "Vpc"),
        ("replace", "Subnet"),
    ]


def test_references_inside_texts_are_seen() -> None:
    """`Fn::Join`, both forms of `Fn::Sub` and of `Fn::GetAtt` refer like `Ref`; `${!Queue}` and own names do not."""
    values = {
        "Joined": {"Fn::Join": ["", ["x", {"Ref": "Queue"}]]},
        "Text": {"Fn::Sub": "x-${Queue.Arn}"},
        "Pair": {"Fn::Sub": ["x-${Queue}-${Own}", {"Own": "1"}]},
        "Short": {"Fn::GetAtt": "Queue.Arn"},
        "Chosen": {"Fn::If": ["Yes", {"Ref": "Queue"}, "none"]},
        "Literal": {"Fn::Sub": "${!Queue}"},
        "Shadowed": {"Fn::Sub": ["${Queue}", {"Queue": "1"}]},
    }
    alike = {name: of("AWS::Lambda::EventSourceMapping", EventSourceArn=value) for name, value in values.items()}
    after = of("AWS::SQS::Queue", QueueName="tasks", VisibilityTimeout=30)
    found = changes({"Queue": QUEUE, **alike}, {"Queue": after, **alike})
    assert sorted(found.keys() - {"Queue"}) == ["Chosen", "Joined", "Pair", "Short", "Text"]
    assert {found[name].action for name in found} == {"replace"}


def test_an_endpoint_moves_to_its_new_configuration() -> None:
    """The configuration is replaced by design, the endpoint updated because of it."""
    endpoint = of("AWS::SageMaker::Endpoint", EndpointConfigName={"Fn::GetAtt": ["Config", "EndpointConfigName"]})
    configs = [of("AWS::SageMaker::EndpointConfig", KmsKeyId=key) for key in ("a", "b")]
    found = changes({"Config": configs[0], "Endpoint": endpoint}, {"Config": configs[1], "Endpoint": endpoint})
    assert (found["Config"].action, found["Config"].expected) == ("replace", True)
    assert (found["Endpoint"].action, found["Endpoint"].cause, found["Endpoint"].expected) == (
        "update",
        "Config",
        False,
    )


def test_an_endpoint_with_changes_of_its_own_moves_too() -> None:
    """Its own change and the new configuration are both told."""
    before, after = (
        of("AWS::SageMaker::Endpoint", EndpointConfigName={"Ref": "Config"}, RetainAllVariantProperties=value)
        for value in (True, False)
    )
    configs = [of("AWS::SageMaker::EndpointConfig", KmsKeyId=key) for key in ("a", "b")]
    found = changes({"Config": configs[0], "E": before}, {"Config": configs[1], "E": after})["E"]
    assert told(found) == [
        ("RetainAllVariantProperties", True, False, False),
        ("EndpointConfigName", "the old Config", "the new Config", False),
    ]


def test_a_replaced_endpoint_takes_its_components_along() -> None:
    """A component's endpoint is fixed, though AWS's schema does not say so."""
    component = of("AWS::SageMaker::InferenceComponent", EndpointName={"Fn::GetAtt": ["Endpoint", "EndpointName"]})
    endpoints = [of("AWS::SageMaker::Endpoint", EndpointName=name) for name in ("a", "b")]
    found = changes({"Endpoint": endpoints[0], "C": component}, {"Endpoint": endpoints[1], "C": component})["C"]
    assert (found.action, found.cause, found.expected) == ("replace", "Endpoint", False)


def test_an_export_carries_a_replacement_to_the_other_stack() -> None:
    """What a stack imports of a replaced resource changes with it."""
    outputs = {"Arn": {"Value": GET_ARN, "Export": {"Name": "queue-arn"}}}
    queues = [of("AWS::SQS::Queue", QueueName=name) for name in ("a", "b")]
    reader = of("AWS::Lambda::EventSourceMapping", EventSourceArn={"Fn::ImportValue": "queue-arn"})
    before, after = (
        {"A": {"Resources": {"Queue": queue}, "Outputs": outputs}, "B": {"Resources": {"Reader": reader}}}
        for queue in queues
    )
    found = {(one.stack, one.logical_id): one for one in resource_changes(before, after)}
    assert (found["B", "Reader"].action, found["B", "Reader"].cause) == ("replace", "A.Queue")


def test_what_aws_decides_is_marked_possible() -> None:
    """A machine's type can change in place or not; whoever refers to it in a fixed property shares the doubt."""
    machines = [of("AWS::EC2::Instance", InstanceType=name) for name in ("t3.micro", "t3.large")]
    source = of("AWS::Lambda::EventSourceMapping", EventSourceArn={"Ref": "Machine"})
    found = changes({"Machine": machines[0], "Source": source}, {"Machine": machines[1], "Source": source})
    assert [(one.action, one.possible) for one in found.values()] == [("replace", True), ("replace", True)]


def test_kept_by_policy() -> None:
    """A removed bucket with `Retain` stays; a replaced one only where both sides say so for replacements."""
    retain = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    kept, other = (of("AWS::S3::Bucket", retain, BucketName=name) for name in ("a", "b"))
    plain = of("AWS::S3::Bucket", BucketName="b")
    assert changes({"B": kept}, {})["B"].kept
    assert not changes({"B": plain}, {})["B"].kept
    assert changes({"B": kept}, {"B": other})["B"].kept
    assert not changes({"B": kept}, {"B": plain})["B"].kept


def test_a_weaker_deletion_policy_is_an_update() -> None:
    """Nothing happens to the bucket now, and much when it is removed."""
    before = of("AWS::S3::Bucket", {"DeletionPolicy": "Retain"})
    found = changes({"B": before}, {"B": of("AWS::S3::Bucket", {"DeletionPolicy": "Delete"})})["B"]
    assert (found.action, told(found)) == ("update", [("DeletionPolicy", "Retain", "Delete", False)])


def test_a_parameters_default_changes_what_refers_to_it() -> None:
    """The value is taken as the default: rather one change too many."""
    queue = of("AWS::SQS::Queue", QueueName={"Ref": "Name"})
    defaults = [{"Name": {"Type": "String", "Default": name}} for name in ("jobs", "tasks")]
    found = changes({"Queue": queue}, {"Queue": queue}, Parameters=defaults)["Queue"]
    assert (found.action, told(found)) == ("replace", [("QueueName", "jobs", "tasks", True)])


def test_a_conditions_definition_changes_what_hangs_on_it() -> None:
    """Also where the condition is written in terms of another, or of a mapping."""
    queue = of("AWS::SQS::Queue", {"Condition": "Made"}, QueueName={"Fn::If": ["Fast", "a", "b"]})
    conditions = [
        {
            "Fast": {"Fn::Not": [{"Condition": "Base"}]},
            "Base": {"Fn::Equals": [value, "1"]},
            "Made": {"Fn::Equals": [1, 1]},
        }
        for value in ("1", "2")
    ]
    found = changes({"Queue": queue}, {"Queue": queue}, Conditions=conditions)["Queue"]
    assert found.action == "replace"
    assert [one.path for one in found.properties] == ["QueueName"]
    assert found.properties[0].before != found.properties[0].after


def test_an_unchanged_condition_changes_nothing() -> None:
    queue = of("AWS::SQS::Queue", {"Condition": "Made"}, QueueName={"Fn::If": ["Made", "a", "b"]})
    conditions = {"Made": {"Fn::Equals": [1, 1]}}
    assert changes({"Queue": queue}, {"Queue": queue}, Conditions=(conditions, conditions)) == {}


def test_secrets_are_never_told() -> None:
    """By the name of the variable, by the shape of the value, by a word inside it."""
    before = of("AWS::Lambda::Function", Environment={"Variables": {"A": "1", "API_KEY": "x", "ARGS": "--level 3"}})
    after = of(
        "AWS::Lambda::Function",
        Environment={"Variables": {"A": f"hf_{'a1' * 12}", "API_KEY": "opensesame", "ARGS": "--password hunter2"}},
    )
    found = changes({"F": before}, {"F": after})["F"]
    assert told(found) == [
        ("Environment/Variables/A", "1", "(value hidden)", False),
        ("Environment/Variables/API_KEY", "(value hidden)", "(value hidden)", False),
        ("Environment/Variables/ARGS", "--level 3", "(value hidden)", False),
    ]


def test_references_are_readable() -> None:
    """A logical id looks like a key, and is shown."""
    before, after = (
        of("AWS::SageMaker::InferenceComponent", RuntimeConfig={"CopyCount": count})
        for count in (1, {"Fn::GetAtt": ["EndpointComponentmainc3429b05CopiesF448C84C", "CopyCount"]})
    )
    found = changes({"C": before}, {"C": after})["C"]
    assert found.properties[0].after == "${EndpointComponentmainc3429b05CopiesF448C84C.CopyCount}"


def test_long_texts_are_cut_where_they_differ() -> None:
    """At most 100 characters, the difference among them."""
    before, after = (of("AWS::CloudWatch::Dashboard", DashboardBody=f"{'a' * 500}{x}{'b' * 500}") for x in "xy")
    (body,) = changes({"D": before}, {"D": after})["D"].properties
    assert len(body.before) == 100
    assert body.before.startswith(f"…{'a' * 20}xb") and body.after.startswith(f"…{'a' * 20}yb")


def test_unknown_types_are_named() -> None:
    """Its changes are taken as updates, which somebody should know."""
    before, after = (of("AWS::Unheard::Of", Name=name) for name in "ab")
    found = changes({"X": before}, {"X": after})
    assert found["X"].action == "update"
    assert unknown_types(found.values()) == ("AWS::Unheard::Of",)


def test_macros_are_named() -> None:
    """What AWS makes of a template with `Transform` or `Fn::ForEach` is not in it."""
    templates = {
        "A": {"Resources": {"Fn::ForEach::Queues": ["Name", ["a"], {"Q${Name}": QUEUE}]}},
        "B": {"Transform": "AWS::Serverless-2016-10-31", "Resources": {}},
        "C": {"Resources": {"Queue": QUEUE}},
    }
    assert macros(templates) == ("A", "B")


_ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["Queue", "Made", "${Queue}", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["Ref", "Fn::GetAtt", "Fn::Sub", "Fn::If", "Fn::FindInMap", "Condition", "Fn::Join", "a", "with"]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=8,
)
_ODD_TEMPLATE = st.fixed_dictionaries(
    {},
    optional={
        "Resources": st.dictionaries(
            st.sampled_from(["Queue", "Other"]),
            st.fixed_dictionaries(
                {"Type": st.sampled_from(["AWS::SQS::Queue", "AWS::S3::Bucket"])},
                optional={"Properties": st.dictionaries(st.sampled_from(["QueueName", "a"]), _ODD), "Condition": _ODD},
            )
            | _ODD,
        )
        | _ODD,
        **{
            name: st.dictionaries(st.sampled_from(["Queue", "Made"]), _ODD) | _ODD
            for name in ("Parameters", "Conditions", "Outputs")
        },
    },
)


@given(_ODD_TEMPLATE, _ODD_TEMPLATE)
@settings(max_examples=150)
def test_no_template_is_too_odd(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Whatever a template holds, something is told and nothing raised; itself it does not differ from."""
    resource_changes({"S": before}, {"S": after})
    assert resource_changes({"S": before}, {"S": before}) == ()


def test_stacks_come_and_go() -> None:
    """All resources of a stack that one side does not have, sorted by stack and logical id."""
    before = {"B": {"Resources": {"Q": QUEUE}}, "A": {"Resources": {"Z": QUEUE, "Y": QUEUE}}}
    found = resource_changes(before, {})
    assert [(one.stack, one.logical_id, one.action) for one in found] == [
        ("A", "Y", "remove"),
        ("A", "Z", "remove"),
        ("B", "Q", "remove"),
    ]
