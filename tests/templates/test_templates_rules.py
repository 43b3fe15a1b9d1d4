"""Each rule over templates with a resource that passes and one that fails, and how findings are acknowledged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadproof.templates import RULES, check_template

COMMIT = "0123456789abcdef0123456789abcdef01234567"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/server"
KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
ENDPOINT = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/chat"
TRACKING = {"PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}}
METRICS = {"type": "metric", "properties": {"region": "us-east-1", "metrics": [["AWS/SQS", "NumberOfMessagesSent"]]}}


def model(isolated: bool = True, **container: Any) -> dict[str, Any]:
    properties: dict[str, Any] = {"PrimaryContainer": container}
    if isolated:
        properties["EnableNetworkIsolation"] = True
    return {"Type": "AWS::SageMaker::Model", "Properties": properties}


def variables(**values: Any) -> dict[str, Any]:
    return model(Image=f"{IMAGE}:1.4.2", Environment=values)


def weights(uri: str, **more: Any) -> dict[str, Any]:
    source = {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None", **more}
    return model(Image=f"{IMAGE}:1.4.2", ModelDataSource={"S3DataSource": source})


def component(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SageMaker::InferenceComponent", "Properties": properties}


def role(
    *actions: str, on: Any = "*", when: dict[str, Any] | None = None, managed: str | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": list(actions), "Resource": on}
    if when:
        statement["Condition"] = when
    properties: dict[str, Any] = {"Policies": [{"PolicyDocument": {"Statement": [statement]}}]} if actions else {}
    if managed:
        properties["ManagedPolicyArns"] = [managed]
    return {"Type": "AWS::IAM::Role", "Properties": properties}


def trusting(condition: dict[str, Any] | None) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}}
    if condition:
        statement["Condition"] = condition
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [statement]}}}


def queue_policy(principal: Any, condition: dict[str, Any] | None) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": principal, "Action": "sqs:SendMessage"}
    if condition:
        statement["Condition"] = condition
    return {"Type": "AWS::SQS::QueuePolicy", "Properties": {"PolicyDocument": {"Statement": statement}}}


def log_group(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "Properties": properties}


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def tracking(**configuration: Any) -> dict[str, Any]:
    properties = {"PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": configuration}
    return {"Type": "AWS::ApplicationAutoScaling::ScalingPolicy", "Properties": properties}


def stepping(*steps: dict[str, Any]) -> dict[str, Any]:
    properties = {"PolicyType": "StepScaling", "StepScalingPolicyConfiguration": {"StepAdjustments": list(steps)}}
    return {"Type": "AWS::ApplicationAutoScaling::ScalingPolicy", "Properties": properties}


def target(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": properties}


def config(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SageMaker::EndpointConfig", "Properties": properties}


def dashboard(body: Any) -> dict[str, Any]:
    return {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": body}}


def machine(definition: Any) -> dict[str, Any]:
    return {"Type": "AWS::StepFunctions::StateMachine", "Properties": {"DefinitionString": definition}}


def states(**named: Any) -> str:
    return json.dumps({"StartAt": next(iter(named)), "States": named})


def returned(*flags: bool) -> dict[str, Any]:
    return {"Metrics": [{"Id": f"m{at}", "ReturnData": flag} for at, flag in enumerate(flags)]}


# (code, what passes, what fails, words of the finding): one line a way to be wrong.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("LS001", model(Image=f"{IMAGE}:1.4.2"), model(Image=f"{IMAGE}:latest"), "the image's tag `latest` moves"),
    ("LS001", model(Image=f"{IMAGE}@sha256:{'a' * 64}"), model(Image=IMAGE), "no tag, which means :latest"),
    (
        "LS001",
        model(Image={"Fn::Join": ["", [{"Ref": "Registry"}, "/server:2.0"]]}),
        component(Specification={"Container": {"Image": {"Fn::Join": ["", [{"Ref": "Registry"}, "/server:main"]]}}}),
        "tag `main` moves",
    ),
    (
        "LS002",
        variables(HF_MODEL_ID="Qwen/Qwen3-8B", HF_MODEL_REVISION=COMMIT),
        variables(HF_MODEL_ID="Qwen/Qwen3-8B", HF_MODEL_REVISION="main"),
        "HF_MODEL_ID names a model of the hub without a commit",
    ),
    ("LS002", variables(SM_VLLM_MODEL="/opt/ml/model"), variables(SM_VLLM_MODEL="Qwen/Qwen3-8B"), "without a commit"),
    (
        "LS003",
        variables(TOKEN_SECRET_ARN="arn:aws:secretsmanager:us-east-1:123456789012:secret:hub", MAX_TOTAL_TOKENS="512"),
        variables(HF_TOKEN="not-even-shaped-like-one"),
        "HF_TOKEN looks like a secret (value hidden)",
    ),
    (
        "LS003",
        variables(OMP_NUM_THREADS="4"),
        variables(START="{{resolve:secretsmanager:hub:SecretString:token}}"),
        "START looks like a secret",
    ),
    (
        "LS004",
        variables(SM_VLLM_TRUST_REMOTE_CODE="false", SM_VLLM_NO_TRUST_REMOTE_CODE="true"),
        variables(OPTION_TRUST_REMOTE_CODE="True"),
        "OPTION_TRUST_REMOTE_CODE is on",
    ),
    ("LS005", model(Image=f"{IMAGE}:1"), model(isolated=False, Image=f"{IMAGE}:1"), "not isolated from the network"),
    ("LS006", log_group(KmsKeyId=KEY), log_group(), "encrypted with keys of AWS's only"),
    (
        "LS007",
        role("sagemaker:InvokeEndpoint", on=ENDPOINT),
        role("sagemaker:InvokeEndpoint", on=f"{ENDPOINT}*"),
        f"sagemaker:InvokeEndpoint on {ENDPOINT}*",
    ),
    (
        "LS008",
        weights("s3://jumpstart-private-cache-prod-us-east-1/llama/", ModelAccessConfig={"AcceptEula": True}),
        weights("s3://jumpstart-private-cache-prod-us-east-1/llama/"),
        "its licence is not accepted",
    ),
    (
        "LS008",
        weights("s3://models/llama/"),
        weights("s3://models/", ModelAccessConfig={"AcceptEula": False}),
        "says no",
    ),
    (
        "LS009",
        component(RuntimeConfig={"CopyCount": 1}, Specification={"ModelName": "chat"}),
        component(RuntimeConfig={"CopyCount": 0}, Specification={"ModelName": "chat"}),
        "CopyCount is 0",
    ),
    (
        "LS010",
        role("s3:GetObject", on="arn:aws:s3:::models/chat/*"),
        role(managed="arn:aws:iam::aws:policy/AmazonSageMakerFullAccess"),
        "has AmazonSageMakerFullAccess",
    ),
    (
        "LS010",
        role("sqs:SendMessage", on="arn:aws:sqs:us-east-1:1:q"),
        role("s3:*", on="arn:aws:s3:::b"),
        "allows s3:*",
    ),
    (
        "LS011",
        role(
            "iam:PassRole",
            on="arn:aws:iam::123456789012:role/run",
            when={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        ),
        role("iam:PassRole", on="arn:aws:iam::123456789012:role/run"),
        "without iam:PassedToService",
    ),
    (
        "LS011",
        role("iam:GetRole", on="arn:aws:iam::123456789012:role/run"),
        role("iam:PassRole", on="arn:aws:iam::123456789012:role/*", when={"StringLike": {"iam:PassedToService": "x"}}),
        "on roles that are not named",
    ),
    ("LS012", role("ecr:GetAuthorizationToken"), role("s3:GetObject"), "s3:GetObject on *"),
    (
        "LS012",
        role("s3:GetObject", on="arn:aws:s3:::models/*"),
        role("sqs:SendMessage", on="arn:aws:sqs:us-east-1:123456789012:*"),
        "sqs:SendMessage on arn:aws:sqs:us-east-1:123456789012:*",
    ),
    (
        "LS012",
        role("cloudwatch:PutMetricData", when={"StringEquals": {"cloudwatch:namespace": "Loadproof"}}),
        role("cloudwatch:PutMetricData"),
        "into every namespace",
    ),
    (
        "LS013",
        trusting({"StringEquals": {"aws:SourceAccount": "123456789012"}}),
        trusting(None),
        "trusts sagemaker.amazonaws.com for every account",
    ),
    (
        "LS014",
        role("s3:PutObject", on="arn:aws:s3:::captures/*", when={"StringEquals": {"aws:ResourceAccount": "123"}}),
        role("s3:PutObject", on="arn:aws:s3:::captures/*"),
        "s3:PutObject in captures, whoever owns it",
    ),
    (
        "LS014",
        role("s3:GetObject", on="arn:aws:s3:::jumpstart-private-cache-prod-us-east-1/weights/*"),
        role("s3:GetObject", on="arn:aws:s3:::cdk-hnb659fds-assets-123456789012-us-east-1/*.zip"),
        "code from cdk-hnb659fds-assets-123456789012-us-east-1, whoever owns it",
    ),
    (
        "LS015",
        role("iam:GetRole", on="arn:aws:iam::123456789012:role/x"),
        role("iam:PutRolePolicy", on="arn:aws:iam::123456789012:role/x"),
        "iam:PutRolePolicy: whoever has it can have any right",
    ),
    (
        "LS015",
        role("sts:AssumeRole", on="arn:aws:iam::123456789012:role/x"),
        role("sts:AssumeRole", on="arn:aws:iam::123456789012:role/*"),
        "sts:AssumeRole on roles that are not named",
    ),
    (
        "LS016",
        queue_policy({"Service": "events.amazonaws.com"}, {"ArnEquals": {"aws:SourceArn": "arn:aws:events:x"}}),
        queue_policy({"Service": "events.amazonaws.com"}, None),
        "allows events.amazonaws.com for every account",
    ),
    (
        "LS016",
        queue_policy({"AWS": "arn:aws:iam::123456789012:role/reader"}, None),
        queue_policy("*", None),
        "allows everybody",
    ),
    (
        "LS017",
        role("sagemaker:DescribeEndpoint", on="arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-prod-chat"),
        role("sagemaker:DescribeEndpoint", on="arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-prod-*"),
        "sagemaker:DescribeEndpoint on arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-prod-*",
    ),
    (
        "LS101",
        config(ProductionVariants=[{"ManagedInstanceScaling": {"MinInstanceCount": 0, "MaxInstanceCount": 2}}]),
        config(ProductionVariants=[{"ManagedInstanceScaling": {"MinInstanceCount": 3, "MaxInstanceCount": 2}}]),
        "MinInstanceCount 3 is above MaxInstanceCount 2",
    ),
    (
        "LS101",
        target(MinCapacity=1, MaxCapacity=1),
        target(ScheduledActions=[{"ScalableTargetAction": {"MinCapacity": 5, "MaxCapacity": 4}}]),
        "MinCapacity 5 is above MaxCapacity 4",
    ),
    ("LS102", tracking(TargetValue=4, **TRACKING), tracking(TargetValue=4), "target tracking with 0 metrics"),
    (
        "LS102",
        tracking(CustomizedMetricSpecification=returned(False, True)),
        tracking(CustomizedMetricSpecification=returned(True, True)),
        "2 of 2 queries return data",
    ),
    ("LS102", stepping({"ScalingAdjustment": 1}), stepping(), "step scaling without steps"),
    ("LS103", dashboard(json.dumps({"widgets": [METRICS]})), dashboard('{"widgets": [}'), "the body is no JSON"),
    (
        "LS103",
        dashboard(
            {"Fn::Join": ["", ['{"widgets": [{"type": "text", "properties": {"markdown": "', {"Ref": "Q"}, '"}}]}']]}
        ),
        dashboard(json.dumps({"widgets": [METRICS, {"type": "metric", "properties": {"metrics": [["a", "b"]]}}]})),
        "widget 1 has no region",
    ),
    (
        "LS103",
        dashboard(json.dumps({"widgets": [{**METRICS, "x": 12, "width": 12}]})),
        dashboard(json.dumps({"widgets": [{**METRICS, "x": 16, "width": 12}]})),
        "widget 0 reaches beyond column 24",
    ),
    (
        "LS104",
        component(Specification={"BaseInferenceComponentName": "chat"}),
        component(Specification={"ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024}}),
        "no model, container or base component",
    ),
    (
        "LS105",
        queue(KmsMasterKeyId=KEY, RedrivePolicy={"maxReceiveCount": 5}),
        queue(KmsMasterKeyId=KEY, RedrivePolicy={"maxReceiveCount": 0}),
        "maxReceiveCount is 0",
    ),
    (
        "LS106",
        machine(states(Start={"Type": "Task", "Next": "Done"}, Done={"Type": "Succeed"})),
        machine(states(Start={"Type": "Task", "Next": "Gone"})),
        "Start leads to `Gone`, which does not exist",
    ),
    (
        "LS106",
        machine(states(All={"Type": "Map", "End": True, "ItemProcessor": json.loads(states(One={"Type": "Succeed"}))})),
        machine(
            states(
                All={"Type": "Map", "End": True, "ItemProcessor": json.loads(states(One={"Type": "Task", "Next": "X"}))}
            )
        ),
        "One leads to `X`, which does not exist",
    ),
    (
        "LS106",
        machine(states(Only={"Type": "Pass", "End": True})),
        machine(states(Only={"Type": "Pass", "End": True}, Alone={"Type": "Succeed"})),
        "state Alone is never reached",
    ),
]


def found(*resources: dict[str, Any]) -> list[str]:
    template = {"Resources": {f"Resource{at}": body for at, body in enumerate(resources)}}
    return [str(finding) for finding in check_template(template, {})]


@pytest.mark.parametrize(("code", "good", "bad", "words"), CASES, ids=[f"{case[0]}-{case[3][:24]}" for case in CASES])
def test_rule_passes_the_good_and_finds_the_bad(
    code: str, good: dict[str, Any], bad: dict[str, Any], words: str
) -> None:
    """Each rule is silent about the first resource and says these words about the second."""
    assert [line for line in found(good) if line.startswith(code)] == []
    (line,) = [line for line in found(bad) if line.startswith(code)]
    assert words in line


def test_every_rule_has_a_case() -> None:
    """No rule stands in the book unproven."""
    assert {case[0] for case in CASES} == RULES.by_code.keys()


def test_a_forgotten_key_is_an_error() -> None:
    """Without any key it is a warning; where another resource has the key, the one without it is an error."""
    assert found(log_group())[0].startswith("LS006 (warning) 1 stores")
    assert found(log_group(KmsKeyId=KEY), queue()) == [
        "LS006 Resource1: the queue has no key, others in the template do; encrypt it with the same key"
    ]


def test_no_volume_key_where_the_instance_has_disks() -> None:
    """ml.g5.2xlarge keeps data on a local disk, for which SageMaker refuses a key; ml.inf2.xlarge has none."""
    local, network = ({"InstanceType": kind} for kind in ("ml.g5.2xlarge", "ml.inf2.xlarge"))
    assert found(config(ProductionVariants=[local])) == []
    assert found(config(ProductionVariants=[network]), log_group(KmsKeyId=KEY))[0].startswith(
        "LS006 Resource0: the volume"
    )


def test_an_acknowledged_finding_is_kept_with_its_reason() -> None:
    """Acknowledging takes nothing out of the list; it only no longer stops."""
    template = {"Resources": {"Model": model(isolated=False)}}
    (open_,) = check_template(template, {})
    (acknowledged,) = check_template(template, {"LS005": "fetches its own weights"})
    assert (open_.stops, open_.acknowledged) == (True, None)
    assert (acknowledged.stops, acknowledged.acknowledged) == (False, "fetches its own weights")


def test_a_resource_acknowledges_for_itself_only() -> None:
    """Metadata of one role says nothing about another one."""
    wide = role("sagemaker:InvokeEndpoint", on=f"{ENDPOINT}*")
    reasoned = {**wide, "Metadata": {"loadproof": {"acknowledged": dict.fromkeys(("LS007", "LS017"), "of dev")}}}
    findings = check_template({"Resources": {"A": reasoned, "B": wide}}, {})
    assert [(finding.place, finding.stops) for finding in findings] == [("A", False), ("B", True)] * 2


def test_a_secret_is_never_repeated() -> None:
    """Neither the finding nor its mend holds the value."""
    (line,) = found(variables(HF_TOKEN="hf_abcdefghijklmnopqrstuvwx"))
    assert "hf_abc" not in line
