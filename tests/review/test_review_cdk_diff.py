"""No replacement that `cdk diff --method=template` shows is missed: its own library and the CLI against the review."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from review_pairs import pairs

from loadproof.catalog.create_only import resource_types
from loadproof.review.resources import resource_changes

ROOT = Path(__file__).parents[2]
Template = Mapping[str, Any]
FullDiff = Callable[[Template, Template], dict[str, str] | None]
REPLACED = ("WILL_REPLACE", "MAY_REPLACE")
ACTIONS = {"WILL_CREATE": "add", "WILL_DESTROY": "remove", "WILL_ORPHAN": "remove"}

# What a platform team puts beside an endpoint, each referring to others in create-only and in other properties.
NEIGHBOURS: dict[str, Any] = {
    "Resources": {
        "Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {"Version": "2012-10-17"}, "Description": "a"}},
        "Queue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {"QueueName": "jobs", "KmsMasterKeyId": {"Ref": "Key"}, "VisibilityTimeout": 30},
        },
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        },
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17"}, "Path": "/a/"},
        },
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Bucket": "assets", "S3Key": f"{'a' * 64}.zip"},
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Environment": {"Variables": {"QUEUE": {"Ref": "Queue"}}},
            },
        },
        "Source": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
                "FunctionName": {"Ref": "Function"},
                "BatchSize": 1,
            },
        },
        "Permission": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Fn::GetAtt": ["Function", "Arn"]},
                "Principal": "events.amazonaws.com",
            },
        },
        "Version": {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "Function"}}},
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24"},
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "endpoints", "VpcId": {"Ref": "Vpc"}},
        },
        "VpcEndpoint": {
            "Type": "AWS::EC2::VPCEndpoint",
            "Properties": {
                "ServiceName": "com.amazonaws.us-east-1.sagemaker.runtime",
                "VpcId": {"Ref": "Vpc"},
                "VpcEndpointType": "Interface",
                "SecurityGroupIds": [{"Ref": "Group"}],
            },
        },
        "Machine": {
            "Type": "AWS::EC2::Instance",
            "Properties": {"InstanceType": "t3.micro", "ImageId": "ami-1", "SubnetId": {"Ref": "Subnet"}},
        },
        "Parameter": {"Type": "AWS::SSM::Parameter", "Properties": {"Name": "/a", "Type": "String", "Value": "1"}},
        "Custom": {
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "Count": "1"},
        },
    }
}


@pytest.fixture(scope="module")
def full_diff() -> Iterator[FullDiff]:
    """The library that the CDK CLI calls, in one process for all questions."""
    node = subprocess.Popen(
        ["node", str(Path(__file__).parent / "cdk_full_diff.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=_environment(),
    )
    assert node.stdin is not None and node.stdout is not None
    asked, told = node.stdin, node.stdout

    def ask(before: Template, after: Template) -> dict[str, str]:
        asked.write(json.dumps({"before": before, "after": after}) + "\n")
        asked.flush()
        impacts: dict[str, str] | None = json.loads(told.readline())
        return impacts

    yield ask
    asked.close()
    node.wait(timeout=60)


def _environment() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(ROOT / "node_modules")}


def _missed(impacts: Mapping[str, str] | None, before: Template, after: Template) -> list[str]:
    """What the CLI shows as replaced, made or removed, and the review does not."""
    assert impacts is not None, "the CLI's own diff failed"
    actions = {change.logical_id: change.action for change in resource_changes({"S": before}, {"S": after})}
    types = {
        logical_id: body["Type"]
        for side in (before, after)
        for logical_id, body in (side.get("Resources") or {}).items()
    }
    missed = []
    for logical_id, impact in sorted(impacts.items()):
        wanted = "replace" if impact in REPLACED else ACTIONS.get(impact)
        if wanted and actions.get(logical_id) != wanted and types[logical_id] != "AWS::CDK::Metadata":
            missed.append(f"{logical_id} ({types[logical_id]}): cdk {impact}, review {actions.get(logical_id)}")
    return missed


def _made_up(impacts: Mapping[str, str], before: Template, after: Template) -> set[str]:
    """Types of what the review replaces and the CLI does not."""
    found = resource_changes({"S": before}, {"S": after})
    return {one.type for one in found if one.action == "replace" and impacts.get(one.logical_id) not in REPLACED}


def test_no_replacement_of_the_pairs_is_missed_and_none_made_up(full_diff: FullDiff) -> None:
    """Every pair of tests/review/pairs, every stack of it, both ways round.

    What the review replaces beyond the CLI is a component: AWS's schema leaves its fixed properties out.
    """
    compared = 0
    for name, pair, _ in pairs():
        before = pair.before.templates if pair.before else {}
        after = pair.after.templates if pair.after else {}
        for stack in before.keys() | after.keys():
            for one, other in ((before, after), (after, before)):
                old, new = one.get(stack, {}), other.get(stack, {})
                impacts = full_diff(old, new)
                assert _missed(impacts, old, new) == [], name
                assert _made_up(impacts or {}, old, new) <= {"AWS::SageMaker::InferenceComponent"}, name
                compared += 1
    assert compared >= 10


def test_every_create_only_property_of_the_clis_own_types_is_known(full_diff: FullDiff) -> None:
    """A resource of each type with one property changed, for each property that anyone calls create-only."""
    replaced = 0
    for known in resource_types().values():
        before: dict[str, Any] = {"Resources": {}}
        after: dict[str, Any] = {"Resources": {}}
        for at, path in enumerate((*known.always, *known.conditional)):
            for side, value in ((before, "a"), (after, "b")):
                side["Resources"][f"R{at}"] = {"Type": known.name, "Properties": {path[0]: value}}
        impacts = full_diff(before, after)
        if impacts is not None:
            assert _missed(impacts, before, after) == []
            replaced += sum(impact in REPLACED for impact in impacts.values())
    assert replaced > 4000


@pytest.fixture(scope="module")
def synthesized() -> list[Template]:
    """Templates of our own stacks, to be edited: the three that hold most."""
    found = [template for _, pair, _ in pairs() if pair.after for template in pair.after.templates.values()]
    return sorted(found, key=lambda template: -len(json.dumps(template)))[:3]


_VALUES = ("a", "b", "1", 1, 0, True, "true", [], {}, ["a"], ["a", "b"], {"a": 1})
_EDITS = ("set", "set", "set", "unset", "refer", "refer", "drop", "rename", "type", "policy")


def _edited(template: Template, random: Random) -> dict[str, Any]:
    """The template after a few edits somebody could make, sensible or not."""
    edited = copy.deepcopy(dict(template))
    resources: dict[str, Any] = edited["Resources"]
    for _ in range(random.randint(1, 5)):
        logical_id = random.choice(sorted(resources))
        resource = resources[logical_id]
        properties = resource.setdefault("Properties", {})
        known = resource_types().get(resource["Type"])
        fixed = [path[0] for path in (*known.always, *known.conditional)] if known else []
        name = random.choice(sorted({*properties, *fixed, "Anything"}))
        edit = random.choice(_EDITS)
        if edit == "set":
            properties[name] = random.choice(_VALUES)
        elif edit == "unset":
            properties.pop(name, None)
        elif edit == "refer":
            properties[name] = _reference(random, random.choice(sorted(resources)))
        elif edit == "drop" and len(resources) > 1:
            del resources[logical_id]
        elif edit == "rename":
            resources[f"{logical_id}2"] = resources.pop(logical_id)
        elif edit == "type":
            resource["Type"] = random.choice(["AWS::SQS::Queue", "AWS::SNS::Topic", "Custom::Other"])
        elif edit == "policy":
            resource["DeletionPolicy"] = random.choice(["Retain", "Delete"])
    return edited


def _reference(random: Random, to: str) -> Any:
    value = random.choice([{"Ref": to}, {"Fn::GetAtt": [to, "Arn"]}, {"Fn::GetAtt": f"{to}.Arn"}])
    return random.choice([value, {"Fn::Join": ["", ["x", value]]}, {"In": [value]}])


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_no_replacement_of_edited_neighbours_is_missed(full_diff: FullDiff, random: Random) -> None:
    """Two edits of one template, one after the other: what the first refers to, the second may replace."""
    before = _edited(NEIGHBOURS, random)
    after = _edited(before, random)
    impacts = full_diff(before, after)
    assume(impacts is not None)
    assert _missed(impacts, before, after) == []


@given(st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_no_replacement_of_edited_stacks_is_missed(
    full_diff: FullDiff, synthesized: list[Template], random: Random
) -> None:
    """The same of what our own stacks synthesize."""
    before = random.choice(synthesized)
    after = _edited(before, random)
    impacts = full_diff(before, after)
    assume(impacts is not None)
    assert _missed(impacts, before, after) == []


@pytest.mark.cdk
def test_the_command_itself_shows_no_more(tmp_path: Path) -> None:
    """`cdk diff --method=template` prints `replace` or `may be replaced` for nothing but what the review replaces."""
    after = copy.deepcopy(NEIGHBOURS)
    after["Resources"]["Queue"]["Properties"]["QueueName"] = "tasks"  # and with it the event source
    after["Resources"]["Group"]["Properties"]["GroupName"] = "endpoints"
    after["Resources"]["Machine"]["Properties"]["InstanceType"] = "t3.large"  # may be replaced
    after["Resources"]["Function"]["Properties"]["Code"]["S3Key"] = f"{'b' * 64}.zip"
    printed = _cdk_diff(tmp_path, NEIGHBOURS, after)
    shown = _shown_replaced(printed)
    assert shown == {"Queue", "Source", "Group", "Machine"}
    found = resource_changes({"S": NEIGHBOURS}, {"S": after})
    assert {change.logical_id for change in found if change.action == "replace"} == shown
    assert {change.logical_id for change in found if change.possible} == {"Machine"}


@pytest.mark.cdk
def test_the_command_itself_agrees_on_a_pair_of_ours(tmp_path: Path) -> None:
    """The first pair of profiles whose stack has a replacement: `cdk diff` prints those that the review has."""
    for _, pair, _ in pairs():
        if pair.before is None or pair.after is None or pair.before.profile is None:
            continue
        before, after = pair.before.templates, pair.after.templates
        found = [change for change in resource_changes(before, after) if change.action == "replace"]
        if found:
            stack = found[0].stack
            shown = _shown_replaced(_cdk_diff(tmp_path, before[stack], after[stack]))
            assert shown == {change.logical_id for change in found if change.stack == stack}
            return
    pytest.fail("no pair replaces anything")


def _shown_replaced(printed: str) -> set[str]:
    """Logical ids behind `[~] AWS::Type Path LogicalId replace`, and `may be replaced`."""
    return set(re.findall(r"^\[~\] AWS::\S+ (?:.* )?(\w+) (?:replace|may be replaced)$", printed, re.MULTILINE))


def _cdk_diff(folder: Path, before: Template, after: Template) -> str:
    """What the CLI prints for a deployed `before` and a synthesized `after`, without an account."""
    assembly = folder / "cdk.out"
    assembly.mkdir()
    (folder / "before.json").write_text(json.dumps(before), encoding="utf-8")
    (assembly / "S.template.json").write_text(json.dumps(after), encoding="utf-8")
    stack = {
        "type": "aws:cloudformation:stack",
        "environment": "aws://123456789012/us-east-1",
        "properties": {"templateFile": "S.template.json"},
    }
    manifest = {"version": "36.0.0", "artifacts": {"S": stack}}
    (assembly / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    command = [str(ROOT / "node_modules/.bin/cdk"), "--app", str(assembly), "diff", "S", "--no-color"]
    command += ["--template", str(folder / "before.json"), "--method=template"]
    run = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr
