"""What a change of a property does to its resource: the vendored rows and how they are read."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from loadproof.catalog.create_only import ResourceType, resource_types
from loadproof.review import schemas
from loadproof.review.schemas import DATA, identity_of, is_known, replacement


@pytest.mark.parametrize(
    ("type_name", "path", "expected"),
    [
        ("AWS::SageMaker::EndpointConfig", "ProductionVariants/0/InstanceType", "will"),
        ("AWS::SageMaker::EndpointConfig", "Tags/0/Value", "no"),
        ("AWS::SageMaker::Endpoint", "EndpointName", "will"),
        ("AWS::SageMaker::Endpoint", "EndpointConfigName", "no"),
        ("AWS::SQS::Queue", "FifoQueue", "will"),
        ("AWS::SQS::Queue", "VisibilityTimeout", "no"),
        ("AWS::S3::Bucket", "BucketName", "will"),
        ("AWS::DynamoDB::Table", "KeySchema/0/AttributeName", "will"),
        ("AWS::Lambda::Function", "Code/S3Key", "no"),
        ("AWS::EC2::Instance", "InstanceType", "may"),
        ("AWS::IAM::Role", "AssumeRolePolicyDocument/Statement/0/Action", "no"),
        ("AWS::ApplicationAutoScaling::ScalableTarget", "ResourceId", "will"),
        ("AWS::Unheard::Of", "Name", "no"),
    ],
)
def test_what_a_property_does(type_name: str, path: str, expected: str) -> None:
    """Worked from AWS's documentation of each property: "Update requires"."""
    assert replacement(type_name, tuple(path.split("/"))) == expected


@pytest.mark.parametrize("name", ["EndpointName", "InferenceComponentName", "VariantName"])
def test_a_component_cannot_move(name: str) -> None:
    """UpdateInferenceComponent has no parameter for any of these, whatever AWS's schema leaves out."""
    assert replacement("AWS::SageMaker::InferenceComponent", (name,)) == "will"


def test_a_component_is_updated_in_place_otherwise() -> None:
    """Its image, its copies and its reservation change without a new one."""
    path = ("Specification", "Container", "Image")
    assert replacement("AWS::SageMaker::InferenceComponent", path) == "no"


def test_elements_of_lists_are_covered_by_a_star(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Policies/*/PolicyArn` is the ARN of every policy, and of no policy anything else."""
    known = ResourceType("T", (("Policies", "*", "PolicyArn"),), (), frozenset())
    monkeypatch.setattr(schemas, "resource_types", lambda: {"T": known})
    assert replacement("T", ("Policies", "3", "PolicyArn")) == "will"
    assert replacement("T", ("Policies", "3", "Other")) == "no"


def test_elements_of_lists_are_covered_without_a_star(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's schemas also write `Volumes/Size` where Volumes is a list."""
    known = ResourceType("T", (("Volumes", "Size"),), (), frozenset())
    monkeypatch.setattr(schemas, "resource_types", lambda: {"T": known})
    assert replacement("T", ("Volumes", "0", "Size")) == "will"
    assert replacement("T", ("Volumes", "0", "Other")) == "no"


def test_a_value_above_a_create_only_property_may_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference in place of a whole map: nobody sees whether the fixed part of it changes."""
    known = ResourceType("T", (("Code", "Fixed"),), (), frozenset())
    monkeypatch.setattr(schemas, "resource_types", lambda: {"T": known})
    assert replacement("T", ("Code",)) == "may"


@pytest.mark.parametrize(
    ("type_name", "expected"),
    [
        ("AWS::SQS::Queue", {"QueueName"}),
        ("AWS::DynamoDB::Table", {"TableName"}),
        ("AWS::SageMaker::Endpoint", {"EndpointName"}),
        ("AWS::SageMaker::EndpointConfig", {"EndpointConfigName"}),
        ("AWS::SageMaker::InferenceComponent", {"InferenceComponentName"}),
        ("AWS::StepFunctions::StateMachine", {"StateMachineName"}),
        ("AWS::IAM::Role", {"RoleName"}),
        ("AWS::Logs::LogGroup", {"LogGroupName"}),
        ("AWS::SNS::Topic", {"TopicName"}),
        ("AWS::CloudWatch::Alarm", {"AlarmName"}),
        ("AWS::SSM::Parameter", {"Name"}),
        ("AWS::SecretsManager::Secret", {"Name"}),
        ("AWS::Events::Rule", {"Name"}),
        ("AWS::KMS::Alias", {"AliasName"}),
        ("AWS::ApplicationAutoScaling::ScalableTarget", {"ResourceId", "ScalableDimension", "ServiceNamespace"}),
        ("AWS::KMS::Key", set()),
        ("AWS::Unheard::Of", set()),
    ],
)
def test_the_physical_name(type_name: str, expected: set[str]) -> None:
    """What two resources of a type cannot both have."""
    assert identity_of(type_name) == expected


def test_custom_resources_are_known() -> None:
    """Their own code decides, so nothing is to be said about a missing schema."""
    assert is_known("Custom::AnythingAtAll")
    assert not is_known("AWS::Unheard::Of")


def test_types_that_hold_data_are_types() -> None:
    """A misspelt one would never be found."""
    assert DATA.keys() <= resource_types().keys()
    assert resource_types().keys() >= schemas.BY_DESIGN


@pytest.mark.parametrize("service", ["SageMaker", "ApplicationAutoScaling", "SQS", "Lambda", "IAM", "DynamoDB", "EC2"])
def test_no_create_only_property_of_awss_schemas_is_missing(service: str) -> None:
    """The rows hold what the schemas that cfn-lint carries call create-only."""
    types = {name: body for name, body in _schemas() if name.split("::")[1] == service}
    assert types
    for name, body in types.items():
        wanted = {_path(pointer) for pointer in body.get("createOnlyProperties") or ()}
        assert wanted <= set(resource_types()[name].always), name


def _schemas() -> list[tuple[str, dict[str, Any]]]:
    spec = find_spec("cfnlint")
    assert spec is not None and spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0]) / "data" / "schemas"
    names = json.loads((data / "providers" / "us-east-1.json").read_text("utf-8"))
    chosen = {name: file for name, file in names.items() if name.startswith("AWS::")}
    return [
        (name, json.loads((data / "resources" / f"{file}.json").read_text("utf-8"))) for name, file in chosen.items()
    ]


def _path(pointer: str) -> tuple[str, ...]:
    return tuple(pointer.removeprefix("/properties/").split("/"))


def test_the_rows_are_what_the_script_writes(tmp_path: Path) -> None:
    """Nobody edits them by hand, and a newer cfn-lint or CDK is noticed: run `python scripts/create_only.py`."""
    script = run_path(str(Path(__file__).parents[2] / "scripts" / "create_only.py"))
    vendored: Path = script["WRITTEN"]
    dates = {line.rsplit(",", 1)[1] for line in vendored.read_text("utf-8").splitlines()[1:]}
    assert len(dates) == 1
    written = tmp_path / "create_only.csv"
    script["main"].__globals__["WRITTEN"] = written
    script["main"](dates.pop())
    assert written.read_bytes() == vendored.read_bytes()
