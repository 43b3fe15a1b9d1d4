"""Model, configuration, endpoint and copies, as CloudFormation gets them."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from stacks_support import ENVIRONMENT, FROM_HUB, KEY_ARN, NETWORK, Synthesized, profile, synthesize

from loadproof.errors import InputError
from loadproof.profiles.schema import Routing

MODEL = "AWS::SageMaker::Model"
CONFIG = "AWS::SageMaker::EndpointConfig"
ENDPOINT = "AWS::SageMaker::Endpoint"
COMPONENT = "AWS::SageMaker::InferenceComponent"


def variant(stack: Synthesized) -> dict[str, Any]:
    (found,) = stack.only(CONFIG)["ProductionVariants"]
    return found


def specification(stack: Synthesized) -> dict[str, Any]:
    return stack.only(COMPONENT)["Specification"]


def test_component_endpoint_recipe(tmp_path: Path) -> None:
    """Role on the configuration, no model on the variant, managed scaling on, one instance to begin with."""
    stack = synthesize(profile(tmp_path))
    config = stack.only(CONFIG)
    (role,) = [name for name in stack.all("AWS::IAM::Role") if name.startswith("ExecutionRole")]
    assert config["ExecutionRoleArn"] == {"Fn::GetAtt": [role, "Arn"]}
    assert "EndpointConfigName" not in config
    assert config["ProductionVariants"] == [
        {
            "VariantName": "AllTraffic",
            "InstanceType": "ml.g6e.2xlarge",
            "InitialInstanceCount": 1,
            "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 2},
            "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1",
        }
    ]


def test_endpoint_keeps_what_autoscaling_reached(tmp_path: Path) -> None:
    """An update retains counts and weights, and takes data capture from the profile."""
    endpoint = synthesize(profile(tmp_path)).only(ENDPOINT)
    assert endpoint["EndpointName"] == "loadproof-test-chat"
    assert endpoint["RetainAllVariantProperties"] is True
    assert endpoint["ExcludeRetainedVariantProperties"] == [{"VariantPropertyType": "DataCaptureConfig"}]


def test_component_has_name_copies_and_resources(tmp_path: Path) -> None:
    """The component names itself, takes its accelerators and memory, and carries the start-up timeouts."""
    changes = {
        "copies": {"cpus_per_copy": 4.0, "accelerators_per_copy": 1, "placement": "spread"},
        "endpoint": {"model_download_timeout_s": 900, "container_startup_timeout_s": 1200},
    }
    stack = synthesize(profile(tmp_path, changes))
    component = stack.only(COMPONENT)
    assert component["InferenceComponentName"] == "loadproof-test-chat-main"
    assert component["VariantName"] == "AllTraffic"
    assert component["EndpointName"] == {"Fn::GetAtt": [stack.logical_id(ENDPOINT), "EndpointName"]}
    assert component["RuntimeConfig"] == {"CopyCount": 1}
    assert component["Specification"] == {
        "ModelName": {"Fn::GetAtt": [stack.logical_id(MODEL), "ModelName"]},
        "ComputeResourceRequirements": {
            "NumberOfAcceleratorDevicesRequired": 1,
            "NumberOfCpuCoresRequired": 4,
            "MinMemoryRequiredInMb": 16384,
        },
        "StartupParameters": {
            "ModelDataDownloadTimeoutInSeconds": 900,
            "ContainerStartupHealthCheckTimeoutInSeconds": 1200,
        },
        "DataCacheConfig": {"EnableCaching": True},
        "SchedulingConfig": {
            "PlacementStrategy": "SPREAD",
            "AvailabilityZoneBalance": {"EnforcementMode": "PERMISSIVE"},
        },
    }


def test_model_from_s3(tmp_path: Path) -> None:
    """An uncompressed prefix with its accepted licence; the server reads the mounted weights."""
    model = synthesize(profile(tmp_path)).only(MODEL)
    container = model["PrimaryContainer"]
    assert "ModelName" not in model
    assert model["EnableNetworkIsolation"] is True
    assert container["ModelDataSource"]["S3DataSource"] == {
        "S3Uri": "s3://example-models/llama/",
        "S3DataType": "S3Prefix",
        "CompressionType": "None",
        "ModelAccessConfig": {"AcceptEula": True},
    }
    assert container["Environment"]["HF_MODEL_ID"] == "/opt/ml/model"
    assert container["Image"] == (
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-tgi-inference:"
        "2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
    )


def test_model_from_one_archive(tmp_path: Path) -> None:
    """A tar.gz is one object, and without an accepted licence nothing is said about one."""
    source = {"s3_uri": "s3://example-models/llama.tar.gz", "compression": "gzip", "accept_eula": False}
    container = synthesize(profile(tmp_path, {"model": {"source": source}})).only(MODEL)["PrimaryContainer"]
    assert container["ModelDataSource"]["S3DataSource"] == {
        "S3Uri": "s3://example-models/llama.tar.gz",
        "S3DataType": "S3Object",
        "CompressionType": "Gzip",
    }


def test_model_from_the_hub_is_pinned(tmp_path: Path) -> None:
    """The commit goes to the server's own variable; isolation is off, because the server fetches the weights."""
    model = synthesize(profile(tmp_path, FROM_HUB)).only(MODEL)
    assert model["EnableNetworkIsolation"] is False
    assert "ModelDataSource" not in model["PrimaryContainer"]
    assert model["PrimaryContainer"]["Environment"]["HF_MODEL_REVISION"] == "a" * 40


def test_tags_name_the_model(tmp_path: Path) -> None:
    """Model and component carry the model's id, and an architecture where the profile gives one."""
    shape = {
        "num_hidden_layers": 16,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 8192,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "parameters_b": 1.24,
    }
    stack = synthesize(profile(tmp_path, {"model": {"id": "my-team/tiny", "architecture": shape}}))
    expected = [
        {
            "Key": "loadproof:architecture",
            "Value": "layers=16 hidden=2048 heads=32 kv_heads=8 head_dim=64 intermediate=8192 vocab=128256 "
            "context=131072 parameters_b=1.24",
        },
        {"Key": "loadproof:environment", "Value": "test"},
        {"Key": "loadproof:model-id", "Value": "my-team/tiny"},
        {"Key": "loadproof:profile", "Value": "chat"},
    ]
    assert sorted(stack.only(MODEL)["Tags"], key=itemgetter("Key")) == expected
    assert stack.only(COMPONENT)["Tags"] == expected


def test_environment_tags_are_everywhere(tmp_path: Path) -> None:
    """A tag of the environment is on every resource that can carry one."""
    tagged = ENVIRONMENT.model_copy(update={"tags": {"owner": "ml-platform"}})
    stack = synthesize(profile(tmp_path), tagged)
    for kind in ("AWS::IAM::Role", MODEL, CONFIG, ENDPOINT, COMPONENT, "AWS::CloudWatch::Alarm"):
        for body in stack.all(kind).values():
            assert {"Key": "owner", "Value": "ml-platform"} in body["Properties"]["Tags"]


def test_each_image_brings_its_host(tmp_path: Path) -> None:
    """LMI 0.38.0 is built on CUDA 13, TGI 3.3.6 on 12.4: the default host is never left to chance."""
    newest = profile(tmp_path, {"container": {"family": "lmi", "version": "0.38.0", "settings": None}})
    assert variant(synthesize(newest))["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"
    assert variant(synthesize(profile(tmp_path)))["InferenceAmiVersion"] == "al2-ami-sagemaker-inference-gpu-3-1"


def host_of(tmp_path: Path, instance_type: str, **container: Any) -> str | None:
    """The host image of a profile on that instance type."""
    changes = {"endpoint": {"instance_type": instance_type}, "container": {"settings": None, **container}}
    return variant(synthesize(profile(tmp_path, changes))).get("InferenceAmiVersion")


def test_own_image_brings_its_host_where_its_cuda_is_said(tmp_path: Path) -> None:
    """By its tag, or by what the profile says of it; an image that says nothing leaves the host to SageMaker."""
    newest, image = "al2023-ami-sagemaker-inference-gpu-4-1", "123456789012.dkr.ecr.us-east-1.amazonaws.com/own"
    own = {"family": "custom", "settings": {"protocol": "openai", "max_total_tokens": None}, "version": None}
    assert host_of(tmp_path, "ml.g6e.2xlarge", **own, image=f"{image}:1.4-cu130") == newest
    assert host_of(tmp_path, "ml.g6e.2xlarge", **own, image=f"{image}:1.4", cuda="13.0") == newest
    assert (
        host_of(tmp_path, "ml.g6e.2xlarge", **own, image=f"{image}:1.4", cuda="12.8")
        == "al2-ami-sagemaker-inference-gpu-3-1"
    )
    assert host_of(tmp_path, "ml.g6e.2xlarge", **own, image=f"{image}:1.4") is None


def test_images_of_cuda_12_get_the_newest_driver_of_theirs(tmp_path: Path) -> None:
    """LMI 0.35.0 is of CUDA 12.8: driver 550 (12.4) is the newest that starts it, as in AWS's own tests."""
    lmi = {"family": "lmi", "version": "0.35.0"}
    assert host_of(tmp_path, "ml.g6e.2xlarge", **lmi) == "al2-ami-sagemaker-inference-gpu-3-1"


def test_written_host_is_taken_as_written(tmp_path: Path) -> None:
    """endpoint.ami_version wins over what would be chosen."""
    version = "al2-ami-sagemaker-inference-gpu-3-1"
    stack = synthesize(profile(tmp_path, {"endpoint": {"ami_version": version}}))
    assert variant(stack)["InferenceAmiVersion"] == version


def test_network_is_on_model_and_configuration(tmp_path: Path) -> None:
    """Model and configuration of a component endpoint must agree about network and isolation."""
    stack = synthesize(profile(tmp_path), ENVIRONMENT.model_copy(update={"network": NETWORK}))
    expected = {
        "SecurityGroupIds": ["sg-0123456789abcdef0"],
        "Subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    }
    for kind in (MODEL, CONFIG):
        assert stack.only(kind)["VpcConfig"] == expected
        assert stack.only(kind)["EnableNetworkIsolation"] is True


def test_key_encrypts_only_volumes_that_can_have_one(tmp_path: Path) -> None:
    """g6e has disks of its own and refuses a key; inf2 has not."""
    keyed = ENVIRONMENT.model_copy(update={"kms_key_arn": KEY_ARN})
    assert "KmsKeyId" not in synthesize(profile(tmp_path), keyed).only(CONFIG)
    plain_disk = profile(tmp_path)
    assert plain_disk.endpoint is not None
    inf2 = plain_disk.endpoint.model_copy(update={"instance_type": "ml.inf2.xlarge"})
    assert synthesize(plain_disk.model_copy(update={"endpoint": inf2}), keyed).only(CONFIG)["KmsKeyId"] == KEY_ARN


def test_plain_variant(tmp_path: Path) -> None:
    """Model, weight and timeouts on the variant; no components, no managed scaling, no role on the configuration."""
    stack = synthesize(
        profile(tmp_path, {"endpoint": {"hosting": "plain_variant", "max_instances": 1}, "copies": {"max": 1}})
    )
    assert stack.all(COMPONENT) == {}
    assert "ExecutionRoleArn" not in stack.only(CONFIG)
    assert variant(stack) == {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": [stack.logical_id(MODEL), "ModelName"]},
        "InstanceType": "ml.g6e.2xlarge",
        "InitialInstanceCount": 1,
        "InitialVariantWeight": 1,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
        "ModelDataDownloadTimeoutInSeconds": 1800,
        "ContainerStartupHealthCheckTimeoutInSeconds": 1800,
        "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1",
    }
    # Nothing scales the instances, so their number follows the profile.
    assert {"VariantPropertyType": "DesiredInstanceCount"} in stack.only(ENDPOINT)["ExcludeRetainedVariantProperties"]


def test_instance_pools(tmp_path: Path) -> None:
    """Pools replace the instance type, in order of priority; the component says itself for each type."""
    pools = [
        {"instance_type": "ml.g5.2xlarge", "priority": 2},
        {"instance_type": "ml.g6e.2xlarge", "priority": 1},
    ]
    stack = synthesize(profile(tmp_path, {"endpoint": {"instance_type": None, "instance_pools": pools}}))
    assert "InstanceType" not in variant(stack)
    assert variant(stack)["InstancePools"] == [
        {"InstanceType": "ml.g6e.2xlarge", "Priority": 1},
        {"InstanceType": "ml.g5.2xlarge", "Priority": 2},
    ]
    component = stack.only(COMPONENT)
    assert "Specification" not in component
    assert [entry["InstanceType"] for entry in component["Specifications"]] == ["ml.g6e.2xlarge", "ml.g5.2xlarge"]


def test_prefix_aware_routing_and_scale_in(tmp_path: Path) -> None:
    """Routing and scale-in policy pass through under AWS's names."""
    endpoint = {
        "routing": {"strategy": "prefix_aware", "prefix_length_bytes": 2048, "concurrency_threshold": 8},
        "scale_in": {"strategy": "consolidation", "max_step_instances": 2, "cooldown_min": 10},
    }
    found = variant(synthesize(profile(tmp_path, {"endpoint": endpoint})))
    assert found["RoutingConfig"] == {
        "RoutingStrategy": "PREFIX_AWARE",
        "PrefixAwareRoutingConfig": {"PrefixLength": 2048, "ConcurrencyThreshold": 8},
    }
    assert found["ManagedInstanceScaling"]["ScaleInPolicy"] == {
        "Strategy": "CONSOLIDATION",
        "MaximumStepSize": 2,
        "CooldownInMinutes": 10,
    }


def test_half_a_prefix_aware_routing_is_refused(tmp_path: Path) -> None:
    """CreateEndpointConfig wants both numbers, so synthesis does too."""
    chosen = profile(tmp_path)
    assert chosen.endpoint is not None
    half = chosen.endpoint.model_copy(update={"routing": Routing(strategy="prefix_aware", prefix_length_bytes=2048)})
    with pytest.raises(InputError, match=r"prefix_length_bytes \(1024..65536\) and concurrency_threshold"):
        synthesize(chosen.model_copy(update={"endpoint": half}))


def test_further_models_and_adapters(tmp_path: Path) -> None:
    """Each component has its model; an adapter follows its base and asks for no resources."""
    further = {
        "name": "small",
        "model": {
            "id": "meta-llama/Llama-3.2-1B-Instruct",
            "source": {"type": "s3", "s3_uri": "s3://example-models/small/"},
        },
        "container": {"family": "tgi", "version": "3.3.6"},
    }
    lmi = {"family": "lmi", "version": "0.35.0", "settings": {"max_total_tokens": None, "enable_lora": True}}
    adapters = [{"name": "legal", "s3_uri": "s3://example-models/adapters/legal.tar.gz"}]
    chosen = profile(
        tmp_path,
        {
            "container": lmi,
            "adapters": adapters,
            "components": [further],
            "endpoint": {"instance_type": "ml.g6e.12xlarge"},
        },
    )
    stack = synthesize(chosen)
    assert len(stack.all(MODEL)) == 2
    names = [body["Properties"]["InferenceComponentName"] for body in stack.all(COMPONENT).values()]
    assert sorted(names) == ["loadproof-test-chat-main", "loadproof-test-chat-main-legal", "loadproof-test-chat-small"]
    adapter = stack.named(COMPONENT, InferenceComponentName="loadproof-test-chat-main-legal")
    assert adapter["Properties"]["Specification"] == {
        "BaseInferenceComponentName": "loadproof-test-chat-main",
        "Container": {"ArtifactUrl": "s3://example-models/adapters/legal.tar.gz"},
    }
    (base,) = [
        name
        for name, body in stack.all(COMPONENT).items()
        if body["Properties"]["InferenceComponentName"] == "loadproof-test-chat-main"
    ]
    assert adapter["DependsOn"] == [base]
    assert stack.template["Outputs"]["ComponentNames"]["Value"] == "loadproof-test-chat-main,loadproof-test-chat-small"


def test_async_inference_and_data_capture(tmp_path: Path) -> None:
    """Both write to S3 with the environment's key."""
    keyed = ENVIRONMENT.model_copy(update={"kms_key_arn": KEY_ARN})
    endpoint = {
        "hosting": "plain_variant",
        "max_instances": 1,
        "async_inference": {
            "input_s3_uri": "s3://inputs/chat/",
            "output_s3_uri": "s3://outputs/chat/",
            "max_concurrent_invocations_per_instance": 4,
            "error_topic_arn": "arn:aws:sns:us-east-1:123456789012:chat-failed",
        },
        "data_capture": {"s3_uri": "s3://captures/chat/", "sampling_percent": 10},
    }
    config = synthesize(profile(tmp_path, {"endpoint": endpoint, "copies": {"max": 1}}), keyed).only(CONFIG)
    assert config["AsyncInferenceConfig"] == {
        "OutputConfig": {
            "S3OutputPath": "s3://outputs/chat/",
            "KmsKeyId": KEY_ARN,
            "NotificationConfig": {"ErrorTopic": "arn:aws:sns:us-east-1:123456789012:chat-failed"},
        },
        "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 4},
    }
    assert config["DataCaptureConfig"] == {
        "EnableCapture": True,
        "InitialSamplingPercentage": 10,
        "DestinationS3Uri": "s3://captures/chat/",
        "KmsKeyId": KEY_ARN,
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }


def alarms_of(stack: Synthesized) -> list[dict[str, Any]]:
    """What the objectives' two alarms are called in a DeploymentConfig."""
    alarms = stack.all("AWS::CloudWatch::Alarm")
    names = [f"loadproof-test-chat-{kind}" for kind in ("latency-p95", "error-rate")]
    by_name = {body["Properties"]["AlarmName"]: logical_id for logical_id, body in alarms.items()}
    return [{"AlarmName": {"Ref": by_name[name]}} for name in names]


def plain(tmp_path: Path, **endpoint: Any) -> Synthesized:
    return synthesize(
        profile(tmp_path, {"endpoint": {"hosting": "plain_variant", "max_instances": 8, **endpoint}, "copies": None})
    )


def test_two_instances_roll_by_halves(tmp_path: Path) -> None:
    """Nothing written: batches of half, ten minutes of watching each, back when an objective's alarm fires."""
    stack = plain(tmp_path, min_instances=2)
    assert stack.only(ENDPOINT)["DeploymentConfig"] == {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "WaitIntervalInSeconds": 600,
        },
        "AutoRollbackConfiguration": {"Alarms": alarms_of(stack)},
    }


def test_one_instance_goes_blue_green(tmp_path: Path) -> None:
    """One instance has no half: a second fleet, watched ten minutes, the old one kept for the longest stream."""
    assert plain(tmp_path).only(ENDPOINT)["DeploymentConfig"]["BlueGreenUpdatePolicy"] == {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 600},
        "TerminationWaitInSeconds": 480,
    }


@pytest.mark.parametrize(("traffic", "size"), [("canary", "CanarySize"), ("linear", "LinearStepSize")])
def test_traffic_moves_in_steps(tmp_path: Path, traffic: str, size: str) -> None:
    """A canary's first step and each linear step have the size that is written."""
    update = {
        "type": "blue_green",
        "traffic": traffic,
        "step_percent": 10,
        "wait_s": 300,
        "termination_wait_s": 60,
        "max_execution_s": 7200,
        "rollback_on_alarms": False,
    }
    assert plain(tmp_path, update=update).only(ENDPOINT)["DeploymentConfig"] == {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": traffic.upper(),
                "WaitIntervalInSeconds": 300,
                size: {"Type": "CAPACITY_PERCENT", "Value": 10},
            },
            "TerminationWaitInSeconds": 60,
            "MaximumExecutionTimeoutInSeconds": 7200,
        }
    }


def test_components_roll_from_two_copies_on(tmp_path: Path) -> None:
    """Two copies: one at a time, back on the objectives' alarms. The endpoint itself has no policy then."""
    stack = synthesize(profile(tmp_path, {"copies": {"min": 2}, "endpoint": {"max_instances": 3}}))
    assert stack.only(COMPONENT)["DeploymentConfig"] == {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "WaitIntervalInSeconds": 600,
        },
        "AutoRollbackConfiguration": {"Alarms": alarms_of(stack)},
    }
    assert "DeploymentConfig" not in stack.only(ENDPOINT)
    assert "DeploymentConfig" not in synthesize(profile(tmp_path)).only(COMPONENT)


def test_batches_of_copies_as_written(tmp_path: Path) -> None:
    """A batch of one copy, the way back a quarter at a time."""
    update = {"batch_copies": 1, "rollback_batch_percent": 25, "wait_s": 120, "max_execution_s": 3600}
    changes = {"copies": {"min": 4, "max": 4, "update": update}, "endpoint": {"max_instances": 5}}
    assert synthesize(profile(tmp_path, changes)).only(COMPONENT)["DeploymentConfig"]["RollingUpdatePolicy"] == {
        "MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1},
        "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
        "WaitIntervalInSeconds": 120,
        "MaximumExecutionTimeoutInSeconds": 3600,
    }


def test_alarms_that_turn_back_wait_for_nothing(tmp_path: Path) -> None:
    """The component refers to the alarms, and they name it in a text: no circle, and they are there before it."""
    stack = synthesize(profile(tmp_path, {"copies": {"min": 2}, "endpoint": {"max_instances": 3}}))
    for body in stack.all("AWS::CloudWatch::Alarm").values():
        assert "DependsOn" not in body
        assert "Fn::GetAtt" not in str(body)
        assert "'Ref'" not in str(body)


def test_logs_are_the_stacks_own(tmp_path: Path) -> None:
    """Both groups SageMaker writes to have retention and key, and are there before who writes."""
    stack = synthesize(profile(tmp_path), ENVIRONMENT.model_copy(update={"kms_key_arn": KEY_ARN}))
    for kind, name in (
        (ENDPOINT, "Endpoints/loadproof-test-chat"),
        (COMPONENT, "InferenceComponents/loadproof-test-chat-main"),
    ):
        (group,) = [
            (logical_id, body["Properties"])
            for logical_id, body in stack.all("AWS::Logs::LogGroup").items()
            if body["Properties"].get("LogGroupName") == f"/aws/sagemaker/{name}"
        ]
        assert (group[1]["RetentionInDays"], group[1]["KmsKeyId"]) == (7, KEY_ARN)
        (writer,) = stack.all(kind).values()
        assert writer["DependsOn"] == [group[0]]


def test_metrics_are_written_out(tmp_path: Path) -> None:
    """Detailed metrics are on unless the profile says otherwise; nothing is left to a default that may change."""
    assert synthesize(profile(tmp_path)).only(CONFIG)["MetricsConfig"] == {
        "EnableDetailedObservability": True,
        "EnableEnhancedMetrics": False,
        "MetricPublishFrequencyInSeconds": 60,
    }
    fewer = {"endpoint": {"metrics": {"detailed": False, "enhanced": True, "period_s": 10}}}
    assert synthesize(profile(tmp_path, fewer)).only(CONFIG)["MetricsConfig"] == {
        "EnableDetailedObservability": False,
        "EnableEnhancedMetrics": True,
        "MetricPublishFrequencyInSeconds": 10,
    }


def variables(tmp_path: Path, family: str, speculative: dict[str, Any]) -> dict[str, str]:
    changes = {"container": {"family": family, "version": None, "settings": None, "speculative": speculative}}
    container = synthesize(profile(tmp_path, changes)).only(MODEL)["PrimaryContainer"]
    return {name: value for name, value in container["Environment"].items() if "SPECULATIVE" in name}


@pytest.mark.parametrize(
    ("family", "variable"), [("lmi", "OPTION_SPECULATIVE_CONFIG"), ("vllm", "SM_VLLM_SPECULATIVE_CONFIG")]
)
def test_speculation_of_vllm_is_one_json_map(tmp_path: Path, family: str, variable: str) -> None:
    """vLLM's names for method, draft and tokens; LMI hands them on."""
    eagle = {"method": "eagle3", "draft_model": "/opt/ml/model/draft", "tokens": 3, "draft_tensor_parallel_degree": 1}
    assert variables(tmp_path, family, eagle) == {
        variable: '{"method": "eagle3", "num_speculative_tokens": 3, "model": "/opt/ml/model/draft", '
        '"draft_tensor_parallel_size": 1}'
    }
    ngram = {"method": "ngram", "tokens": 5, "longest_ngram_tokens": 4}
    assert variables(tmp_path, family, ngram) == {
        variable: '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'
    }


def test_speculation_of_sglang_has_a_flag_each(tmp_path: Path) -> None:
    """Three tokens in one branch are three steps, and the model checks four tokens: those and the one before."""
    draft = {"method": "draft_model", "draft_model": "/opt/ml/model/draft", "tokens": 3}
    assert variables(tmp_path, "sglang", draft) == {
        "SM_SGLANG_SPECULATIVE_ALGORITHM": "STANDALONE",
        "SM_SGLANG_SPECULATIVE_DRAFT_MODEL_PATH": "/opt/ml/model/draft",
        "SM_SGLANG_SPECULATIVE_NUM_STEPS": "3",
        "SM_SGLANG_SPECULATIVE_EAGLE_TOPK": "1",
        "SM_SGLANG_SPECULATIVE_NUM_DRAFT_TOKENS": "4",
    }
    assert variables(tmp_path, "sglang", {"method": "ngram", "tokens": 8}) == {
        "SM_SGLANG_SPECULATIVE_ALGORITHM": "NGRAM",
        "SM_SGLANG_SPECULATIVE_NUM_DRAFT_TOKENS": "8",
    }


def test_capacity_reservation(tmp_path: Path) -> None:
    """A training plan's reservation is the only place the instances may come from."""
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/chat"
    found = variant(synthesize(profile(tmp_path, {"endpoint": {"capacity_reservation": {"arn": arn}}})))
    assert found["CapacityReservationConfig"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "MlReservationArn": arn,
    }


def test_image_missing_in_the_region_is_refused(tmp_path: Path) -> None:
    """vLLM 0.30.0 has no image in cn-north-1: the message names version and region."""
    chosen = profile(
        tmp_path, {"container": {"family": "vllm", "version": "0.30.0", "settings": {"max_total_tokens": None}}}
    )
    with pytest.raises(InputError, match=r"profile chat: vllm 0\.30\.0 is not published in cn-north-1"):
        synthesize(chosen, ENVIRONMENT.model_copy(update={"region": "cn-north-1"}))


def test_china_has_its_own_partition(tmp_path: Path) -> None:
    """ARNs and registry of cn-north-1 are China's."""
    stack = synthesize(profile(tmp_path), ENVIRONMENT.model_copy(update={"region": "cn-north-1"}))
    image = stack.only(MODEL)["PrimaryContainer"]["Image"]
    assert image.startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/")
    assert "arn:aws:" not in str(stack.all("AWS::IAM::Role"))
