"""Templates: functions worked by hand, and bad ones refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.localcloud.controlplane.cloudformation.schemas import schema_of
from loadproof.localcloud.controlplane.cloudformation.template import NO_VALUE, Resolver, Template, references
from loadproof.localcloud.wire import AwsError

PARAMETERS = {"AWS::Region": "us-east-1", "Name": "chat", "List": ["a", "b"]}


def resolver(**sections: Any) -> Resolver:
    template = Template("", {"Resources": {"R": {"Type": "AWS::SQS::Queue"}}, **sections})

    def lookup(name: str, attribute: str | None) -> Any:
        return f"{name}.{attribute}" if attribute else f"physical-{name}"

    return Resolver(template, PARAMETERS, lookup, lambda name: f"imported-{name}")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"Ref": "Name"}, "chat"),
        ({"Ref": "R"}, "physical-R"),
        ({"Fn::GetAtt": ["R", "Arn"]}, "R.Arn"),
        ({"Fn::GetAtt": "R.A.B"}, "R.A.B"),
        ({"Fn::Join": ["-", ["x", {"Ref": "Name"}, 3, True]]}, "x-chat-3-true"),
        ({"Fn::Sub": "${Name}/${R}/${R.Arn}/${!Kept}/${AWS::Region}"}, "chat/physical-R/R.Arn/${Kept}/us-east-1"),
        ({"Fn::Sub": ["${Own}${Name}", {"Own": {"Ref": "Name"}}]}, "chatchat"),
        ({"Fn::Select": [1, {"Ref": "List"}]}, "b"),
        ({"Fn::Split": ["/", "a/b"]}, ["a", "b"]),
        ({"Fn::If": ["Yes", 1, 2]}, 1),
        ({"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, NO_VALUE),
        ({"a": {"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, "b": 2}, {"b": 2}),
        ({"Fn::FindInMap": ["M", {"Ref": "AWS::Region"}, "x"]}, 7),
        ({"Fn::ImportValue": {"Fn::Sub": "${Name}-arn"}}, "imported-chat-arn"),
        ({"Fn::Base64": "hi"}, "aGk="),
        ({"Fn::Cidr": ["192.168.0.0/24", 3, 5]}, ["192.168.0.0/27", "192.168.0.32/27", "192.168.0.64/27"]),
        ({"Fn::Select": [255, {"Fn::Cidr": ["10.0.0.0/16", "256"]}]}, "10.0.255.0/24"),
        ({"Fn::Cidr": ["2001:db8::/56", 2, 64]}, ["2001:db8::/64", "2001:db8:0:1::/64"]),
    ],
)
def test_functions(expression: Any, value: Any) -> None:
    """Each intrinsic function gives what the CloudFormation reference says."""
    conditions = {"Yes": {"Fn::Equals": [{"Ref": "Name"}, "chat"]}, "No": {"Fn::Not": [{"Condition": "Yes"}]}}
    found = resolver(Conditions=conditions, Mappings={"M": {"us-east-1": {"x": 7}}}).resolve(expression)
    assert found is value if value is NO_VALUE else found == value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "At least one Resources member"),
        ("Resources: {}", "At least one Resources member"),
        ("{", "Template format error"),
        ("Resources: {A: {Typ: x}}", "[/Resources/A] Every Resources object must contain a Type member."),
        ("Surprise: X\nResources: {A: {Type: x}}", "unsupported section Surprise"),
        ("Resources: {A: {Type: x, DependsOn: B}}", "Unresolved resource dependencies [B]"),
        ("Resources: {A: {Type: x, Properties: {P: !Ref C}}}", "Unresolved resource dependencies [C]"),
        ("Resources: {A: {Type: x, Properties: {P: !Guess B}}}", "Encountered unsupported function: Fn::Guess"),
        ("Resources: {A: {Type: x, Properties: {P: !Length [B]}}}", "Encountered unsupported function: Fn::Length"),
        ("Resources: {A: {Type: x, Properties: {P: !Cidr [10.0.0.0/8]}}}", "requires two or three parameters"),
        ("Resources: {A: {Type: x, Properties: {P: !Cidr [10.0.0.0/8, 257, 8]}}}", "takes 1 to 256, found 257"),
        ("Resources: {Fn::ForEach::Q: [N, [a], {'Q${N}': {Type: x}}]}", "is non alphanumeric"),
        (
            "Resources: {A: {Type: x, DependsOn: B}, B: {Type: x, Properties: {P: !GetAtt A.Arn}}}",
            "Circular dependency between resources: [A, B]",
        ),
    ],
)
def test_bad_template_is_refused(body: str, message: str) -> None:
    with pytest.raises(AwsError) as caught:
        Template.read(body).order  # noqa: B018
    assert message in caught.value.message


@pytest.mark.parametrize(
    "argument", [["10.0.0.0/24", 17, 4], ["10.0.0.0/24", 1, 9], ["10.0.0.1/24", 1, 4], ["x", 1, 4]]
)
def test_blocks_that_do_not_fit_are_refused(argument: list[Any]) -> None:
    """Seventeen sixteenths of a block, more than all of it, and what is no block."""
    with pytest.raises(AwsError, match="Fn::Cidr cannot make"):
        resolver().resolve({"Fn::Cidr": argument})


def test_order_follows_references_and_depends_on() -> None:
    """Dependencies come first, however they are written."""
    body = "Resources: {C: {Type: x, Properties: {P: !Sub 'a${B.Arn}'}}, B: {Type: x, DependsOn: [A]}, A: {Type: x}}"
    assert Template.read(body).order == ("A", "B", "C")


def test_policy_versions_in_yaml_stay_text() -> None:
    """`Version: 2012-10-17` is no date."""
    read = Template.read("Resources: {A: {Type: x, Properties: {Version: 2012-10-17}}}")
    assert read.resources["A"]["Properties"]["Version"] == "2012-10-17"


@given(st.text(max_size=200))
def test_any_text_is_a_template_or_a_validation_error(text: str) -> None:
    """Nothing but AwsError comes out of reading."""
    try:
        Template.read(text).order  # noqa: B018
    except AwsError as error:
        assert error.code == "ValidationError"


_KEYS = st.text(max_size=5).filter(lambda key: key not in ("Ref", "Condition") and not key.startswith("Fn::"))


@given(
    st.recursive(
        st.text(max_size=5) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
        max_leaves=20,
    )
)
def test_plain_values_resolve_to_themselves(value: Any) -> None:
    """Without functions there is nothing to do, and nothing is referred to."""
    assert resolver().resolve(value) == value
    assert list(references(value)) == []


def test_schemas_tell_what_only_a_replacement_changes() -> None:
    """By AWS's own schema: a queue's name, but not its timeout; unknown types have none."""
    queue = schema_of("AWS::SQS::Queue", "us-east-1")
    assert queue is not None
    assert "QueueName" in queue.create_only and "VisibilityTimeout" not in queue.create_only
    assert schema_of("AWS::SQS::Kiosk", "us-east-1") is None


def test_schema_refuses_more_than_sixteen_variables_of_a_component() -> None:
    """A limit that only CloudFormation has, and that a template breaks easily."""
    component = schema_of("AWS::SageMaker::InferenceComponent", "us-east-1")
    assert component is not None
    container = {"Image": "x", "Environment": {f"NAME_{index}": "1" for index in range(17)}}
    properties = {"EndpointName": "e", "VariantName": "v", "Specification": {"Container": container}}
    assert any("Environment" in problem for problem in component.problems(properties))
    container["Environment"].popitem()
    assert component.problems(properties) == []
