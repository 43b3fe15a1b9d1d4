"""The pipelines' roles: whom each trusts, what each may do, in a template that AWS's validators pass."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, assertions
from processes import run_process
from stacks_support import ENVIRONMENT, FEATURE_FLAGS, KEY_ARN
from test_stacks_nag import nag, reread
from validated import findings

from loadproof.constructs.ci.trust import Repository
from loadproof.errors import InputError
from stacks.ci.application import add_stacks
from stacks.ci.where import places

GITHUB = Repository("github", "acme/endpoints", repository_id="456", owner_id="123")
GITLAB = Repository("gitlab", "acme/ml/endpoints")
HOST = "token.actions.githubusercontent.com"
# What GitHub's token says of a deployment of prod after a merge.
MERGED = {
    "aud": "sts.amazonaws.com",
    "ref": "refs/heads/main",
    "repository": "acme/endpoints",
    "repository_id": "456",
    "sub": "repo:acme/endpoints:environment:prod",
}
# The wildcards that stay, with what they cover; everything else of the AwsSolutions pack is met.
NAG_ACKNOWLEDGED = {
    ("Benchmark", "AwsSolutions-IAM5[Resource::arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-prod-*]"),
    (
        "Benchmark",
        "AwsSolutions-IAM5[Resource::arn:aws:sagemaker:us-east-1:123456789012:inference-component/loadproof-prod-*]",
    ),
    ("Benchmark", "AwsSolutions-IAM5[Resource::arn:aws:sagemaker:us-east-1:123456789012:endpoint-config/*]"),
    ("Benchmark", "AwsSolutions-IAM5[Resource::*]"),  # lists and metrics know no narrower resource
    ("Benchmark", "AwsSolutions-IAM5[Resource::arn:aws:s3:::ci-loadproof-prod-123456789012/evidence/*]"),
    ("Read", "AwsSolutions-IAM5[Resource::arn:aws:s3:::ci-loadproof-prod-123456789012/evidence/*]"),
    ("Evidence/Resource", "AwsSolutions-S1"),  # CloudTrail's data events are the account's decision
}


@cache
def app(repository: Repository = GITHUB, key: str | None = None) -> App:
    made = App(
        builtin_cloud_formation_validation=False, context={**FEATURE_FLAGS, "aws:cdk:enable-path-metadata": True}
    )
    environment = ENVIRONMENT.model_copy(update={"kms_key_arn": key})
    add_stacks(made, environments={"prod": environment}, repository=repository, provider=True)
    return made


@cache
def templates(repository: Repository = GITHUB, key: str | None = None) -> dict[str, dict[str, Any]]:
    """By stack name."""
    return {stack.stack_name: stack.template for stack in app(repository, key).synth().stacks}


def roles(repository: Repository = GITHUB, key: str | None = None) -> dict[str, dict[str, Any]]:
    """Properties by logical id: Deploy, Benchmark, Read."""
    resources = templates(repository, key)["ci-loadproof-roles-prod"]["Resources"]
    return {name: body["Properties"] for name, body in resources.items() if body["Type"] == "AWS::IAM::Role"}


def trusts(role: str, claims: dict[str, str], repository: Repository = GITHUB, host: str = HOST) -> bool:
    """What IAM decides: every key of StringEquals is in the token and equals one of the values."""
    [statement] = roles(repository)[role]["AssumeRolePolicyDocument"]["Statement"]
    assert list(statement["Condition"]) == ["StringEquals"]
    wanted = {key.removeprefix(f"{host}:"): value for key, value in statement["Condition"]["StringEquals"].items()}
    return all(claims.get(key) in (value if isinstance(value, list) else [value]) for key, value in wanted.items())


def statements(role: str, key: str | None = None) -> list[dict[str, Any]]:
    [policy] = roles(key=key)[role]["Policies"]
    found: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return found


@pytest.mark.parametrize(
    ("changed", "trusted"),
    [
        ({}, True),
        ({"sub": "repo:acme@123/endpoints@456:environment:prod"}, True),
        ({"sub": "repo:acme/endpoints:environment:dev"}, False),
        ({"sub": "repo:acme/endpoints:ref:refs/heads/main"}, False),
        ({"sub": "repo:acme/endpoints:pull_request", "ref": "refs/pull/12/merge"}, False),
        ({"ref": "refs/heads/feature"}, False),
        ({"sub": "repo:mallory/endpoints:environment:prod", "repository": "mallory/endpoints"}, False),
        ({"repository_id": "999"}, False),
        ({"sub": "repo:acme@999/endpoints@999:environment:prod", "repository_id": "999"}, False),
        ({"aud": "https://github.com/acme"}, False),
        ({"repository_id": ""}, False),
    ],
    ids=[
        "after a merge",
        "with immutable subjects",
        "another environment",
        "no environment",
        "a pull request",
        "a feature branch in the environment",
        "a fork",
        "the name in other hands",
        "the name in other hands, immutable subjects",
        "a token for somebody else",
        "a token without the claim",
    ],
)
def test_whom_the_deploy_role_trusts(changed: dict[str, str], trusted: bool) -> None:
    """The environment's own jobs, of this repository, of the protected branch."""
    assert trusts("Deploy", {**MERGED, **changed}) is trusted


@pytest.mark.parametrize("role", ["Benchmark", "Read"])
@pytest.mark.parametrize(
    ("subject", "ref", "trusted"),
    [
        ("repo:acme/endpoints:ref:refs/heads/main", "refs/heads/main", True),
        ("repo:acme@123/endpoints@456:ref:refs/heads/main", "refs/heads/main", True),
        ("repo:acme/endpoints:ref:refs/heads/feature", "refs/heads/feature", False),
        ("repo:acme/endpoints:pull_request", "refs/pull/12/merge", False),
        ("repo:acme/endpoints:environment:prod", "refs/heads/main", False),
    ],
)
def test_whom_the_other_roles_trust(role: str, subject: str, ref: str, trusted: bool) -> None:
    """Jobs of the protected branch outside every environment; never a pull request's."""
    assert trusts(role, {**MERGED, "sub": subject, "ref": ref}) is trusted


@pytest.mark.parametrize("role", ["Deploy", "Benchmark", "Read"])
def test_gitlab_is_held_to_its_branch(role: str) -> None:
    """The subject names project and branch whole, the audience the instance."""
    claims = {"aud": "https://gitlab.com", "sub": "project_path:acme/ml/endpoints:ref_type:branch:ref:main"}
    assert trusts(role, claims, GITLAB, "gitlab.com")
    assert not trusts(role, {**claims, "sub": claims["sub"] + "-evil"}, GITLAB, "gitlab.com")


@pytest.mark.parametrize("repository", [GITHUB, GITLAB], ids=["github", "gitlab"])
def test_no_condition_is_a_pattern(repository: Repository) -> None:
    """StringEquals alone, and no asterisk in whom a role trusts."""
    for properties in roles(repository).values():
        assert "*" not in json.dumps(properties["AssumeRolePolicyDocument"])


@pytest.mark.parametrize("key", [None, KEY_ARN], ids=["open", "key"])
@pytest.mark.parametrize("role", ["Deploy", "Benchmark", "Read"])
def test_no_action_is_a_pattern(role: str, key: str | None) -> None:
    """Every right is written out."""
    assert "*" not in json.dumps([statement["Action"] for statement in statements(role, key)])


def test_a_deployment_takes_the_bootstraps_roles_and_nothing_else() -> None:
    """What a deployment may do is what `cdk bootstrap` gave its roles in this account and region."""
    kinds = ("deploy", "file-publishing", "image-publishing", "lookup")
    assert statements("Deploy") == [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Resource": [
                f"arn:aws:iam::123456789012:role/cdk-hnb659fds-{kind}-role-123456789012-us-east-1" for kind in kinds
            ],
        }
    ]


def test_the_reading_role_changes_nothing() -> None:
    """It looks, as the lookup role and at evidence."""
    actions = [statement["Action"] for statement in statements("Read", KEY_ARN)]
    assert actions == ["sts:AssumeRole", "s3:GetObject", "s3:ListBucket", "kms:Decrypt"]
    assert statements("Read")[0]["Resource"] == (
        "arn:aws:iam::123456789012:role/cdk-hnb659fds-lookup-role-123456789012-us-east-1"
    )


def test_benchmarks_write_evidence_only() -> None:
    """The one writing right is below `evidence/`, in a bucket of this account, whoever owns the name elsewhere."""
    writing = [statement for statement in statements("Benchmark") if "s3:PutObject" in statement["Action"]]
    assert [(one["Resource"], one["Condition"]) for one in writing] == [
        (
            "arn:aws:s3:::ci-loadproof-prod-123456789012/evidence/*",
            {"StringEquals": {"aws:ResourceAccount": "123456789012"}},
        )
    ]


def test_evidence_outlives_its_stack() -> None:
    """The bucket stays, with versions, closed to the public."""
    template = assertions.Template.from_json(templates()["ci-loadproof-roles-prod"])
    template.has_resource(
        "AWS::S3::Bucket",
        {
            "DeletionPolicy": "Retain",
            "Properties": {
                "BucketName": "ci-loadproof-prod-123456789012",
                "VersioningConfiguration": {"Status": "Enabled"},
                "PublicAccessBlockConfiguration": {"BlockPublicPolicy": True, "RestrictPublicBuckets": True},
            },
        },
    )


def test_workflows_find_what_the_stack_made() -> None:
    """The ARNs that jobs are told by environment.yaml are the template's names."""
    told = places("prod", ENVIRONMENT, "hnb659fds")
    assert {told[f"{role.lower()}_role"].rpartition("/")[2] for role in roles()} == {
        properties["RoleName"] for properties in roles().values()
    }
    assert told["evidence"] == "s3://ci-loadproof-prod-123456789012/evidence"


@pytest.mark.parametrize(
    ("path", "options", "said"),
    [
        ("acme/*", {}, "-c repository=acme/*: expected owner/name"),
        ("acme", {}, "-c repository=acme: expected owner/name"),
        ("acme/endpoints", {"branch": "*"}, "-c branch=*: expected one branch"),
        ("acme/endpoints", {"repository_id": "456"}, "go together"),
        ("acme/endpoints", {"repository_id": "456", "owner_id": "acme"}, "-c owner_id=acme: expected GitHub's number"),
        ("acme/endpoints", {"host": "https://x"}, "-c host=https://x: expected the provider's host name alone"),
    ],
)
def test_what_would_trust_too_many_is_refused(path: str, options: dict[str, str], said: str) -> None:
    """Patterns and half an identity never reach a template."""
    with pytest.raises(InputError) as refused:
        Repository("github", path, **options)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    """One run names every option to mend."""
    with pytest.raises(InputError) as refused:
        Repository("github", "acme", repository_id="x", branch="**")
    assert len(str(refused.value).splitlines()) == 4


def test_the_templates_pass_the_validators(tmp_path: Path) -> None:
    """AWS's validator (hard-coded ARNs and accounts are meant) and cfn-lint, with everything there can be in them."""
    files = {tmp_path / f"{name}.json": template for name, template in templates(key=KEY_ARN).items()}
    assert [findings(template, file) for file, template in files.items()] == [[]] * len(files)
    done = run_process([Path(sys.executable).parent / "cfn-lint", *files])
    assert (done.returncode, done.stdout) == (0, "")


def test_cdk_nag_finds_what_is_acknowledged_and_no_more(tmp_path: Path) -> None:
    """AwsSolutions over both stacks."""
    assembly = app().synth()
    own = {
        f"{stack.stack_name}/Template/{name}": body["Metadata"]["aws:cdk:path"].partition("/")[2]
        for stack in assembly.stacks
        for name, body in stack.template["Resources"].items()
    }
    assert {(own[path], finding) for path, finding in nag(reread(assembly, tmp_path))} == NAG_ACKNOWLEDGED
