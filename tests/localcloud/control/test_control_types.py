"""Resource types around an endpoint: each made, changed in place or anew, shown by its own service, and removed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from control_templates import create, delete, queue_template, reasons, update
from moto import mock_aws
from moto.scheduler.models import Schedule, scheduler_backends

from loadproof.localcloud.clock import StillClock
from loadproof.localcloud.controlplane.schedules import Schedules
from loadproof.localcloud.wire import Caller

Aws = Callable[[str], Any]


def one(type_name: str, **properties: Any) -> dict[str, Any]:
    return {"Resources": {"Thing": {"Type": type_name, "Properties": properties}}}


def outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {row["OutputKey"]: row["OutputValue"] for row in stack["Outputs"]}


def test_rule_delivers_events_to_its_queue(aws: Aws) -> None:
    """An event that matches reaches the queue; after an update of the pattern it does not."""
    cfn, sqs = aws("cloudformation"), aws("sqs")
    template = queue_template("told")
    rule = {
        "EventPattern": {"source": ["loadproof"], "detail-type": ["Verdict"]},
        "Targets": [{"Id": "queue", "Arn": {"Fn::GetAtt": ["Queue", "Arn"]}}],
    }
    template["Resources"]["Rule"] = {"Type": "AWS::Events::Rule", "Properties": rule}
    assert create(cfn, "told", template)["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "told")
    url = sqs.get_queue_url(QueueName="told")["QueueUrl"]
    entry = {"Source": "loadproof", "DetailType": "Verdict", "Detail": json.dumps({"verdict": "FAIL"})}
    aws("events").put_events(Entries=[entry])
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"])["detail"] == {"verdict": "FAIL"}
    rule["EventPattern"] = {"source": ["somebody.else"]}
    assert update(cfn, "told", template)["StackStatus"] == "UPDATE_COMPLETE"
    aws("events").put_events(Entries=[entry])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    assert delete(cfn, "told")["StackStatus"] == "DELETE_COMPLETE"
    assert aws("events").list_rules(NamePrefix="told-")["Rules"] == []


def test_schedule_is_kept_changed_and_removed(aws: Aws) -> None:
    cfn = aws("cloudformation")
    template = queue_template("on-time")
    schedule = {
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ScheduleExpression": "rate(1 hour)",
        "State": "DISABLED",
        "Target": {
            "Arn": {"Fn::GetAtt": ["Queue", "Arn"]},
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "Input": '{"go": true}',
        },
    }
    statement = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = {"Version": "2012-10-17", "Statement": [statement]}
    template["Resources"]["Role"] = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}}
    template["Resources"]["Schedule"] = {"Type": "AWS::Scheduler::Schedule", "Properties": schedule}
    assert create(cfn, "on-time", template)["StackStatus"] == "CREATE_COMPLETE"
    (shown,) = aws("scheduler").list_schedules(NamePrefix="on-time-")["Schedules"]
    assert (shown["State"], shown["Target"]["Arn"].rpartition(":")[2]) == ("DISABLED", "on-time")
    schedule |= {"ScheduleExpression": "cron(0 6 ? * 2-6 *)", "State": "ENABLED"}
    assert update(cfn, "on-time", template)["StackStatus"] == "UPDATE_COMPLETE"
    found = aws("scheduler").get_schedule(Name=shown["Name"])
    assert (found["State"], found["ScheduleExpression"]) == ("ENABLED", "cron(0 6 ? * 2-6 *)")
    assert delete(cfn, "on-time")["StackStatus"] == "DELETE_COMPLETE"
    assert aws("scheduler").list_schedules(NamePrefix="on-time-")["Schedules"] == []


class Called:
    """Every client of a cloud, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, service: str) -> Called:
        return self

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        def call(**params: Any) -> dict[str, Any]:
            self.calls.append((operation, params))
            return {}

        return call


def test_schedule_starts_its_machine_when_it_is_due() -> None:
    """Every hour on the cloud's clock, as long as it is enabled; between them nothing."""
    clock, called = StillClock(), Called()
    with mock_aws():
        schedules = Schedules(clock, Caller("123456789012", "us-east-1", ""), called)
        machine = "arn:aws:states:us-east-1:123456789012:stateMachine:benchmark"
        group = scheduler_backends["123456789012"]["us-east-1"].schedule_groups["default"]
        group.schedules["hourly"] = made = Schedule(
            "us-east-1", "123456789012", "default", "hourly", None, "rate(1 hour)", "UTC", {"Mode": "OFF"},
            {"Arn": machine, "Input": '{"go": true}'}, "ENABLED", None, None, None, None,
        )  # fmt: skip
        schedules.turn()
        for _ in range(2):
            clock.advance(1790)
            schedules.turn()
        assert called.calls == []
        clock.advance(30)
        schedules.turn()
        asked = ("start_execution", {"stateMachineArn": machine, "input": '{"go": true}'})
        assert called.calls == [asked]
        clock.advance(3600)
        schedules.turn()
        assert called.calls == [asked, asked]
        made.state = "DISABLED"
        clock.advance(3600)
        schedules.turn()
        assert called.calls == [asked, asked]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ScheduleExpression": "every monday"}, "Schedule must be at(yyyy-mm-ddThh:mm:ss), rate(N unit) or cron"),
        ({"ScheduleExpressionTimezone": "Mars/Olympus"}, "unknown time zone"),
        (
            {
                "Target": {
                    "Arn": "arn:aws:scheduler:::aws-sdk:s3:listBuckets",
                    "RoleArn": "arn:aws:iam::123456789012:role/never",
                }
            },
            "The local cloud starts lambda, sns, sqs, states from a schedule",
        ),
    ],
)
def test_schedule_that_would_never_fire_is_refused(aws: Aws, change: dict[str, Any], reason: str) -> None:
    cfn = aws("cloudformation")
    trust = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    aws("iam").create_role(RoleName="never", AssumeRolePolicyDocument=document)
    properties = {
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ScheduleExpression": "cron(0 6 ? * 2-6 *)",
        "Target": {"Arn": "arn:aws:sqs:us-east-1:123456789012:q", "RoleArn": "arn:aws:iam::123456789012:role/never"},
        **change,
    }
    assert create(cfn, "never", one("AWS::Scheduler::Schedule", **properties))["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in reasons(cfn, "never")["Thing"]
    delete(cfn, "never")
    aws("iam").delete_role(RoleName="never")


def test_network_has_the_rules_it_was_given(aws: Aws) -> None:
    """In by HTTPS from one group; the rule out of a new group is gone, since another was given; endpoints beside it."""
    cfn, ec2 = aws("cloudformation"), aws("ec2")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = [row["SubnetId"] for row in ec2.describe_subnets()["Subnets"]]
    source = ec2.create_security_group(GroupName="source", Description="callers", VpcId=vpc)["GroupId"]
    inbound = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "SourceSecurityGroupId": source}
    nothing = {"IpProtocol": "icmp", "FromPort": 252, "ToPort": 86, "CidrIp": "255.255.255.255/32"}
    group = {
        "VpcId": vpc,
        "GroupDescription": "endpoints",
        "SecurityGroupIngress": [inbound],
        "SecurityGroupEgress": [nothing],
    }
    template = one("AWS::EC2::SecurityGroup", **group)
    template["Resources"]["Endpoint"] = {
        "Type": "AWS::EC2::VPCEndpoint",
        "Properties": {
            "VpcId": vpc,
            "ServiceName": "com.amazonaws.us-east-1.sqs",
            "VpcEndpointType": "Interface",
            "PrivateDnsEnabled": True,
            "SubnetIds": subnets[:1],
            "SecurityGroupIds": [{"Fn::GetAtt": ["Thing", "GroupId"]}],
        },
    }
    template["Outputs"] = {"Group": {"Value": {"Ref": "Thing"}}, "Endpoint": {"Value": {"Ref": "Endpoint"}}}
    stack = create(cfn, "network", template)
    assert stack["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "network")
    found = ec2.describe_security_groups(GroupIds=[outputs(stack)["Group"]])["SecurityGroups"][0]
    (rule,) = found["IpPermissions"]
    assert (rule["FromPort"], rule["UserIdGroupPairs"][0]["GroupId"]) == (443, source)
    assert [one["IpProtocol"] for one in found["IpPermissionsEgress"]] == ["icmp"]
    endpoint = ec2.describe_vpc_endpoints(VpcEndpointIds=[outputs(stack)["Endpoint"]])["VpcEndpoints"][0]
    assert endpoint["ServiceName"] == "com.amazonaws.us-east-1.sqs"

    template["Resources"]["Thing"]["Properties"]["SecurityGroupIngress"] = [{**inbound, "ToPort": 444}]
    template["Resources"]["Endpoint"]["Properties"]["SubnetIds"] = subnets[:2]
    assert update(cfn, "network", template)["StackStatus"] == "UPDATE_COMPLETE", reasons(cfn, "network")
    found = ec2.describe_security_groups(GroupIds=[outputs(stack)["Group"]])["SecurityGroups"][0]
    assert [one["ToPort"] for one in found["IpPermissions"]] == [444]
    endpoint = ec2.describe_vpc_endpoints(VpcEndpointIds=[outputs(stack)["Endpoint"]])["VpcEndpoints"][0]
    assert sorted(endpoint["SubnetIds"]) == sorted(subnets[:2])
    assert delete(cfn, "network")["StackStatus"] == "DELETE_COMPLETE"


def test_network_that_is_not_there_fails_the_deployment(aws: Aws) -> None:
    cfn = aws("cloudformation")
    template = one("AWS::EC2::SecurityGroup", VpcId="vpc-0123456789abcdef0", GroupDescription="nowhere")
    assert create(cfn, "nowhere", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "vpc-0123456789abcdef0" in reasons(cfn, "nowhere")["Thing"]
    delete(cfn, "nowhere")


def test_secret_is_given_or_generated(aws: Aws) -> None:
    """A generated password stands in its template under its key, and an update of the description keeps it."""
    cfn, secrets = aws("cloudformation"), aws("secretsmanager")
    wanted = {"SecretStringTemplate": '{"user": "hub"}', "GenerateStringKey": "token", "PasswordLength": 40}
    template = one("AWS::SecretsManager::Secret", Name="hub", GenerateSecretString=wanted)
    assert create(cfn, "secret", template)["StackStatus"] == "CREATE_COMPLETE"
    value = json.loads(secrets.get_secret_value(SecretId="hub")["SecretString"])
    assert (value["user"], len(value["token"])) == ("hub", 40)
    template["Resources"]["Thing"]["Properties"]["Description"] = "the hub's token"
    assert update(cfn, "secret", template)["StackStatus"] == "UPDATE_COMPLETE"
    assert json.loads(secrets.get_secret_value(SecretId="hub")["SecretString"]) == value
    assert secrets.describe_secret(SecretId="hub")["Description"] == "the hub's token"
    assert delete(cfn, "secret")["StackStatus"] == "DELETE_COMPLETE"


def test_a_parameters_tags_are_of_the_characters_that_its_schema_names(aws: Aws) -> None:
    """By classes of Unicode (`p{L}`), as Java reads them."""
    cfn = aws("cloudformation")
    template = one("AWS::SSM::Parameter", Name="/tagged", Type="String", Value="1", Tags={"größe": "1"})
    assert create(cfn, "tagged", template)["StackStatus"] == "CREATE_COMPLETE"
    delete(cfn, "tagged")
    template["Resources"]["Thing"]["Properties"]["Tags"] = {"a#b": "1"}
    assert create(cfn, "tagged", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "'a#b' was unexpected" in reasons(cfn, "tagged")["Thing"]
    delete(cfn, "tagged")


def test_layers_are_listed_and_not_taken_for_one_that_is_asked_by_its_arn(aws: Aws) -> None:
    assert isinstance(aws("lambda").list_layers()["Layers"], list)


def test_identity_provider_and_log_streams(aws: Aws) -> None:
    """What a CI role trusts, and streams and policies beside a log group."""
    cfn = aws("cloudformation")
    template = one(
        "AWS::IAM::OIDCProvider",
        Url="https://token.actions.githubusercontent.com",
        ClientIdList=["sts.amazonaws.com"],
        ThumbprintList=["a" * 40],
    )
    template["Resources"] |= {
        "Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/own", "RetentionInDays": 30}},
        "Stream": {
            "Type": "AWS::Logs::LogStream",
            "Properties": {"LogGroupName": {"Ref": "Group"}, "LogStreamName": "one"},
        },
        "Policy": {
            "Type": "AWS::Logs::ResourcePolicy",
            "Properties": {"PolicyName": "own", "PolicyDocument": '{"Version": "2012-10-17", "Statement": []}'},
        },
    }
    assert create(cfn, "identity", template)["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "identity")
    (provider,) = aws("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"]
    assert provider["Arn"].endswith("token.actions.githubusercontent.com")
    streams = aws("logs").describe_log_streams(logGroupName="/own")["logStreams"]
    assert [stream["logStreamName"] for stream in streams] == ["one"]
    template["Resources"]["Thing"]["Properties"]["ThumbprintList"] = ["b" * 40]
    assert update(cfn, "identity", template)["StackStatus"] == "UPDATE_COMPLETE", reasons(cfn, "identity")
    found = aws("iam").get_open_id_connect_provider(OpenIDConnectProviderArn=provider["Arn"])
    assert found["ThumbprintList"] == ["b" * 40]
    template["Resources"]["Thing"]["Properties"]["ClientIdList"] = ["other"]
    assert update(cfn, "identity", template)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "does not change ClientIdList" in reasons(cfn, "identity")["Thing"]
    assert delete(cfn, "identity")["StackStatus"] == "DELETE_COMPLETE"


def test_a_key_is_switched_and_turned_as_its_template_says(aws: Aws) -> None:
    """Created disabled; then enabled, with rotation; then without."""
    cfn, kms = aws("cloudformation"), aws("kms")
    create(cfn, "keys", one("AWS::KMS::Key", Enabled=False))
    key = cfn.describe_stack_resource(StackName="keys", LogicalResourceId="Thing")["StackResourceDetail"]
    key_id = key["PhysicalResourceId"]
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"] == "Disabled"
    update(cfn, "keys", one("AWS::KMS::Key", Enabled=True, EnableKeyRotation=True))
    assert kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"] == "Enabled"
    assert kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"]
    update(cfn, "keys", one("AWS::KMS::Key", EnableKeyRotation=False))
    assert not kms.get_key_rotation_status(KeyId=key_id)["KeyRotationEnabled"]
    delete(cfn, "keys")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "Invalid JSON"),
        ("[]", 'a list "widgets"'),
        ('{"widgets": [{"type": "graph"}]}', "/widgets/0: type must be one of"),
        ('{"widgets": [{"type": "text", "width": 25, "properties": {"markdown": "x"}}]}', "between 1 and 24, found 25"),
        ('{"widgets": [{"type": "metric", "properties": {"metrics": []}}]}', "properties.region is required"),
        (
            '{"widgets": [{"type": "metric", "properties": {"region": "us-east-1", "metrics": [["AWS/SQS"]]}}]}',
            "lists of a namespace",
        ),
    ],
)
def test_bad_dashboard_fails_the_deployment(aws: Aws, body: str, reason: str) -> None:
    cfn = aws("cloudformation")
    template = one("AWS::CloudWatch::Dashboard", DashboardName="bad", DashboardBody=body)
    stack = create(cfn, "board", template)
    found = reasons(cfn, "board")
    delete(cfn, "board")
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in found["Thing"]


def test_alarm_keeps_all_it_was_given(aws: Aws) -> None:
    """Every field that CloudFormation sets comes back from DescribeAlarms."""
    given = {
        "ActionsEnabled": False,
        "AlarmActions": ["arn:aws:sns:us-east-1:123456789012:told"],
        "AlarmDescription": "why",
        "AlarmName": "all-fields",
        "ComparisonOperator": "GreaterThanUpperThreshold",
        "DatapointsToAlarm": 2,
        "EvaluationPeriods": 3,
        "InsufficientDataActions": ["arn:aws:sns:us-east-1:123456789012:unknown"],
        "OKActions": ["arn:aws:sns:us-east-1:123456789012:well"],
        "TreatMissingData": "breaching",
        "Threshold": 2.5,
        "Metrics": [
            {"Id": "sum", "Expression": "FILL(a, 0) + b", "Label": "both", "ReturnData": True},
            *(
                {
                    "Id": name,
                    "ReturnData": False,
                    "MetricStat": {
                        "Metric": {
                            "Namespace": "AWS/SageMaker",
                            "MetricName": metric,
                            "Dimensions": [{"Name": "EndpointName", "Value": "chat"}],
                        },
                        "Period": 60,
                        "Stat": "p95",
                        "Unit": "Microseconds",
                    },
                }
                for name, metric in (("a", "ModelLatency"), ("b", "OverheadLatency"))
            ),
        ],
    }
    given["ComparisonOperator"] = "GreaterThanThreshold"
    cfn = aws("cloudformation")
    assert create(cfn, "alarm", one("AWS::CloudWatch::Alarm", **given))["StackStatus"] == "CREATE_COMPLETE"
    (found,) = aws("cloudwatch").describe_alarms(AlarmNames=["all-fields"])["MetricAlarms"]
    assert {name: found[name] for name in given} == given
    delete(cfn, "alarm")


@pytest.mark.parametrize("days", ["? * 2#1", "L * ?", "15W * ?", "LW * ?", "? * 6L"])
def test_a_schedule_by_a_days_place_in_its_month_is_unsupported(aws: Callable[[str], Any], days: str) -> None:
    """Legal on AWS, and never due here: said when it is made, where it would stop what comes after it."""
    trust = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    iam = aws("iam")
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName="days", AssumeRolePolicyDocument=document)
    with pytest.raises(ClientError, match="does not simulate L, W and #"):
        aws("scheduler").create_schedule(
            Name="days",
            ScheduleExpression=f"cron(0 9 {days} 2027)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": "arn:aws:sqs:us-east-1:123456789012:q",
                "RoleArn": iam.get_role(RoleName="days")["Role"]["Arn"],
            },
        )
