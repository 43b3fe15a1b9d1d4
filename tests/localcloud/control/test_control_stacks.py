"""Stacks through boto3: what CloudFormation promises, on a real port."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from control_templates import TGI_IMAGE, create, delete, endpoint_template, queue_template, reasons, settled, update

from loadproof.localcloud.local import LocalCloud

Aws = Callable[[str], Any]


def test_whole_endpoint_is_created_edited_and_deleted_without_remains(aws: Aws) -> None:
    """A profile's resources come up in order, an edit reaches the service, deletion leaves nothing."""
    cfn, sagemaker, scaling = aws("cloudformation"), aws("sagemaker"), aws("application-autoscaling")
    assert create(cfn, "whole", endpoint_template("whole"))["StackStatus"] == "CREATE_COMPLETE"
    component = sagemaker.describe_inference_component(InferenceComponentName="whole-main")
    assert component["InferenceComponentStatus"] == "InService"
    assert component["RuntimeConfig"] == {"DesiredCopyCount": 1, "CurrentCopyCount": 1}
    policy = scaling.describe_scaling_policies(
        ServiceNamespace="sagemaker", ResourceId="inference-component/whole-main"
    )["ScalingPolicies"][0]
    alarms = [alarm["AlarmName"] for alarm in policy["Alarms"]]
    described = aws("cloudwatch").describe_alarms(AlarmNames=alarms)["MetricAlarms"]
    # 3 minutes above 8, and 15 minutes below 90% of it, in periods of 10 s.
    assert sorted((one["Threshold"], one["EvaluationPeriods"]) for one in described) == [(7.2, 15), (8.0, 3)]

    first = sagemaker.describe_endpoint(EndpointName="whole")["EndpointConfigName"]
    assert update(cfn, "whole", endpoint_template("whole", copies=3))["StackStatus"] == "UPDATE_COMPLETE"
    component = sagemaker.describe_inference_component(InferenceComponentName="whole-main")
    assert component["RuntimeConfig"]["CurrentCopyCount"] == 3
    assert sagemaker.describe_endpoint(EndpointName="whole")["EndpointConfigName"] == first

    assert delete(cfn, "whole")["StackStatus"] == "DELETE_COMPLETE"
    assert sagemaker.list_endpoints(NameContains="whole")["Endpoints"] == []
    assert sagemaker.list_inference_components(NameContains="whole")["InferenceComponents"] == []
    assert sagemaker.list_models(NameContains="whole")["Models"] == []
    assert sagemaker.list_endpoint_configs(NameContains="whole")["EndpointConfigs"] == []
    targets = scaling.describe_scalable_targets(
        ServiceNamespace="sagemaker", ResourceIds=["inference-component/whole-main"]
    )
    assert targets["ScalableTargets"] == []
    assert aws("cloudwatch").describe_alarms(AlarmNames=alarms)["MetricAlarms"] == []


def test_replaced_configuration_reaches_the_endpoint_and_the_old_one_goes(aws: Aws) -> None:
    """A create-only change makes a new configuration; the endpoint, which only refers to it, is updated in place."""
    cfn, sagemaker = aws("cloudformation"), aws("sagemaker")
    create(cfn, "moves", endpoint_template("moves"))
    before = sagemaker.describe_endpoint(EndpointName="moves")
    assert update(cfn, "moves", endpoint_template("moves", instance_type="ml.g5.48xlarge"))["StackStatus"] == (
        "UPDATE_COMPLETE"
    )
    after = sagemaker.describe_endpoint(EndpointName="moves")
    assert after["EndpointConfigName"] != before["EndpointConfigName"]
    assert after["CreationTime"] == before["CreationTime"]
    configs = sagemaker.list_endpoint_configs(NameContains="moves")["EndpointConfigs"]
    assert [one["EndpointConfigName"] for one in configs] == [after["EndpointConfigName"]]
    delete(cfn, "moves")


def test_failed_creation_rolls_back_with_the_reason(aws: Aws) -> None:
    """A copy larger than its instance: the component fails, everything before it is removed again."""
    cfn = aws("cloudformation")
    stack = create(cfn, "toolarge", endpoint_template("toolarge", accelerators=8))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "8 accelerators" in reasons(cfn, "toolarge")["Component"]
    assert "ml.g5.12xlarge has 4" in reasons(cfn, "toolarge")["Component"]
    assert aws("sagemaker").list_endpoints(NameContains="toolarge")["Endpoints"] == []
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        update(cfn, "toolarge", endpoint_template("toolarge"))
    assert delete(cfn, "toolarge")["StackStatus"] == "DELETE_COMPLETE"


def test_failed_update_restores_what_was(aws: Aws) -> None:
    """An update that fails at its last resource puts the earlier ones back."""
    cfn, sagemaker = aws("cloudformation"), aws("sagemaker")
    create(cfn, "restores", endpoint_template("restores", copies=2))
    config = sagemaker.describe_endpoint(EndpointName="restores")["EndpointConfigName"]
    bad = endpoint_template("restores", copies=3, instance_type="ml.g5.48xlarge")
    bad["Resources"]["Policy"]["Properties"]["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] = -1
    assert update(cfn, "restores", bad)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "TargetValue must be greater than 0" in reasons(cfn, "restores")["Policy"]
    component = sagemaker.describe_inference_component(InferenceComponentName="restores-main")
    assert component["RuntimeConfig"]["CurrentCopyCount"] == 2
    assert sagemaker.describe_endpoint(EndpointName="restores")["EndpointConfigName"] == config
    assert len(sagemaker.list_endpoint_configs(NameContains="restores")["EndpointConfigs"]) == 1
    assert delete(cfn, "restores")["StackStatus"] == "DELETE_COMPLETE"


def test_container_that_cannot_start_fails_the_deployment(aws: Aws) -> None:
    """An image that nobody knows never becomes InService; the stack says why and rolls back."""
    cfn = aws("cloudformation")
    template = endpoint_template("unknownimage", image="123456789012.dkr.ecr.us-east-1.amazonaws.com/own:1")
    assert create(cfn, "unknownimage", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "Failed" in reasons(cfn, "unknownimage")["Component"]
    assert aws("sagemaker").list_inference_components(NameContains="unknownimage")["InferenceComponents"] == []


def test_own_image_that_the_registry_lacks_is_said_in_an_event(aws: Aws) -> None:
    """The twin stands for it; AWS would not make the model. Once it is pushed, nothing is said."""
    cfn, ecr = aws("cloudformation"), aws("ecr")
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/server:1.4.2"

    def said(stack: str) -> str | None:
        create(cfn, stack, endpoint_template(stack, image=image))
        events = cfn.describe_stack_events(StackName=stack)["StackEvents"]
        model = [one for one in events if one["LogicalResourceId"] == "Model"]
        return next(one for one in model if one["ResourceStatus"] == "CREATE_COMPLETE").get("ResourceStatusReason")

    assert said("notpushed") == f"Not in this cloud's ECR, so AWS would refuse it: {image}."
    ecr.create_repository(repositoryName="team/server")
    ecr.put_image(repositoryName="team/server", imageTag="1.4.2", imageManifest="{}", imageManifestMediaType="m")
    assert said("pushed") is None


def test_type_that_aws_does_not_know_is_refused_at_once(aws: Aws) -> None:
    """As on AWS: no stack comes into being."""
    cfn = aws("cloudformation")
    template = {"Resources": {"Thing": {"Type": "AWS::SageMaker::Thing"}}}
    with pytest.raises(ClientError, match=r"Unrecognized resource types: \[AWS::SageMaker::Thing\]"):
        create(cfn, "unknowntype", template)


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ({"Type": "AWS::MSK::Cluster", "Properties": {}}, "does not provide resource type AWS::MSK::Cluster"),
        ({"Type": "AWS::S3::Bucket", "Properties": {"WebsiteConfiguration": {}}}, "does not provide WebsiteConfig"),
        ({"Type": "AWS::SQS::Queue", "Properties": {"Colour": "red"}}, "'Colour' was unexpected"),
        ({"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": "soon"}}, "VisibilityTimeout"),
        (
            {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "{{resolve:ssm:name}}"}},
            "does not provide dynamic references: {{resolve:ssm:name}}",
        ),
    ],
    ids=["type", "property", "unknown-property", "value", "dynamic-reference"],
)
def test_nothing_unsupported_passes_silently(aws: Aws, resource: dict[str, Any], reason: str) -> None:
    """What AWS knows but this cloud does not, and what AWS would refuse, fail with the reason in an event."""
    cfn = aws("cloudformation")
    name = "unsupported-" + str(abs(hash(reason)) % 10_000)
    assert create(cfn, name, {"Resources": {"Thing": resource}})["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in reasons(cfn, name)["Thing"]


def test_outputs_parameters_and_tags_survive_a_change_set(aws: Aws) -> None:
    """The way the CDK CLI deploys: create a change set, execute it, read the outputs."""
    cfn = aws("cloudformation")
    aws("ssm").put_parameter(Name="/control/delay", Value="7", Type="String", Overwrite=True)
    template = (
        "Parameters: {Delay: {Type: 'AWS::SSM::Parameter::Value<String>', Default: /control/delay}}\n"
        "Resources: {Queue: {Type: 'AWS::SQS::Queue', Properties: {DelaySeconds: !Ref Delay}}}\n"
        "Outputs: {Arn: {Value: !GetAtt Queue.Arn}}\n"
    )
    made = cfn.create_change_set(
        StackName="changed", ChangeSetName="one", ChangeSetType="CREATE", TemplateBody=template,
        Tags=[{"Key": "team", "Value": "ml"}],
    )  # fmt: skip
    described = cfn.describe_change_set(StackName="changed", ChangeSetName="one")
    assert described["Changes"][0]["ResourceChange"]["Action"] == "Add"
    cfn.execute_change_set(StackName="changed", ChangeSetName="one")
    stack = settled(cfn, made["StackId"])
    assert stack["Outputs"][0]["OutputValue"].startswith("arn:aws:sqs:us-east-1:123456789012:changed-Queue-")
    assert stack["Parameters"] == [{"ParameterKey": "Delay", "ParameterValue": "/control/delay", "ResolvedValue": "7"}]
    url = cfn.describe_stack_resource(StackName="changed", LogicalResourceId="Queue")["StackResourceDetail"]
    assert aws("sqs").list_queue_tags(QueueUrl=url["PhysicalResourceId"])["Tags"] == {"team": "ml"}

    aws("ssm").put_parameter(Name="/control/delay", Value="9", Type="String", Overwrite=True)
    cfn.update_stack(
        StackName="changed", UsePreviousTemplate=True,
        Parameters=[{"ParameterKey": "Delay", "UsePreviousValue": True}],
    )  # fmt: skip
    assert settled(cfn, "changed")["StackStatus"] == "UPDATE_COMPLETE"
    attributes = aws("sqs").get_queue_attributes(QueueUrl=url["PhysicalResourceId"], AttributeNames=["DelaySeconds"])
    assert attributes["Attributes"]["DelaySeconds"] == "9"


def test_change_set_tells_replacement_from_update(aws: Aws) -> None:
    """A renamed queue is replaced, a longer timeout is not; no change at all is a FAILED change set."""
    cfn = aws("cloudformation")
    create(cfn, "tells", queue_template("tells-1"))

    def replacement(template: dict[str, Any]) -> str:
        body = json.dumps(template)
        cfn.create_change_set(StackName="tells", ChangeSetName="x", ChangeSetType="UPDATE", TemplateBody=body)
        described = cfn.describe_change_set(StackName="tells", ChangeSetName="x")
        cfn.delete_change_set(StackName="tells", ChangeSetName="x")
        changes = described["Changes"]
        return changes[0]["ResourceChange"]["Replacement"] if changes else described["StatusReason"]

    assert replacement(queue_template("tells-2")) == "True"
    assert replacement(queue_template("tells-1", VisibilityTimeout=60)) == "False"
    assert "didn't contain changes" in replacement(queue_template("tells-1"))


def test_change_set_lists_what_reads_an_attribute_of_what_changes_in_place(aws: Aws) -> None:
    """The attribute may change with its resource: a proof reads when its component changed."""
    cfn = aws("cloudformation")
    template = queue_template("read")
    template["Resources"]["Reader"] = {
        "Type": "AWS::SQS::Queue",
        "Properties": {
            "RedrivePolicy": {"maxReceiveCount": 3, "deadLetterTargetArn": {"Fn::GetAtt": ["Queue", "Arn"]}},
            "Tags": [{"Key": "of", "Value": {"Ref": "Queue"}}],
        },
    }
    create(cfn, "read", template)
    template["Resources"]["Queue"]["Properties"]["VisibilityTimeout"] = 60
    cfn.create_change_set(
        StackName="read", ChangeSetName="x", ChangeSetType="UPDATE", TemplateBody=json.dumps(template)
    )
    changes = cfn.describe_change_set(StackName="read", ChangeSetName="x")["Changes"]
    found = {one["ResourceChange"]["LogicalResourceId"]: one["ResourceChange"] for one in changes}
    assert {name: one["Replacement"] for name, one in found.items()} == {"Queue": "False", "Reader": "False"}
    (detail,) = found["Reader"]["Details"]
    assert (detail["Target"]["Name"], detail["Evaluation"]) == ("RedrivePolicy", "Dynamic")


def test_absent_change_set_is_named_so(aws: Aws) -> None:
    """Deleting it succeeds, describing it gives the code that the CDK CLI waits for."""
    cfn = aws("cloudformation")
    create(cfn, "absent", queue_template("absent"))
    cfn.delete_change_set(StackName="absent", ChangeSetName="never")
    with pytest.raises(cfn.exceptions.ChangeSetNotFoundException):
        cfn.describe_change_set(StackName="absent", ChangeSetName="never")


def test_custom_named_resource_cannot_be_replaced_under_its_name(aws: Aws) -> None:
    """The new one would have to exist beside the old one: AWS refuses, and so do we."""
    cfn = aws("cloudformation")
    template = queue_template("named")
    create(cfn, "named", template)
    template["Resources"]["Queue"]["Properties"] = {"QueueName": "named-anew"}
    assert update(cfn, "named", template)["StackStatus"] == "UPDATE_COMPLETE"
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "named", "Subscription": []}}
    create(cfn, "named-topic", {"Resources": {"Topic": topic}})
    topic["Properties"]["Subscription"] = [{"Protocol": "sqs", "Endpoint": "arn:aws:sqs:us-east-1:123456789012:x"}]
    assert update(cfn, "named-topic", {"Resources": {"Topic": topic}})["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing" in reasons(cfn, "named-topic")["Topic"]


def test_retained_resource_outlives_its_stack(aws: Aws) -> None:
    """DeletionPolicy Retain skips the deletion and says so."""
    cfn = aws("cloudformation")
    template = queue_template("kept")
    template["Resources"]["Queue"]["DeletionPolicy"] = "Retain"
    create(cfn, "kept", template)
    assert delete(cfn, "kept")["StackStatus"] == "DELETE_COMPLETE"
    assert aws("sqs").get_queue_url(QueueName="kept")["QueueUrl"].endswith("/kept")


def test_bucket_with_objects_does_not_go(aws: Aws) -> None:
    """As on AWS: DELETE_FAILED, the resource named, and a second attempt after emptying it succeeds."""
    cfn, s3 = aws("cloudformation"), aws("s3")
    create(
        cfn,
        "fullbucket",
        {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "full-bucket"}}}},
    )
    s3.put_object(Bucket="full-bucket", Key="a", Body=b"1")
    stack = delete(cfn, "fullbucket")
    assert (stack["StackStatus"], "[Bucket]" in stack["StackStatusReason"]) == ("DELETE_FAILED", True)
    s3.delete_object(Bucket="full-bucket", Key="a")
    assert delete(cfn, "fullbucket")["StackStatus"] == "DELETE_COMPLETE"


def test_only_what_failed_to_go_may_be_retained(aws: Aws) -> None:
    """Nothing before a deletion failed; then what is left of it, and the stack goes without it."""
    cfn, s3 = aws("cloudformation"), aws("s3")
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "left-bucket"}}
    create(cfn, "leaving", {"Resources": {"Bucket": bucket, "Topic": {"Type": "AWS::SNS::Topic"}}})
    s3.put_object(Bucket="left-bucket", Key="a", Body=b"1")
    with pytest.raises(ClientError, match="only when the stack is in the DELETE_FAILED state"):
        cfn.delete_stack(StackName="leaving", RetainResources=["Bucket"])
    delete(cfn, "leaving")
    with pytest.raises(ClientError, match="Do not specify resources that are in the DELETE_COMPLETE state"):
        cfn.delete_stack(StackName="leaving", RetainResources=["Bucket", "Topic"])
    assert delete(cfn, "leaving", RetainResources=["Bucket"])["StackStatus"] == "DELETE_COMPLETE"
    assert s3.get_object(Bucket="left-bucket", Key="a")["Body"].read() == b"1"


def test_roles_must_be_acknowledged(aws: Aws) -> None:
    """Without CAPABILITY_IAM a template with a role is refused, as on AWS; a named role needs more."""
    cfn = aws("cloudformation")
    template = {"Resources": {"Role": endpoint_template("x")["Resources"]["Role"]}}
    with pytest.raises(ClientError, match=r"Requires capabilities : \[CAPABILITY_IAM\]"):
        cfn.create_stack(StackName="roles", TemplateBody=json.dumps(template))
    template["Resources"]["Role"]["Properties"]["RoleName"] = "named-role"
    with pytest.raises(ClientError, match=r"Requires capabilities : \[CAPABILITY_NAMED_IAM\]"):
        create(cfn, "roles", template)


def test_request_options_without_effect_here_are_refused(aws: Aws) -> None:
    """A stack policy would protect nothing: better refused than forgotten."""
    with pytest.raises(ClientError, match="does not provide StackPolicyBody"):
        create(aws("cloudformation"), "policed", queue_template("policed"), StackPolicyBody="{}")


def test_deletion_is_protected_while_told_so(aws: Aws) -> None:
    cfn = aws("cloudformation")
    create(cfn, "guarded", queue_template("guarded"), EnableTerminationProtection=True)
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        cfn.delete_stack(StackName="guarded")
    cfn.update_termination_protection(StackName="guarded", EnableTerminationProtection=False)
    assert delete(cfn, "guarded")["StackStatus"] == "DELETE_COMPLETE"


def test_a_change_set_with_another_type_fails(aws: Aws) -> None:
    """https://github.com/aws/aws-sam-cli/issues/6786, in AWS's words; `cdk deploy` shows the reason."""
    cfn = aws("cloudformation")
    create(cfn, "turning", {"Resources": {"Letters": {"Type": "AWS::SNS::Topic"}}})
    body = json.dumps({"Resources": {"Letters": {"Type": "AWS::SQS::Queue"}}})
    cfn.create_change_set(StackName="turning", ChangeSetName="turn", TemplateBody=body)
    told = cfn.describe_change_set(StackName="turning", ChangeSetName="turn")
    assert told["Status"] == "FAILED"
    assert told["StatusReason"].endswith("modifies resource type of the following resources: [Letters]")
    delete(cfn, "turning")


def why_it_went_back(cloudformation: Any, stack: str) -> str:
    """The reason of the newest event with which a stack began to roll back."""
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    return next(one["ResourceStatusReason"] for one in events if one["ResourceStatus"] == "UPDATE_ROLLBACK_IN_PROGRESS")


def test_exports_bind_stacks(aws: Aws) -> None:
    """An imported value arrives; an export in use cannot go."""
    cfn = aws("cloudformation")
    exporting = queue_template("exporting")
    exporting["Outputs"] = {"Arn": {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}, "Export": {"Name": "the-queue"}}}
    create(cfn, "exporting", exporting)
    target = {"deadLetterTargetArn": {"Fn::ImportValue": "the-queue"}, "maxReceiveCount": 3}
    create(cfn, "importing", queue_template("importing", RedrivePolicy=target))
    url = aws("sqs").get_queue_url(QueueName="importing")["QueueUrl"]
    found = aws("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
    assert json.loads(found["RedrivePolicy"])["deadLetterTargetArn"].endswith(":exporting")
    with pytest.raises(ClientError, match="the-queue cannot be deleted as it is in use by importing"):
        cfn.delete_stack(StackName="exporting")
    ended = update(cfn, "exporting", queue_template("exporting"))
    assert ended["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "the-queue cannot be deleted as it is in use by importing" in why_it_went_back(cfn, "exporting")
    delete(cfn, "importing")
    assert delete(cfn, "exporting")["StackStatus"] == "DELETE_COMPLETE"


def test_an_import_is_seen_however_its_template_writes_it(aws: Aws) -> None:
    """The short form of YAML, and a name that is put together; a value in use cannot change either."""
    cfn = aws("cloudformation")
    exporting = queue_template("lender")
    exporting["Outputs"] = {"Word": {"Value": "one", "Export": {"Name": "lender-word"}}}
    create(cfn, "lender", exporting)
    body = """
    Parameters: {Lender: {Type: String, Default: lender}}
    Resources:
      P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !ImportValue {'Fn::Sub': '${Lender}-word'}}}
    """
    cfn.create_stack(StackName="borrower", TemplateBody=body)
    assert settled(cfn, "borrower")["StackStatus"] == "CREATE_COMPLETE"
    with pytest.raises(ClientError, match="lender-word cannot be deleted as it is in use by borrower"):
        cfn.delete_stack(StackName="lender")
    exporting["Outputs"]["Word"]["Value"] = "two"
    assert update(cfn, "lender", exporting)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "lender-word cannot be updated as it is in use by borrower" in why_it_went_back(cfn, "lender")
    delete(cfn, "borrower")
    assert update(cfn, "lender", exporting)["StackStatus"] == "UPDATE_COMPLETE"
    delete(cfn, "lender")


def test_regions_are_apart(cloud: LocalCloud) -> None:
    """A stack and its endpoint live in the region that they were made in, and nowhere else."""
    import boto3

    def client(service: str, region: str) -> Any:
        return boto3.client(
            service, region_name=region, endpoint_url=cloud.endpoint_url,
            aws_access_key_id=cloud.state.access_key, aws_secret_access_key=cloud.state.secret_key,
        )  # fmt: skip

    create(
        client("cloudformation", "eu-west-1"),
        "abroad",
        endpoint_template("abroad", image=TGI_IMAGE.replace("us-east-1", "eu-west-1")),
    )
    there = client("sagemaker", "eu-west-1").describe_endpoint(EndpointName="abroad")
    assert there["EndpointArn"] == "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/abroad"
    with pytest.raises(ClientError, match="Could not find endpoint"):
        client("sagemaker", "us-east-1").describe_endpoint(EndpointName="abroad")
    with pytest.raises(ClientError, match="does not exist"):
        client("cloudformation", "us-east-1").describe_stacks(StackName="abroad")
    delete(client("cloudformation", "eu-west-1"), "abroad")


def test_plain_variant_serves_its_model(aws: Aws) -> None:
    """A variant with a ModelName has the container itself; its instances are scaled by their own dimension."""
    cfn = aws("cloudformation")
    template = endpoint_template("plain")
    for name in ("Component", "Target", "Policy"):
        del template["Resources"][name]
    variant = template["Resources"]["Config"]["Properties"]["ProductionVariants"][0]
    variant["ModelName"] = {"Fn::GetAtt": ["Model", "ModelName"]}
    del variant["ManagedInstanceScaling"]
    template["Resources"]["Target"] = {
        "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
        "DependsOn": "Endpoint",
        "Properties": {
            "ServiceNamespace": "sagemaker",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "ResourceId": "endpoint/plain/variant/AllTraffic",
            "MinCapacity": 1,
            "MaxCapacity": 2,
        },
    }
    assert create(cfn, "plain", template)["StackStatus"] == "CREATE_COMPLETE"
    answer = aws("sagemaker-runtime").invoke_endpoint(
        EndpointName="plain", ContentType="application/json", Body=json.dumps({"inputs": "Hi"})
    )
    assert json.loads(answer["Body"].read())
    variant["InstanceType"] = "ml.g5.48xlarge"
    assert update(cfn, "plain", template)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "must be deregistered as scalable targets with AutoScaling" in reasons(cfn, "plain")["Endpoint"]
    delete(cfn, "plain")


def test_reserved_tags_fail_the_deployment(aws: Aws) -> None:
    """Tag keys that begin with aws: belong to AWS, whatever the resource type."""
    cfn = aws("cloudformation")
    template = queue_template("reserved", Tags=[{"Key": "aws:mine", "Value": "1"}])
    assert create(cfn, "reserved", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "aws: prefixed tag key names" in str(reasons(cfn, "reserved"))


def test_failed_update_leaves_the_former_copies_serving(aws: Aws) -> None:
    """A new image that cannot start is rolled back at the service too, not only in the stack's own books."""
    cfn, sagemaker = aws("cloudformation"), aws("sagemaker")
    create(cfn, "former", endpoint_template("former"))
    broken = endpoint_template("former", image="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1")
    assert update(cfn, "former", broken)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    component = sagemaker.describe_inference_component(InferenceComponentName="former-main")
    assert (component["InferenceComponentStatus"], component["RuntimeConfig"]["CurrentCopyCount"]) == ("InService", 1)
    assert "tgi" in component["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"]
    answer = aws("sagemaker-runtime").invoke_endpoint(
        EndpointName="former",
        InferenceComponentName="former-main",
        ContentType="application/json",
        Body=json.dumps({"inputs": "Hello", "parameters": {"max_new_tokens": 2}}),
    )
    assert "generated_text" in answer["Body"].read().decode()


def _plain(template: dict[str, Any]) -> dict[str, Any]:
    """The same endpoint with its model in the variant and no component."""
    resources = template["Resources"]
    for name in ("Component", "Target", "Policy"):
        del resources[name]
    (variant,) = resources["Config"]["Properties"]["ProductionVariants"]
    del variant["ManagedInstanceScaling"]
    variant["ModelName"] = {"Fn::GetAtt": ["Model", "ModelName"]}
    return template


def test_endpoint_that_goes_back_by_itself_fails_the_update(aws: Aws) -> None:
    """SageMaker keeps the old configuration when the new one cannot start; CloudFormation must not call that done."""
    cfn, sagemaker = aws("cloudformation"), aws("sagemaker")
    assert create(cfn, "back", _plain(endpoint_template("back")))["StackStatus"] == "CREATE_COMPLETE"
    before = sagemaker.describe_endpoint(EndpointName="back")["EndpointConfigName"]
    broken = endpoint_template("back", image="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1")
    assert update(cfn, "back", _plain(broken))["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "was rolled back" in str(reasons(cfn, "back"))
    assert sagemaker.describe_endpoint(EndpointName="back")["EndpointConfigName"] == before


_LAMBDA_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
_ALARM = {
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 2,
    "MetricName": "m",
    "Namespace": "n",
    "Period": 60,
    "Statistic": "Sum",
    "Threshold": 1,
}


def _consumer(
    queue: dict[str, Any] | None = None, function: dict[str, Any] | None = None, source: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A queue, a function and the mapping between them."""
    code = {"ZipFile": "def handler(event, context):\n    return None"}
    role = {"Fn::GetAtt": ["Role", "Arn"]}
    return {
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": _LAMBDA_TRUST}},
            "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 60, **(queue or {})}},
            "Function": {
                "Type": "AWS::Lambda::Function",
                "Properties": {"Handler": "index.handler", "Runtime": "python3.13", "Role": role, "Code": code}
                | (function or {}),
            },
            "Source": {
                "Type": "AWS::Lambda::EventSourceMapping",
                "Properties": {
                    "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
                    "FunctionName": {"Ref": "Function"},
                    **(source or {}),
                },
            },
        }
    }


@pytest.mark.parametrize(
    ("name", "template", "reason"),
    [
        (
            "hasty",
            _consumer(queue={"VisibilityTimeout": 10}, function={"Timeout": 30}),
            "Queue visibility timeout: 10 seconds is less than Function timeout: 30 seconds",
        ),
        ("wide", _consumer(source={"BatchSize": 11}), "Maximum batch window in seconds must be greater than 0"),
        ("slow", _consumer(function={"Timeout": 901}), "maximum of 900"),
        ("node", _consumer(function={"Runtime": "nodejs22.x"}), "runs Python functions only"),
        ("own-region", _consumer(function={"Environment": {"Variables": {"AWS_REGION": "x"}}}), "reserved keys"),
        ("full", _consumer(function={"Environment": {"Variables": {"LONG": "x" * 4093}}}), "4 KB"),
        ("two-keys", queue_template("two", KmsMasterKeyId="alias/x", SqsManagedSseEnabled=True), "one type of server"),
        (
            "same",
            {
                "Resources": {
                    one: {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "same-name"}} for one in ("A", "B")
                }
            },
            "same-name already exists",
        ),
        (
            "odd-period",
            {"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {**_ALARM, "Period": 45}}}},
            "45 is not one of [10, 30, 60]",
        ),
        (
            "eager",
            {"Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {**_ALARM, "DatapointsToAlarm": 3}}}},
            "less than or equal to EvaluationPeriods",
        ),
    ],
)
def test_what_other_services_refuse_is_refused(aws: Aws, name: str, template: dict[str, Any], reason: str) -> None:
    """Where moto takes what AWS does not, CloudFormation says so here."""
    cfn = aws("cloudformation")
    assert create(cfn, name, template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in str([event.get("ResourceStatusReason") for event in _events(cfn, name)])


def test_a_sound_consumer_is_created(aws: Aws) -> None:
    """The template that the refusals above vary is itself accepted."""
    cfn = aws("cloudformation")
    assert create(cfn, "sound", _consumer())["StackStatus"] == "CREATE_COMPLETE"
    assert delete(cfn, "sound")["StackStatus"] == "DELETE_COMPLETE"


def _events(cloudformation: Any, stack: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    return events


def test_rolled_back_deletion_policy_does_not_delete(aws: Aws) -> None:
    """Retain became Delete in an update that failed: the stack's deletion still retains."""
    cfn = aws("cloudformation")
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "kept-after-all"}}
    create(cfn, "policy", {"Resources": {"B": {**bucket, "DeletionPolicy": "Retain"}}})
    refused = {"Resources": {"B": {**bucket, "DeletionPolicy": "Delete"}, "A": {"Type": "AWS::MSK::ServerlessCluster"}}}
    assert update(cfn, "policy", refused)["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert delete(cfn, "policy")["StackStatus"] == "DELETE_COMPLETE"
    assert "kept-after-all" in [one["Name"] for one in aws("s3").list_buckets()["Buckets"]]


def test_a_transform_is_refused_as_not_provided(aws: Callable[[str], Any]) -> None:
    body = json.dumps({**queue_template("transformed"), "Transform": "AWS::LanguageExtensions"})
    with pytest.raises(ClientError) as caught:
        aws("cloudformation").create_stack(
            StackName="transformed", TemplateBody=body, Capabilities=["CAPABILITY_AUTO_EXPAND"]
        )
    assert caught.value.response["Error"]["Code"] == "UnsupportedOperation"
    assert "transform AWS::LanguageExtensions" in caught.value.response["Error"]["Message"]
