"""Details of templates that other teams write: what is told of them, and what is not made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import review_pairs
from review_rules_support import ENVIRONMENT, allow, found, resource, reviewed, role, side

from loadproof.review.assemble import review_pair
from loadproof.review.model import Pair

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
CUDA_13 = f"{REGISTRY}/djl-inference:0.38.0-lmi29.0.0-cu130"
CUDA_12 = f"{REGISTRY}/djl-inference:0.30.0-lmi12.0.0-cu124"
AMI_13 = "al2023-ami-sagemaker-inference-gpu-4-1"
QUEUE = resource("SQS::Queue", QueueName="in", KmsMasterKeyId="k", VisibilityTimeout=1800)


def endpoint(number: int, image: str, **variant: Any) -> dict[str, Any]:
    """A plain endpoint of one variant with its model and configuration; ids end in `number`."""
    own = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": [f"Model{number}", "ModelName"]},
        "InstanceType": "ml.g6e.2xlarge",
        "InitialInstanceCount": 1,
        **variant,
    }
    return {
        f"Model{number}": resource(
            "SageMaker::Model", ExecutionRoleArn="r", EnableNetworkIsolation=True, PrimaryContainer={"Image": image}
        ),
        f"Config{number}": resource("SageMaker::EndpointConfig", ProductionVariants=[own]),
        f"Endpoint{number}": resource(
            "SageMaker::Endpoint",
            EndpointName=f"chat-{number}",
            EndpointConfigName={"Fn::GetAtt": [f"Config{number}", "EndpointConfigName"]},
            RetainAllVariantProperties=True,
        ),
    }


def target(place: str, dimension: str, fewest: int, most: int) -> dict[str, Any]:
    """A scalable target."""
    return resource(
        "ApplicationAutoScaling::ScalableTarget",
        ServiceNamespace=dimension.partition(":")[0],
        ScalableDimension=dimension,
        ResourceId=place,
        MinCapacity=fewest,
        MaxCapacity=most,
    )


def consumer(queue: dict[str, Any], timeout_s: Any) -> dict[str, Any]:
    """A queue with a function that works on it."""
    return {
        "Queue": queue,
        "Worker": resource("Lambda::Function", FunctionName="worker", Role="r", Code={}, Timeout=timeout_s),
        "Source": resource(
            "Lambda::EventSourceMapping",
            EventSourceArn={"Fn::GetAtt": ["Queue", "Arn"]},
            FunctionName={"Fn::GetAtt": ["Worker", "Arn"]},
        ),
    }


def test_each_endpoint_has_its_own_host() -> None:
    """An image of CUDA 13 on the endpoint that has the host for it; the other endpoint's host does not count."""
    before = endpoint(1, CUDA_12, InferenceAmiVersion=AMI_13) | endpoint(2, CUDA_12)
    good = endpoint(1, CUDA_13, InferenceAmiVersion=AMI_13) | endpoint(2, CUDA_12)
    assert found(before, good, "LR020") == []
    bad = endpoint(1, CUDA_12, InferenceAmiVersion=AMI_13) | endpoint(2, CUDA_13)
    assert [one.place for one in found(before, bad, "LR020")] == ["Model2"]


def test_a_component_runs_on_its_endpoints_host() -> None:
    """The image stands in the component, the host in the configuration of its endpoint."""
    config = {"VariantName": "v", "InstanceType": "ml.g6e.2xlarge", "InitialInstanceCount": 1}

    def template(image: str) -> dict[str, Any]:
        component = resource(
            "SageMaker::InferenceComponent",
            InferenceComponentName="c",
            EndpointName={"Ref": "Endpoint"},
            Specification={"Container": {"Image": image}},
        )
        return {
            "Config": resource("SageMaker::EndpointConfig", ProductionVariants=[config], EnableNetworkIsolation=True),
            "Endpoint": resource("SageMaker::Endpoint", EndpointName="e", EndpointConfigName={"Ref": "Config"}),
            "Component": component,
        }

    assert [one.place for one in found(template(CUDA_12), template(CUDA_13), "LR020")] == ["Component"]


def test_tables_that_scale_to_zero_are_none_of_ours() -> None:
    """Only SageMaker's copies need something that wakes them."""
    place, dimension = "service/cluster/web", "ecs:service:DesiredCount"
    assert found({"T": target(place, dimension, 1, 4)}, {"T": target(place, dimension, 0, 4)}) == []
    assert found({"T": target(place, dimension, 1, 4)}, {}) == []


def test_a_target_names_its_endpoint() -> None:
    """Another endpoint's variant of the same name is not the one that scales."""
    scaled = target("endpoint/chat-2/variant/AllTraffic", "sagemaker:variant:DesiredInstanceCount", 1, 4)
    before = endpoint(1, CUDA_12) | endpoint(2, CUDA_12) | {"T": scaled}
    other = endpoint(1, CUDA_12, InstanceType="ml.g6e.4xlarge") | endpoint(2, CUDA_12) | {"T": scaled}
    assert found(before, other, "LR011") == []
    same = endpoint(1, CUDA_12) | endpoint(2, CUDA_12, InstanceType="ml.g6e.4xlarge") | {"T": scaled}
    assert [one.place for one in found(before, same, "LR011")] == ["Config2"]


def test_a_target_may_name_its_endpoint_by_reference() -> None:
    """As CDK writes it: a text joined from parts, one of them a reference."""
    place = {"Fn::Join": ["", ["endpoint/", {"Fn::GetAtt": ["Endpoint1", "EndpointName"]}, "/variant/AllTraffic"]]}
    scaled = target("", "sagemaker:variant:DesiredInstanceCount", 1, 4)
    scaled["Properties"]["ResourceId"] = place
    before = endpoint(1, CUDA_12) | {"T": scaled}
    after = endpoint(1, CUDA_12, InstanceType="ml.g6e.4xlarge") | {"T": scaled}
    assert [one.code for one in found(before, after, "LR011")] == ["LR011"]


def test_what_scaling_may_reach_is_what_the_quota_must_hold() -> None:
    """One instance at first, five at the most: the quota must hold five."""
    before = endpoint(1, CUDA_12)
    after = before | {"T": target("endpoint/chat-1/variant/AllTraffic", "sagemaker:variant:DesiredInstanceCount", 1, 5)}
    (finding,) = found(before, after, "LR026")
    assert "up to 5 ml.g6e.2xlarge may run (until now 1)" in finding.message


def test_every_pool_may_have_to_hold_all_instances() -> None:
    """Where the first type has none, the second takes them all."""
    pools = [{"InstanceType": kind, "Priority": at} for at, kind in enumerate(("ml.g6e.2xlarge", "ml.g5.2xlarge"), 1)]
    after = endpoint(1, CUDA_12, InitialInstanceCount=3, InstancePools=pools)
    del after["Config1"]["Properties"]["ProductionVariants"][0]["InstanceType"]
    messages = [one.message for one in found(endpoint(1, CUDA_12), after, "LR026")]
    assert ["ml.g5.2xlarge" in messages[0], "ml.g6e.2xlarge" in messages[1]] == [True, True]
    assert all("up to 3 " in message for message in messages)


def test_a_visibility_that_only_the_deployment_knows_is_not_judged() -> None:
    """A parameter may hold anything; AWS's default holds only where nothing is written."""
    by_parameter = consumer({**QUEUE, "Properties": {**QUEUE["Properties"], "VisibilityTimeout": {"Ref": "P"}}}, 300)
    assert found(consumer(QUEUE, 60), by_parameter, "LR030") == []
    unwritten = resource("SQS::Queue", QueueName="in", KmsMasterKeyId="k")
    (finding,) = found(consumer(QUEUE, 60), consumer(unwritten, 60), "LR030")
    assert finding.message.startswith("messages of in are hidden for 30 s, worker may run 60 s")


def test_a_retention_that_begins_is_shorter_than_for_ever() -> None:
    """A log group without a time keeps its logs for ever; a reference keeps them nobody knows how long."""
    ever, ninety, some = (
        {"G": resource("Logs::LogGroup", LogGroupName="g", KmsKeyId="k", **more)}
        for more in ({}, {"RetentionInDays": 90}, {"RetentionInDays": {"Ref": "P"}})
    )
    assert [one.message for one in found(ever, ninety, "LR034")] == [
        "logs of g are kept for 90 days, until now for ever"
    ]
    assert found(some, ninety, "LR034") == found(ninety, some, "LR034") == []


def test_a_digest_given_up_for_a_tag_is_told() -> None:
    """A tag may be overwritten, a digest may not."""
    digest = f"{REGISTRY}/djl-inference@sha256:{'0' * 64}"
    (finding,) = found(endpoint(1, digest), endpoint(1, CUDA_12), "LR045")
    assert finding.severity == "warning"
    assert found(endpoint(1, CUDA_12), endpoint(1, digest), "LR045") == []


def test_a_parameter_of_the_systems_manager_is_no_data_lost() -> None:
    """Its value stands in the template."""
    assert found({"P": resource("SSM::Parameter", Name="p", Type="String", Value="v")}, {}, "LR032") == []


def test_what_scaling_calls_is_no_alarm_of_the_callers() -> None:
    """It goes with its policy, and so does what it was for."""
    policy = resource("ApplicationAutoScaling::ScalingPolicy", PolicyName="p", PolicyType="StepScaling")
    alarm = resource("CloudWatch::Alarm", AlarmName="a", AlarmActions=[{"Ref": "Policy"}])
    assert found({"Policy": policy, "Alarm": alarm}, {}, "LR057") == []
    assert [one.code for one in found({"Alarm": resource("CloudWatch::Alarm", AlarmName="a")}, {})] == ["LR057"]


def test_the_same_name_in_another_stack_is_a_risk() -> None:
    """Which stack is deployed first decides: AWS may still have the old one when the new one is made."""
    queue = {"Queue": QUEUE}
    before = replace(side(queue), templates={"a": {"Resources": queue}, "b": {"Resources": {}}})
    after = replace(side(queue), templates={"a": {"Resources": {}}, "b": {"Resources": {"New": QUEUE}}})
    severities = {one.code: one.severity for one in reviewed(before, after)}
    assert severities["LR004"] == "risk"


def test_a_disk_of_its_own_needs_no_key() -> None:
    """SageMaker refuses a volume key on instances with local disks, so its going with them is no loss."""

    def keyed(kind: str, **more: Any) -> dict[str, Any]:
        template = endpoint(1, CUDA_12, InstanceType=kind)
        template["Config1"]["Properties"].update(more)
        return template

    without_disk = keyed("ml.p3.2xlarge", KmsKeyId="k")
    assert found(without_disk, keyed("ml.g6e.2xlarge"), "LR042") == []
    assert len(found(without_disk, keyed("ml.p3.2xlarge"), "LR042")) == 1


def test_everybody_under_a_condition_is_not_the_public() -> None:
    """A principal of `*` with a condition names somebody after all: told as a right, not as open to the public."""

    def policy(*more: Any) -> dict[str, Any]:
        return {
            "Queue": QUEUE,
            "Policy": resource("SQS::QueuePolicy", Queues=[{"Ref": "Queue"}], PolicyDocument={"Statement": list(more)}),
        }

    condition = {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    statement = allow("sqs:SendMessage", {"Fn::GetAtt": ["Queue", "Arn"]}, Principal="*", Condition=condition)
    assert [one.code for one in found(policy(), policy(statement))] == ["LR040"]


def test_an_unset_length_is_the_models_context() -> None:
    """vLLM takes requests as long as the model's context; a limit written below it refuses some of them."""
    pair = review_pairs.pair("27-other-server")
    assert pair.after is not None and pair.after.profile is not None
    limited = pair.after.profile
    container = limited.container
    assert container is not None
    settings = container.settings.model_copy(update={"max_model_len": None})
    free = limited.model_copy(update={"container": container.model_copy(update={"settings": settings})})
    before = replace(pair.after, profile=free)
    codes = {one.code: one for one in review_pair(Pair("prod", "chat", before, pair.after), ()).findings}
    # Llama 3.1's context is 131,072 tokens.
    assert "until now 131,072" in codes["LR028"].message


def test_a_move_of_the_environment_hides_what_only_differs_by_it() -> None:
    """ARNs of another account are no new rights: nothing of the old place is changed."""
    arn = "arn:aws:sqs:us-east-1:{}:in"
    before = side({"R": role(allow("sqs:SendMessage", arn.format("123456789012")))})
    there = ENVIRONMENT.model_copy(update={"account": "210987654321"})
    after = side({"R": role(allow("sqs:SendMessage", arn.format("210987654321")))}, environment=there)
    assert [one.code for one in reviewed(before, after)] == ["LR065"]


def test_a_global_profile_of_bedrock_is_a_risk() -> None:
    """Within the geography data may often go; to other continents somebody must have agreed."""
    pair = review_pairs.pair("77-cross-region")
    assert pair.after is not None and pair.after.profile is not None and pair.after.profile.bedrock is not None
    bedrock = pair.after.profile.bedrock.model_copy(update={"inference_profile": "global"})
    after = replace(pair.after, profile=pair.after.profile.model_copy(update={"bedrock": bedrock}))
    (finding,) = [
        one for one in review_pair(Pair("prod", "chat", pair.after, after), ()).findings if one.code == "LR041"
    ]
    assert finding.severity == "risk"
    assert finding.message == (
        "prompts and answers are worked on in any region of the world, until now in any region of `us`"
    )


def test_six_times_the_timeout_is_enough_and_a_second_less_is_not() -> None:
    """6 x 300 s = 1800 s."""
    short = resource("SQS::Queue", QueueName="in", KmsMasterKeyId="k", VisibilityTimeout=1799)
    assert found(consumer(QUEUE, 60), consumer(QUEUE, 300), "LR030") == []
    assert [one.severity for one in found(consumer(QUEUE, 60), consumer(short, 300), "LR030")] == ["risk"]


def test_one_variant_has_no_weight_to_lose() -> None:
    """All traffic goes to it anyway; and without scaling its count is the template's."""
    before = endpoint(1, CUDA_12)
    del before["Endpoint1"]["Properties"]["RetainAllVariantProperties"]
    after = endpoint(1, f"{CUDA_12}-v2")
    del after["Endpoint1"]["Properties"]["RetainAllVariantProperties"]
    assert found(before, after, "LR010") == []


def test_scaling_that_goes_with_its_endpoint_is_no_news_of_its_own() -> None:
    """The endpoint's removal says it all."""
    scaled = target("endpoint/chat-1/variant/AllTraffic", "sagemaker:variant:DesiredInstanceCount", 1, 4)
    both = endpoint(1, CUDA_12) | endpoint(2, CUDA_12)
    assert [one.code for one in found(both | {"T": scaled}, endpoint(2, CUDA_12))] == ["LR001"]
    assert [one.code for one in found(both | {"T": scaled}, both)] == ["LR013"]


def test_a_step_policy_that_nothing_calls_wakes_nobody() -> None:
    """It takes an alarm that calls it, and a step up."""
    place, dimension = "inference-component/c", "sagemaker:inference-component:DesiredCopyCount"
    asleep = {"T": target(place, dimension, 0, 4)}
    for change, action, codes in ((1, "Policy", []), (1, "Other", ["LR021"]), (-1, "Policy", ["LR021"])):
        steps = {"StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": change}]}
        policy = resource(
            "ApplicationAutoScaling::ScalingPolicy",
            PolicyName="p",
            PolicyType="StepScaling",
            ScalingTargetId={"Ref": "T"},
            StepScalingPolicyConfiguration=steps,
        )
        alarm = resource("CloudWatch::Alarm", AlarmName="a", AlarmActions=[{"Ref": action}])
        after = {**asleep, "Policy": policy, "Alarm": alarm}
        assert [one.code for one in found({}, after, "LR021")] == codes


def test_only_a_policy_about_tls_is_one() -> None:
    """Another refusal taken away from a queue's policy is nothing about encryption."""

    def refuses(condition: dict[str, Any]) -> dict[str, Any]:
        deny = {"Effect": "Deny", "Action": "sqs:*", "Principal": "*", "Resource": "*", "Condition": condition}
        policy = resource("SQS::QueuePolicy", Queues=[{"Ref": "Queue"}], PolicyDocument={"Statement": [deny]})
        return {"Queue": QUEUE, "Policy": policy}

    tls = refuses({"Bool": {"aws:SecureTransport": "false"}})
    network = refuses({"StringNotEquals": {"aws:SourceVpce": "vpce-1"}})
    assert found(network, {"Queue": QUEUE}, "LR042") == []
    assert [one.message for one in found(tls, {"Queue": QUEUE}, "LR042")] == [
        "taken away: the rule that in is reached over TLS only"
    ]


def test_another_component_elsewhere_is_no_move() -> None:
    """One model goes from one endpoint, another comes to the other: nothing moved."""

    def component(name: str, model: str, at: int) -> dict[str, Any]:
        return resource(
            "SageMaker::InferenceComponent",
            InferenceComponentName=name,
            EndpointName={"Ref": f"Endpoint{at}"},
            Specification={"ModelName": model},
        )

    both = endpoint(1, CUDA_12) | endpoint(2, CUDA_12)
    before, other = both | {"A": component("a", "llama", 1)}, both | {"B": component("b", "qwen", 2)}
    assert [one.code for one in found(before, other)] == ["LR002"]
    moved = both | {"B": component("b", "llama", 2)}
    assert [one.code for one in found(before, moved)] == ["LR003"]
