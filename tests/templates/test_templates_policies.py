"""Policies are read wherever a template can keep them, and a condition counts only where it restricts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadproof.templates import check_template

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/deployer"
TABLE = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table"
GITHUB = "token.actions.githubusercontent.com"
ABOUT_ACCESS = {"LS007", "LS010", "LS011", "LS012", "LS013", "LS014", "LS015", "LS016", "LS017"}
NOTHING: dict[str, Any] = {"Ref": "AWS::NoValue"}


def allow(action: Any, on: Any = None, to: Any = None, when: Any = None) -> dict[str, Any]:
    given = {"Action": action, "Resource": on, "Principal": to, "Condition": when}
    return {"Effect": "Allow"} | {name: value for name, value in given.items() if value is not None}


def document(*statements: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def inline(*statements: Any) -> list[dict[str, Any]]:
    return [{"PolicyName": "p", "PolicyDocument": document(*statements)}]


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def role(*statements: Any) -> dict[str, Any]:
    return resource("IAM::Role", Policies=inline(*statements))


def trusting(principal: Any, when: Any = None) -> dict[str, Any]:
    return resource("IAM::Role", AssumeRolePolicyDocument=document(allow("sts:AssumeRole", to=principal, when=when)))


def queue(principal: Any, when: Any = None) -> dict[str, Any]:
    return resource("SQS::QueuePolicy", PolicyDocument=document(allow("sqs:SendMessage", to=principal, when=when)))


def either(value: Any, other: Any) -> dict[str, Any]:
    return {"Fn::If": ["IsProd", value, other]}


def found(*resources: dict[str, Any]) -> set[str]:
    """The codes about access that are found in resources called R0, R1 ..."""
    findings = check_template({"Resources": {f"R{at}": body for at, body in enumerate(resources)}}, {})
    return {finding.code for finding in findings} & ABOUT_ACCESS


EVERYTHING = allow("*", "*")
PUBLIC = allow("x:Read", "*", to="*")
TOKENS = {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{GITHUB}"}


@pytest.mark.parametrize(
    "holder",
    [
        resource("IAM::Group", Policies=inline(EVERYTHING)),
        resource("IAM::GroupPolicy", GroupName="g", PolicyDocument=document(EVERYTHING)),
        resource("IAM::ManagedPolicy", PolicyDocument=document(EVERYTHING)),
        resource("IAM::Policy", PolicyDocument=either(document(EVERYTHING), {})),
        resource("IAM::Policy", PolicyDocument={"Statement": either([EVERYTHING], [])}),
        resource("IAM::Role", Policies=either(inline(EVERYTHING), NOTHING)),
        resource("IAM::Role", Policies=[either(NOTHING, inline(EVERYTHING)[0])]),
        resource("IAM::RolePolicy", RoleName="r", PolicyDocument=document(either(EVERYTHING, NOTHING))),
        resource("IAM::User", Policies=inline(EVERYTHING)),
        resource("IAM::UserPolicy", UserName="u", PolicyDocument=document(EVERYTHING)),
        resource("IoT::Policy", PolicyDocument=document(EVERYTHING)),
        resource("Serverless::Function", Policies=[document(EVERYTHING)]),
        resource("SSO::PermissionSet", InlinePolicy=document(EVERYTHING)),
        resource(
            "SSO::PermissionSet", InlinePolicy='{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}'
        ),
    ],
)
def test_a_right_to_everything_is_found_in_every_policy_of_an_identity(holder: dict[str, Any]) -> None:
    """In every type, in either branch of a condition, and in a policy that is text."""
    assert {"LS010", "LS012"} <= found(holder)


@pytest.mark.parametrize("kind", ["Group", "Role", "User"])
@pytest.mark.parametrize(
    "name",
    [
        *(
            "AdministratorAccess",
            "SecretsManagerReadWrite",
            "job-function/DataScientist",
            "AmazonDynamoDBFullAccess_v2",
        ),
        *("AmazonSSMManagedInstanceCore", "AmazonSSMReadOnlyAccess", "service-role/AWSLambdaRole"),
    ],
)
def test_a_broad_policy_of_awss_is_found_at_every_identity(kind: str, name: str) -> None:
    """Attached in one branch of a condition is attached."""
    arn = {"Fn::Sub": f"arn:${{AWS::Partition}}:iam::aws:policy/{name}"}
    assert found(resource(f"IAM::{kind}", ManagedPolicyArns=either([arn], NOTHING))) == {"LS010"}


def test_a_permission_set_has_policies_of_awss_under_another_name() -> None:
    """ManagedPolicies, not ManagedPolicyArns."""
    policies = ["arn:aws:iam::aws:policy/PowerUserAccess"]
    assert found(resource("SSO::PermissionSet", ManagedPolicies=policies)) == {"LS010"}


def test_a_registrys_read_only_policy_is_not_broad() -> None:
    """AmazonEC2ContainerRegistryReadOnly reads images."""
    policies = ["arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly"]
    assert found(resource("IAM::Role", ManagedPolicyArns=policies)) == set()


@pytest.mark.parametrize(
    "open_",
    [
        resource("DynamoDB::GlobalTable", Replicas=[{"ResourcePolicy": {"PolicyDocument": document(PUBLIC)}}]),
        resource("DynamoDB::Table", ResourcePolicy={"PolicyDocument": document(PUBLIC)}),
        resource("ECR::Repository", RepositoryPolicyText=document(PUBLIC)),
        resource("Events::EventBusPolicy", Action="events:PutEvents", Principal="*", StatementId="s"),
        resource("Events::EventBusPolicy", Statement=allow("events:PutEvents", to="*"), StatementId="s"),
        resource("Lambda::LayerVersionPermission", Action="lambda:GetLayerVersion", Principal="*"),
        resource("Lambda::Permission", Action="lambda:InvokeFunction", Principal="*"),
        resource("Lambda::Url", AuthType="NONE"),
        resource("Logs::ResourcePolicy", PolicyDocument='{"Statement": {"Effect": "Allow", "Principal": "*"}}'),
        resource("S3::AccessPoint", Policy=document(PUBLIC)),
        resource("ApiGateway::RestApi", Policy=document(PUBLIC)),
        resource("Backup::BackupVault", AccessPolicy=either(document(PUBLIC), NOTHING)),
        resource("CodeArtifact::Repository", PermissionsPolicyDocument=document(PUBLIC)),
        resource("EC2::VPCEndpoint", PolicyDocument=document(PUBLIC)),
        resource("EFS::FileSystem", FileSystemPolicy=document(PUBLIC)),
        resource("OpenSearchService::Domain", AccessPolicies=document(PUBLIC)),
        resource("Serverless::Anything", Deeply=[{"Nested": {"Policy": json.dumps(document(PUBLIC))}}]),
        resource("VpcLattice::AuthPolicy", Policy=document(PUBLIC)),
        resource("Lambda::Permission", Principal=ACCOUNT, Action="lambda:InvokeFunction"),
        queue({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}),
        resource("SQS::QueueInlinePolicy", PolicyDocument=document(PUBLIC)),
        queue(either("*", {"AWS": ROLE})),
        queue({"AWS": [ROLE, "**"]}),
        resource("S3::BucketPolicy", PolicyDocument=document(allow("s3:GetObject") | {"NotPrincipal": {"AWS": ROLE}})),
        resource("Lambda::Permission", Action="lambda:InvokeFunction", Principal="s3.amazonaws.com"),
        resource("Lambda::Permission", Action="lambda:InvokeFunction", Principal={"Fn::Sub": "sns.${AWS::URLSuffix}"}),
    ],
)
def test_a_resource_that_is_open_is_found(open_: dict[str, Any]) -> None:
    """Whatever the type calls its policy, and where it has properties instead of one."""
    assert found(open_) == {"LS016"}


@pytest.mark.parametrize(
    "closed",
    [
        resource("Lambda::Url", AuthType="AWS_IAM"),
        resource("Lambda::Permission", Principal="apigateway.amazonaws.com", Action="lambda:InvokeFunction",
                 SourceArn={"Fn::Sub": "arn:aws:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*/GET/"}),
        resource("Lambda::Permission", Principal="*", PrincipalOrgID="o-a1b2c3", Action="lambda:InvokeFunction"),
        resource("EC2::VPCEndpoint", PolicyDocument=document(allow("s3:GetObject", "arn:aws:s3:::acme/*", to="*"))),
        resource("EC2::VPCEndpoint", PolicyDocument=document(
            allow("*", "*", to="*", when={"StringEquals": {"aws:ResourceAccount": ACCOUNT}}))),
        resource("WAFv2::WebACL", Rules=[{"Statement": {"GeoMatchStatement": {"CountryCodes": ["US"]}}}]),
        resource("Organizations::Policy", Content=document(allow("*", "*"))),
        resource("Lambda::Permission", Principal=ROLE, Action="lambda:InvokeFunction"),
        resource("Events::EventBusPolicy", Principal="*", Action="events:PutEvents",
                 Condition={"Type": "StringEquals", "Key": "aws:PrincipalOrgID", "Value": "o-a1b2c3"}),
        resource("KMS::Key", KeyPolicy=document(allow("kms:*", "*", to={"AWS": f"arn:aws:iam::{ACCOUNT}:root"}))),
        queue("*", {"StringEquals": {"AWS:SourceOwner": ACCOUNT}}),
        queue("*", {"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8::/32"]}}),
        queue({"Service": {"Ref": "Service"}}),
    ],
)  # fmt: skip
def test_a_resource_that_is_closed_is_well(closed: dict[str, Any]) -> None:
    """By a source, an organization, an account, a network."""
    assert found(closed) == set()


@pytest.mark.parametrize(
    "principal",
    [
        "*",
        {"AWS": "*"},
        {"AWS": "arn:aws:iam::999999999999:root"},
        {"AWS": "999999999999"},
        {"Service": "codebuild.amazonaws.com"},
        {"Service": {"Fn::Sub": "firehose.${AWS::URLSuffix}"}},
        {"Service": ["lambda.amazonaws.com", "pipes.amazonaws.com"]},
        TOKENS,
        {"Federated": "cognito-identity.amazonaws.com"},
    ],
)
def test_a_trust_in_strangers_is_found(principal: Any) -> None:
    """Everybody, all of an account, a service for whoever asks it, anybody's tokens."""
    assert found(trusting(principal)) == {"LS013"}


@pytest.mark.parametrize(
    ("principal", "when"),
    [
        ({"AWS": ROLE}, None),
        ({"AWS": {"Fn::Sub": "arn:aws:iam::${AWS::AccountId}:root"}}, None),
        ({"AWS": "arn:aws:iam::999999999999:root"}, {"StringEquals": {"sts:ExternalId": "a1b2c3"}}),
        ({"AWS": "*"}, {"ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/ci/*"}}),
        ({"Service": "ec2.amazonaws.com"}, None),
        ({"Service": "codebuild.amazonaws.com"}, {"StringEquals": {"aws:SourceAccount": ACCOUNT}}),
        (TOKENS, {"StringLike": {f"{GITHUB}:sub": "repo:acme/models:ref:refs/heads/release/*"}}),
        (
            {"Federated": "cognito-identity.amazonaws.com"},
            {"StringEquals": {"cognito-identity.amazonaws.com:aud": "p"}},
        ),
    ],
)
def test_a_trust_that_names_whom_is_well(principal: Any, when: Any) -> None:
    """One role, one's own account, an external id, a repository's releases."""
    assert found(trusting(principal, when)) == set()


@pytest.mark.parametrize(
    "when",
    [
        {"StringLike": {"aws:SourceAccount": "*"}},
        {"StringLike": {"aws:SourceAccount": [ACCOUNT, "*"]}},
        {"StringNotEquals": {"aws:SourceAccount": ACCOUNT}},
        {"StringEqualsIfExists": {"aws:SourceAccount": ACCOUNT}},
        {"ForAllValues:StringEquals": {"aws:SourceAccount": ACCOUNT}},
        {"Null": {"aws:SourceAccount": "true"}},
        {"ArnLike": {"aws:SourceArn": "arn:aws:sagemaker:*:*:*"}},
        {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}},
        either({"StringEquals": {"aws:SourceAccount": ACCOUNT}}, NOTHING),
    ],
)
def test_a_condition_that_does_not_restrict_a_service_is_none(when: Any) -> None:
    """An account stands in most of them, and the service still acts for everybody, or may."""
    assert found(trusting({"Service": "sagemaker.amazonaws.com"}, when)) == {"LS013"}


@pytest.mark.parametrize(
    "when",
    [
        {"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}},
        {"IpAddress": {"aws:SourceIp": ["0.0.0.0/1", "128.0.0.0/1"]}},
        {"StringEquals": {"aws:PrincipalType": "User"}},
        {"StringEquals": {"aws:PrincipalTag/team": "ours"}},
        {"Bool": {"aws:SecureTransport": "true"}},
        {"StringLike": {"aws:PrincipalOrgID": "o-*"}},
        {"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/loadproof"}},
    ],
)
def test_a_condition_that_anybody_meets_is_none(when: Any) -> None:
    """Every network, every user, a tag that one gives oneself, TLS, every organization, a name in any account."""
    assert found(queue("*", when)) == {"LS016"}


@pytest.mark.parametrize("subject", ["*", "repo:*", "repo:acme*", "repo:*/models:ref:refs/heads/main"])
def test_a_subject_of_no_owner_is_none(subject: str) -> None:
    """The owner of a repository is what tells tokens apart."""
    assert found(trusting(TOKENS, {"StringLike": {f"{GITHUB}:sub": subject}})) == {"LS013"}


@pytest.mark.parametrize(
    "subject",
    [
        *("repo:acme/models:*", "repo:acme/*", "repo:acme/models*:ref:refs/heads/main", "repo:acme/models:ref:*"),
        *("repo:acme/models:ref:refs/heads/*", "repo:acme/models:environment:*", "repo:acme/models:pull?request"),
        *("repo:acm?/models:ref:refs/heads/main", "repo:acme@1/models@2:*", "project_path:acme/models:*"),
        *("project_path:acme/models:ref_type:branch:ref:*", "project_path:acme/*:ref_type:branch:ref:main"),
    ],
)
def test_a_subject_of_whatever_anybody_starts_is_none(subject: str) -> None:
    """Pull requests, every branch, every environment, and projects whose names are alike.

    https://docs.github.com/en/actions/reference/security/oidc#example-subject-claims
    """
    assert found(trusting(TOKENS, {"StringLike": {f"{GITHUB}:sub": subject}})) == {"LS013"}


@pytest.mark.parametrize(
    ("claim", "value"),
    [("repository_owner", "acm?"), ("repository", "acme/mod*"), ("job_workflow_ref", "acme/*"), ("aud", "sts.*")],
)
def test_a_claim_that_others_can_have_is_none(claim: str, value: str) -> None:
    """A wildcard in an owner, a repository or an audience."""
    provider = {"Federated": "token.actions.githubusercontent.com"}
    when = {"StringLike": {f"token.actions.githubusercontent.com:{claim}": value}}
    assert found(trusting(provider, when)) == {"LS013"}


@pytest.mark.parametrize("operator", ["ArnLike", "StringEquals"])
def test_a_bucket_alone_is_not_a_source(operator: str) -> None:
    """Its ARN has no account, and the name is somebody else's once the bucket is gone: aws:SourceAccount says whose.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/grant-destinations-permissions-to-s3.html
    """
    service, bucket = {"Service": "s3.amazonaws.com"}, {operator: {"aws:SourceArn": "arn:aws:s3:::loadproof-prod"}}
    assert found(queue(service, bucket)) == {"LS016"}
    assert found(queue(service, bucket | {"StringLike": {"aws:SourceAccount": ACCOUNT}})) == set()
    own = {"Fn::Join": ["", ["arn:aws:s3:::", {"Ref": "Bucket"}]]}
    assert found(queue(service, {operator: {"aws:SourceArn": own}})) == set()


@pytest.mark.parametrize(
    "when",
    [
        {"StringLike": {"aws:ResourceTag/team": "*"}},
        {"StringLike": {"aws:ResourceTag/team": "our?"}},
        {"StringNotEquals": {"aws:ResourceTag/team": "theirs"}},
        {"Null": {"aws:ResourceTag/team": "true"}},
        {"StringEquals": {"aws:ResourceTag/team": "${aws:ResourceTag/team}"}},
        {"StringLike": {"sqs:ResourceTag/team": "${aws:ResourceTag/team, 'ours'}"}},
        {"StringEquals": {"aws:ResourceTag/team": {"Fn::Sub": "${!aws:RequestTag/team}"}}},
    ],
)
def test_a_tag_with_any_value_narrows_no_right(when: Any) -> None:
    """`*` is every resource with a tag, not `theirs` every one without, and a tag that is itself any."""
    assert found(role(allow("sqs:SendMessage", "*", when=when))) == {"LS012"}


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("LS012", "**"),
        ("LS012", "arn:*"),
        ("LS012", "arn:aws:dynamodb:*"),
        ("LS012", "arn:aws:dynamodb:*:*:table/x"),
        ("LS012", f"{TABLE}/*/index/*"),
        ("LS012", f"{TABLE}/????"),
        ("LS012", either("*", f"{TABLE}/x")),
        ("LS017", f"{TABLE}/loadproof-prod*"),
        ("LS017", f"{TABLE}/chat?"),
        ("LS017", f"{TABLE}/loadproof-prod?eu"),
        ("LS017", f"{TABLE}/loadproof-*-chat"),
        ("LS017", f"{TABLE}/*-chat"),
        ("LS017", f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:prod*-??????"),
        ("LS017", f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:prod*"),
        ("LS017", f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:prod/*"),
        ("LS017", f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/aws/sagemaker/Endpoints/*"),
        ("LS017", f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/aws/lambda/*:*"),
        ("LS017", f"arn:aws:ssm:us-east-1:{ACCOUNT}:parameter/prod/*"),
        ("LS017", f"arn:aws:sqs:us-east-1:{ACCOUNT}:*.fifo"),
        ("LS017", f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-us-east-1/*.zip"),
        ("LS017", {"Fn::Sub": "arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${Prefix}-*"}),
    ],
)
def test_a_wildcard_that_reaches_others_is_found(code: str, place: Any) -> None:
    """All of a kind, all accounts, or all that begin alike."""
    assert found(role(allow("dynamodb:GetItem", place))) == {code}


@pytest.mark.parametrize(
    "place",
    [
        f"{TABLE}/chat/index/*",
        "arn:aws*:dynamodb:us-east-1:123456789012:table/chat",
        f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:hub-??????",
        f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/aws/lambda/chat:*",
        f"arn:aws:execute-api:us-east-1:{ACCOUNT}:a1b2c3/*/GET/chat",
        {"Fn::Join": ["", [{"Fn::GetAtt": ["Bucket", "Arn"]}, "/*"]]},
    ],
)
def test_a_wildcard_below_a_name_is_well(place: Any) -> None:
    """What belongs to one named thing, and the end that Secrets Manager gives to an ARN."""
    assert found(role(allow("x:Read", place))) == set()


@pytest.mark.parametrize(
    "action", ["sqs:**", "sqs:?*", "sq*", {"Fn::Sub": "sqs:*"}, either("sqs:*", "sqs:SendMessage")]
)
def test_all_of_a_service_is_found_however_it_is_written(action: Any) -> None:
    """Wildcards in a row, in the service's name, behind an intrinsic."""
    assert "LS010" in found(role(allow(action, f"arn:aws:sqs:us-east-1:{ACCOUNT}:q")))


@pytest.mark.parametrize(
    "action",
    [
        *("iam:DetachRolePolicy", "kms:CreateGrant", "ecr:PutImage", "ssm:StartSession", "states:UpdateStateMachine"),
        *("lambda:PublishLayerVersion", "sqs:AddPermission", "cloudtrail:StopLogging", "s3:DeleteBucketPolicy"),
        *("sagemaker:CreatePresignedNotebookInstanceUrl", "cognito-identity:SetIdentityPoolRoles"),
    ],
)
def test_an_action_that_escalates_alone_is_found(action: str) -> None:
    """More rights, others' rights, an opened resource, an audit that is off."""
    assert found(role(allow(action, f"arn:aws:x:us-east-1:{ACCOUNT}:thing"))) == {"LS015"}


def test_a_grant_that_only_services_use_is_well() -> None:
    """As SageMaker needs it for an encrypted volume."""
    when = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert found(role(allow("kms:CreateGrant", f"arn:aws:kms:us-east-1:{ACCOUNT}:key/k", when=when))) == set()


def passing(on: Any) -> dict[str, Any]:
    return allow("iam:PassRole", on, when={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}})


RUNNING = allow("sagemaker:CreateProcessingJob", f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:processing-job/chat")


@pytest.mark.parametrize(
    "attached",
    [
        resource("IAM::Policy", Roles=[{"Ref": "R0"}], PolicyDocument=document(RUNNING)),
        resource("IAM::ManagedPolicy", Roles=["runner"], PolicyDocument=document(RUNNING)),
        resource("IAM::RolePolicy", RoleName={"Ref": "R0"}, PolicyDocument=document(RUNNING)),
    ],
)
def test_an_escalation_over_two_resources_is_found(attached: dict[str, Any]) -> None:
    """One passes the role, the other, which is attached to it, runs it."""
    owner = resource("IAM::Role", RoleName="runner", Policies=inline(passing(ROLE)))
    assert found(owner, attached) == {"LS015"}


def test_a_managed_policy_that_a_role_names_is_of_its_rights() -> None:
    """Attached from the role's side."""
    owner = resource("IAM::Role", ManagedPolicyArns=[{"Ref": "R1"}], Policies=inline(passing(ROLE)))
    assert found(owner, resource("IAM::ManagedPolicy", PolicyDocument=document(RUNNING))) == {"LS015"}


@pytest.mark.parametrize(
    "action",
    [
        *("sagemaker:CreateMonitoringSchedule", "sagemaker:CreateAutoMLJob", "sagemaker:CreateLabelingJob"),
        *("bedrock:CreateModelCustomizationJob", "ec2:RunInstances", "ssm:StartAutomationExecution"),
    ],
)
def test_whatever_a_service_model_gives_a_role_runs_it(action: str) -> None:
    """Beside a right to pass one."""
    assert found(role(passing(ROLE), allow(action, f"arn:aws:x:us-east-1:{ACCOUNT}:y/z"))) == {"LS015"}


@pytest.mark.parametrize("key", ["ec2:Subnet", "ec2:Vpc"])
def test_an_interface_is_opened_to_others_in_a_network_that_is_named(key: str) -> None:
    """CreateNetworkInterfacePermission; interfaces are made, and taken away, before and after they have names."""
    for action, when, expected in (
        ("ec2:DeleteNetworkInterface", None, set()),
        ("ec2:CreateNetworkInterfacePermission", None, {"LS012"}),
        ("ec2:CreateNetworkInterfacePermission", {"ArnEquals": {key: f"arn:aws:ec2:us-east-1:{ACCOUNT}:x/y"}}, set()),
    ):
        assert found(role(allow(action, "*", when=when))) == expected


def test_a_right_for_each_quota_of_the_account_is_one_to_name() -> None:
    """Reading them knows no narrower resource, asking for more does."""
    assert found(role(allow("servicequotas:GetServiceQuota", "*"))) == set()
    assert found(role(allow("servicequotas:RequestServiceQuotaIncrease", "*"))) == {"LS012"}


def test_policies_of_two_roles_are_no_escalation() -> None:
    """One may pass, the other may run."""
    other = resource("IAM::Policy", Roles=[{"Ref": "Other"}], PolicyDocument=document(RUNNING))
    assert found(role(passing(ROLE)), other) == set()


def test_passing_a_role_of_the_template_itself_is_no_escalation() -> None:
    """What that role may do stands in the template and is judged there."""
    job = trusting({"Service": "sagemaker.amazonaws.com"}, {"StringEquals": {"aws:SourceAccount": ACCOUNT}})
    assert found(role(passing({"Fn::GetAtt": ["R1", "Arn"]}), RUNNING), job) == set()


@pytest.mark.parametrize(
    "when",
    [
        {"StringLike": {"iam:PassedToService": "*"}},
        {"StringLike": {"iam:PassedToService": "*.amazonaws.com"}},
        {"StringNotEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
    ],
)
def test_passing_to_any_service_but_some_is_passing_to_any(when: Any) -> None:
    """A service is named, or it is not."""
    assert found(role(allow("iam:PassRole", ROLE, when=when))) == {"LS011"}


@pytest.mark.parametrize(
    "place",
    [
        "arn:aws:s3:::acme-models/chat/*",
        {"Fn::Sub": "arn:aws:s3:::acme-${AWS::AccountId}/chat/*"},
        {"Fn::Join": ["", ["arn:aws:s3:::acme-", {"Ref": "AWS::Region"}, "/chat/*"]]},
    ],
)
@pytest.mark.parametrize("action", ["s3:GetObject", "s3:ReplicateObject"])
def test_a_bucket_by_a_name_that_can_be_guessed_is_found(action: str, place: Any) -> None:
    """An account's number in a name keeps nobody from taking it."""
    assert found(role(allow(action, place))) == {"LS014"}


def test_a_bucket_of_the_template_is_ones_own() -> None:
    """By the name that it has there."""
    assert (
        found(role(allow("s3:PutObject", "arn:aws:s3:::acme/x/*")), resource("S3::Bucket", BucketName="acme")) == set()
    )


def test_a_finding_in_both_branches_is_told_once() -> None:
    """Of one statement that differs elsewhere."""
    both = either(allow("sqs:SendMessage", "*"), allow("sqs:SendMessage", "*", when={"Bool": {"x": "true"}}))
    assert len(check_template({"Resources": {"R": role(both)}}, {})) == 1
