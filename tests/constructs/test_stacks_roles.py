"""Every role of a profile that uses everything, whole: who may take it, and each statement of its policies.

After a wanted change: `REWRITE_SNAPSHOTS=1 pytest` of this file, then read the diff line by line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stacks_support import ENVIRONMENT, FEATURE_FLAGS, KEY_ARN, NETWORK, OWN_SHAPE, App, merged, profile, synthesize

from loadproof.constructs.deployment import Deployment
from loadproof.profiles.schema.environment import BenchmarkJob
from loadproof.templates.template import listed, text
from stacks.application import add_stacks

REVIEWED = Path(__file__).parent / "snapshots" / "roles.txt"
EVERYTHING: dict[str, Any] = {
    "model": {
        "id": "acme/chat-8b",
        "source": {
            "type": "hub",
            "revision": "a" * 40,
            "token_secret_arn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-a1b2c3",
            "s3_uri": None,
            "accept_eula": None,
        },
        "architecture": OWN_SHAPE,
    },
    "container": {
        "family": "lmi",
        "version": "0.38.0",
        "settings": {"max_total_tokens": None, "enable_lora": True, "max_model_len": 4096},
    },
    "adapters": [{"name": "legal", "s3_uri": "s3://example-models/adapters/legal.tar.gz"}],
    "endpoint": {"data_capture": {"s3_uri": "s3://captures/chat/"}},
    "buffer": {"max_concurrency": 2},
    "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8.0}]},
    "benchmark": {"gate": "rollback", "concurrency": [2, 4], "requests_per_level": 16},
}
ENVIRONMENT_WITH_ALL = ENVIRONMENT.model_copy(
    update={
        "network": NETWORK,
        "kms_key_arn": KEY_ARN,
        "results_on_destroy": "delete",
        "benchmark": BenchmarkJob(image="123456789012.dkr.ecr.us-east-1.amazonaws.com/loadproof:1.0.0"),
    }
)


def roles(folder: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Stack, logical id and properties of every role, its policies among them wherever the template has them."""
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, [Deployment("test", ENVIRONMENT_WITH_ALL, profile(folder, merged(EVERYTHING, {})))])
    for stack in sorted(app.synth().stacks, key=lambda stack: stack.stack_name):
        resources: dict[str, dict[str, Any]] = stack.template["Resources"]
        assert [name for name, body in resources.items() if body["Type"] == "AWS::IAM::ManagedPolicy"] == []
        apart = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::IAM::Policy"]
        for name, body in sorted(resources.items()):
            if body["Type"] == "AWS::IAM::Role":
                own = [policy for policy in apart if policy["Roles"] == [{"Ref": name}]]
                apart = [policy for policy in apart if policy not in own]
                policies = [*body["Properties"].get("Policies", []), *own]
                yield stack.stack_name, name, {**body["Properties"], "Policies": policies}
        assert apart == []


def written(folder: Path) -> str:
    """One line a statement. Nothing of a role is left out but its tags and its description."""
    lines = []
    for stack, name, role in roles(folder):
        left = role.keys() - {"AssumeRolePolicyDocument", "Policies", "Tags", "Description"}
        assert left == set(), f"{name} has {left}"
        lines.append(f"{stack} {name}")
        lines += [f"  taken by {_line(one)}" for one in role["AssumeRolePolicyDocument"]["Statement"]]
        for policy in role.get("Policies", []):
            lines += [f"  {_line(one)}" for one in policy["PolicyDocument"]["Statement"]]
    return "\n".join(lines) + "\n"


def _line(statement: Mapping[str, Any]) -> str:
    """`Allow s3:GetObject on arn:… when {…}`; a statement's label says nothing and is left out."""
    left = statement.keys() - {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
    assert left == set(), f"a statement has {left}"
    words = [statement["Effect"], _words(statement["Action"])]
    if "Principal" in statement:
        words.append(f"by {json.dumps(statement['Principal'])}")
    if "Resource" in statement:
        words.append(f"on {_words(statement['Resource'])}")
    if "Condition" in statement:
        words.append(f"when {json.dumps(statement['Condition'])}")
    return " ".join(words)


def _words(value: Any) -> str:
    return " ".join(_place(one) for one in (value if isinstance(value, list) else [value]))


def _place(value: Any) -> str:
    """A reference shows its target: `<Queue.Arn>`."""
    if isinstance(value, dict) and "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    if isinstance(value, dict) and "Ref" in value:
        return f"<{value['Ref']}>"
    if isinstance(value, dict) and "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return str(separator).join(_place(part) for part in parts)
    return text(value)


def test_every_role_is_as_reviewed(tmp_path: Path) -> None:
    """The rights of all roles, as somebody has read them line by line."""
    found = written(tmp_path)
    if os.environ.get("REWRITE_SNAPSHOTS"):
        REVIEWED.write_text(found, encoding="utf-8")
    assert found == REVIEWED.read_text(encoding="utf-8"), "wanted? REWRITE_SNAPSHOTS=1, and read the diff"


def test_no_role_has_a_policy_of_awss(tmp_path: Path) -> None:
    """Managed policies change under one's feet, and AmazonSageMakerFullAccess lets a container read every bucket."""
    assert [name for _, name, role in roles(tmp_path) if role.get("ManagedPolicyArns")] == []


def test_roles_are_handed_to_one_service(tmp_path: Path) -> None:
    """Whoever may pass a role may pass one role, to the service that it is for."""
    for _, name, role in roles(tmp_path):
        for policy in role.get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                if "iam:PassRole" in statement["Action"]:
                    assert "*" not in str(statement["Resource"]), name
                    assert list(statement["Condition"]["StringEquals"]) == ["iam:PassedToService"], name


def test_the_role_reads_the_alarms_that_turn_its_updates_back_and_no_others(tmp_path: Path) -> None:
    """Each by its name: `loadproof-test-chat-*` is also how the alarms of a profile `chat-eu` are called."""
    objectives = {"e2e_p50_ms": 900, "e2e_p95_ms": 3000, "error_rate_max": 0.01, "ttft_p95_ms": 500}
    for bounds in (objectives, {"e2e_p95_ms": None, "ttft_p95_ms": 500}):
        resources = synthesize(profile(tmp_path, {"objectives": bounds, "copies": {"min": 2}})).template["Resources"]
        read = [
            place.partition(":alarm:")[2]
            for body in resources.values()
            for statement in body["Properties"].get("PolicyDocument", {}).get("Statement", [])
            if statement["Action"] == "cloudwatch:DescribeAlarms"
            for place in listed(statement, "Resource")
        ]
        rolling = [
            resources[alarm["AlarmName"]["Ref"]]["Properties"]["AlarmName"]
            for body in resources.values()
            for alarm in body["Properties"]
            .get("DeploymentConfig", {})
            .get("AutoRollbackConfiguration", {})
            .get("Alarms", [])
        ]
        assert sorted(set(rolling)) == sorted(read) and read
