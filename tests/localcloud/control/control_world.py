"""SageMaker's API in process, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from control_templates import TGI_IMAGE

from loadproof.localcloud.controlplane.sagemaker import SageMakerApi, Store, Timing
from loadproof.localcloud.controlplane.sagemaker.lookup import StoreDirectory
from loadproof.localcloud.wire import AwsError, Caller, Service

CALLER = Caller("123456789012", "us-east-1", "AKIA")
VARIANT = {
    "VariantName": "AllTraffic",
    "InstanceType": "ml.g5.12xlarge",  # 4 A10G, 48 vCPUs, 192 GiB
    "InitialInstanceCount": 1,
    "ManagedInstanceScaling": {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 2},
}


@dataclass
class World:
    """The API on a store whose clock stands still until `pass_s` moves it."""

    now_s: float = 0.0
    broken: str | None = None
    scaled: frozenset[str] = frozenset()
    in_alarm: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    metrics: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(
            timing=Timing(10.0, 10.0, 5.0),
            clock=lambda: self.now_s,
            alarm_state=lambda caller, name: self._alarm_state(name),
            limit=lambda caller, instance_type: self.limits.get(instance_type),
        )
        api = SageMakerApi(
            self.store,
            roles=lambda account, arn: None if arn.endswith("/good") else "no such role",
            scaled=lambda caller, endpoint: self.scaled,
            startable=lambda view: self.broken if getattr(view, "container", None) else None,
        )
        self.service = Service("sagemaker", api)
        self.directory = StoreDirectory(self.store, lambda view: self.broken if view.container else None, self._metric)

    def _alarm_state(self, name: str) -> str | None:
        if name.startswith("missing"):
            return None
        return "ALARM" if name in self.in_alarm else "OK"

    def _metric(self, namespace: str, name: str, value: float, dimensions: Mapping[str, str], *rest: Any) -> None:
        self.metrics.append((f"{namespace}/{name}/{dimensions['InferenceComponentName']}", value))

    def call(self, action: str, **params: Any) -> Mapping[str, Any]:
        return self.service.call(CALLER, action, params)

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds

    def model(self, name: str = "model") -> None:
        container = {"Image": TGI_IMAGE, "Environment": {"HF_MODEL_ID": "x"}}
        tags = [{"Key": "loadproof:model-id", "Value": "x/y"}]
        role = "arn:aws:iam::123456789012:role/good"
        self.call("CreateModel", ModelName=name, PrimaryContainer=container, ExecutionRoleArn=role, Tags=tags)

    def endpoint(self, variant: dict[str, Any] = VARIANT, config: str = "config") -> None:
        self.config(variant, config)
        self.call("CreateEndpoint", EndpointName="chat", EndpointConfigName=config)

    def config(self, variant: dict[str, Any], name: str, role: str = "good") -> None:
        self.call(
            "CreateEndpointConfig",
            EndpointConfigName=name,
            ProductionVariants=[variant],
            ExecutionRoleArn=f"arn:aws:iam::123456789012:role/{role}",
        )

    def component(self, name: str = "chat-main", copies: int = 1, accelerators: int = 1, **more: Any) -> None:
        needs = {"NumberOfAcceleratorDevicesRequired": accelerators, "MinMemoryRequiredInMb": 1024}
        self.call(
            "CreateInferenceComponent",
            InferenceComponentName=name,
            EndpointName="chat",
            VariantName="AllTraffic",
            Specification={"ModelName": "model", "ComputeResourceRequirements": needs},
            RuntimeConfig={"CopyCount": copies},
            **more,
        )

    def status(self) -> str:
        return str(self.call("DescribeEndpoint", EndpointName="chat")["EndpointStatus"])

    def shown(self, name: str = "chat-main") -> Mapping[str, Any]:
        return self.call("DescribeInferenceComponent", InferenceComponentName=name)


def refusal(world: World, action: str, **params: Any) -> str:
    with pytest.raises(AwsError) as caught:
        world.call(action, **params)
    assert caught.value.code == "ValidationException"
    return caught.value.message
