"""The resource types that can be deployed here. Any other type fails the deployment, with the reason in its event."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.autoscaling import ScalableTarget, ScalingPolicy
from loadproof.localcloud.controlplane.cloudformation.resources.base import ResourceType
from loadproof.localcloud.controlplane.cloudformation.resources.bedrock import ApplicationInferenceProfile
from loadproof.localcloud.controlplane.cloudformation.resources.cloudwatch import Alarm, CompositeAlarm, Dashboard
from loadproof.localcloud.controlplane.cloudformation.resources.custom import CustomResource
from loadproof.localcloud.controlplane.cloudformation.resources.events import Rule, Schedule
from loadproof.localcloud.controlplane.cloudformation.resources.functions import (
    EventSourceMapping,
    Function,
    LayerVersion,
    Permission,
)
from loadproof.localcloud.controlplane.cloudformation.resources.iam import ManagedPolicy, OidcProvider, Policy, Role
from loadproof.localcloud.controlplane.cloudformation.resources.inert import CdkMetadata, WaitConditionHandle
from loadproof.localcloud.controlplane.cloudformation.resources.keys import Key, KeyAlias, Parameter, Repository, Secret
from loadproof.localcloud.controlplane.cloudformation.resources.logs import LogGroup, LogStream, ResourcePolicy
from loadproof.localcloud.controlplane.cloudformation.resources.messaging import (
    Queue,
    QueuePolicy,
    Subscription,
    Topic,
    TopicPolicy,
)
from loadproof.localcloud.controlplane.cloudformation.resources.network import SecurityGroup, VpcEndpoint
from loadproof.localcloud.controlplane.cloudformation.resources.sagemaker import (
    Endpoint,
    EndpointConfig,
    InferenceComponent,
    Model,
)
from loadproof.localcloud.controlplane.cloudformation.resources.stepfunctions import StateMachine
from loadproof.localcloud.controlplane.cloudformation.resources.storage import Bucket, BucketPolicy, Table

_TYPES: tuple[ResourceType, ...] = (
    Model(), EndpointConfig(), Endpoint(), InferenceComponent(), ScalableTarget(), ScalingPolicy(),
    Alarm(), CompositeAlarm(), Dashboard(), LogGroup(), LogStream(), ResourcePolicy(),
    Function(), EventSourceMapping(), Permission(), LayerVersion(),
    Role(), Policy(), ManagedPolicy(), OidcProvider(),
    Queue(), QueuePolicy(), Topic(), TopicPolicy(), Subscription(),
    Bucket(), BucketPolicy(), Table(),
    Key(), KeyAlias(), Parameter(), Repository(), Secret(),
    Rule(), Schedule(), SecurityGroup(), VpcEndpoint(),
    ApplicationInferenceProfile(), StateMachine(), CustomResource(), CdkMetadata(), WaitConditionHandle(),
)  # fmt: skip


class _ByName(dict[str, ResourceType]):
    """Whatever a template calls `Custom::...` is a custom resource."""

    def __missing__(self, type_name: str) -> ResourceType:
        if type_name.startswith("Custom::"):
            return self[CustomResource.type_name]
        raise KeyError(type_name)


RESOURCE_TYPES: dict[str, ResourceType] = _ByName({one.type_name: one for one in _TYPES})
