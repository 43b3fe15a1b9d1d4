"""The whole control plane: our services wired to each other and to moto's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from botocore.client import BaseClient
from moto.backends import get_backend

from loadproof.localcloud.account import denials, images
from loadproof.localcloud.account.reservations import ReservationOperations
from loadproof.localcloud.account.roles import role_problem
from loadproof.localcloud.bedrock import BedrockStore
from loadproof.localcloud.bedrock.control import BedrockApi
from loadproof.localcloud.bedrock.quotas import listed_quotas
from loadproof.localcloud.bedrock.service_quotas import SERVICES, ServiceQuotasApi
from loadproof.localcloud.clients import Clients
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.autoscaling import AutoScalingApi
from loadproof.localcloud.controlplane.autoscaling.targets import COPIES, Capacity, Target
from loadproof.localcloud.controlplane.cloudformation.api import CloudFormationApi
from loadproof.localcloud.controlplane.cloudtrail import CloudTrailApi
from loadproof.localcloud.controlplane.cloudwatch import CloudWatchApi, MetricStore
from loadproof.localcloud.controlplane.cloudwatch.evaluation import Breach
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricKey
from loadproof.localcloud.controlplane.jobs.processing import JobRunner, ProcessingOperations
from loadproof.localcloud.controlplane.rest import answer_rest
from loadproof.localcloud.controlplane.sagemaker import SageMakerApi, Store, Timing
from loadproof.localcloud.controlplane.sagemaker.lifecycle import Startable, settle
from loadproof.localcloud.controlplane.sagemaker.lookup import StoreDirectory
from loadproof.localcloud.controlplane.schedules import Schedules
from loadproof.localcloud.directory import ComponentView, VariantView
from loadproof.localcloud.pulse import Pulse
from loadproof.localcloud.queue.emf import Datum
from loadproof.localcloud.queue.sqs.door import SqsDoor
from loadproof.localcloud.queue.sqs.service import SqsService
from loadproof.localcloud.quotas import QuotaOperations, instance_quotas
from loadproof.localcloud.refusals import RefusalGate
from loadproof.localcloud.refusals.asked import Request
from loadproof.localcloud.seal.keys import CloudKeys
from loadproof.localcloud.wire import AwsError, Caller, Reply, Service, caller_of
from loadproof.wire.documents import Document, Json

_QUOTAS: Final = {"bedrock": listed_quotas, "sagemaker": instance_quotas}


class ControlPlane:
    """Answers requests for SageMaker, Application Auto Scaling, CloudWatch and CloudFormation; the rest is moto's.

    SQS is ours too, with a door of its own, since its receives wait. `startable` is set once the runtime exists: it
    says why a container could not start.
    """

    def __init__(
        self,
        *,
        account: str,
        region: str,
        timing: Timing,
        keys: CloudKeys | None = None,
        clock: CloudClock | None = None,
    ) -> None:
        """`keys` sign what the services ask of each other; without them nothing can ask a sealed cloud."""
        self.clock = clock or CloudClock()
        self._region = region
        self._home = Caller(account=account, region=region, access_key="")
        self.clients = Clients(keys or CloudKeys("loopback", "loopback"))
        self.sqs = SqsService(endpoint_url=lambda: self.clients.endpoint_url)
        self.sqs_door = SqsDoor(self.sqs, region)
        self.metrics = MetricStore()
        self._cloudwatch = CloudWatchApi(self.metrics, self.clock, invoke=self._invoke, publish=self._publish)
        self.store = Store(
            timing=timing,
            clock=self.clock.now_s,
            alarm_state=self._cloudwatch.state,
            limit=instances_to_be_had,
        )
        self.startable: Startable = lambda view: None
        self._autoscaling_api = AutoScalingApi(
            exists=self._scalable, alarms=self._cloudwatch, clock=self.clock, scaled=_Scaled(self)
        )
        api = _SageMaker(
            self.store,
            roles=partial(role_problem, service="sagemaker.amazonaws.com"),
            scaled=self._autoscaling_api.scaled_variants,
            startable=self._startable,
        )
        api.processing = self.jobs = JobRunner(self.clients, role_problem)
        self._refusals = RefusalGate()
        self._stepfunctions: Service | None = None
        self._end_executions: Callable[[], None] = lambda: None
        self._loading = threading.Lock()
        self.sagemaker = Service("sagemaker", api)
        self.autoscaling = Service("application-autoscaling", self._autoscaling_api)
        self.cloudwatch = Service("cloudwatch", self._cloudwatch, "ValidationError")
        self.bedrock_store = BedrockStore(now_s=self.clock.now_s, ready_after_s=timing.endpoint_s)
        api.quota_values = self.bedrock_store.quota_values
        self.bedrock = Service("bedrock", BedrockApi(self.bedrock_store, self.clock))
        self.quotas = Service("service-quotas", ServiceQuotasApi(self.bedrock_store, _QUOTAS))
        self.images = Service("ecr", images.ForeignImagesApi())
        self.cloudtrail = Service("cloudtrail", CloudTrailApi())
        self.pulse = Pulse(
            self.clock,
            self.metrics,
            self._cloudwatch,
            self._autoscaling_api,
            Schedules(self.clock, self._home, self.client),
            self.sqs,
        )
        self.cloudformation = Service(
            "cloudformation", CloudFormationApi(self.clients, self.sagemaker, self.autoscaling), "ValidationError"
        )
        self.directory = StoreDirectory(self.store, self._startable, self._put_metric)

    def client(self, service: str) -> BaseClient:
        """A boto3 client of this cloud in its own account and region."""
        return self.clients.client(service, self._home)

    def answer(self, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """The reply of one of our services; None when moto is to answer. Called in a thread: it may take a while."""
        target = headers.get("X-Amz-Target", "")
        caller, service = caller_of(headers.get("Authorization", ""), self._region)
        refused = denials.refusal(caller, service, target, body, parameter_value)
        if refused is not None:
            return refused
        if images.is_foreign(caller, target, body):
            return self.images.answer_json(caller, target, body)
        if target.startswith("SageMaker."):
            return self.sagemaker.answer_json(caller, target, body)
        if target.startswith("AWSStepFunctions."):
            return self._machines().answer_json(caller, target, body)
        if target.startswith("ServiceQuotas") and self._has_quotas(body) and self.quotas.provides(target):
            return self.quotas.answer_json(caller, target, body)
        if target.startswith("AnyScaleFrontendService."):
            return self.autoscaling.answer_json(caller, target, body)
        if target.startswith("GraniteServiceVersion20100801.") and self.cloudwatch.provides(target):
            return self.cloudwatch.answer_json(caller, target, body)
        if service == "cloudtrail" and self.cloudtrail.provides(target):
            return self.cloudtrail.answer_json(caller, target, body)
        if service == "monitoring" and self.cloudwatch.provides(body):
            return self.cloudwatch.answer_query(caller, body)
        if service == "cloudformation":
            return self.cloudformation.answer_query(caller, body)
        return None

    def _has_quotas(self, body: bytes) -> bool:
        """Whether a request is of a service whose quotas are ours; moto has those of others."""
        return any(f'"{service}"'.encode() in body for service in SERVICES)

    def speaks_rest(self, headers: Mapping[str, str]) -> bool:
        """Whether a request is for a service of ours that is told apart by path and verb: Bedrock's control plane."""
        return caller_of(headers.get("Authorization", ""), self._region)[1] == "bedrock"

    def answer_rest(
        self, headers: Mapping[str, str], verb: str, raw_path: str, query: dict[str, str], body: bytes
    ) -> Reply | None:
        """Its reply; None when moto is to answer. Called in a thread."""
        caller, _ = caller_of(headers.get("Authorization", ""), self._region)
        return answer_rest(self.bedrock, caller, verb, raw_path, query, body)

    def gated(self, headers: Mapping[str, str]) -> bool:
        """Whether the gate knows what AWS refuses of the service that a request is for."""
        return self._refusals.knows(caller_of(headers.get("Authorization", ""), self._region)[1])

    def refusal(self, request: Request) -> Reply | None:
        """AWS's refusal of a request that moto would take; None when moto is to answer. Called in a thread."""
        caller, service = caller_of(request.headers.get("Authorization", ""), self._region)
        return self._refusals.problem(service, caller, request)

    def close(self) -> None:
        """Executions and jobs end; no process of theirs is left."""
        self._end_executions()
        self.jobs.close()

    def _machines(self) -> Service:
        from loadproof.localcloud.controlplane.jobs.machines import MachineApi  # noqa: PLC0415  a second of CPU to load

        with self._loading:
            if self._stepfunctions is None:
                api = MachineApi(self.clients, role_problem, self.clock)
                self._stepfunctions, self._end_executions = Service("stepfunctions", api), api.stop
            return self._stepfunctions

    def _startable(self, view: ComponentView | VariantView) -> str | None:
        return self.startable(view)

    def _scalable(self, caller: Caller, resource_id: str) -> bool:
        """Whether the component or variant that a resource id names exists."""
        parts = resource_id.split("/")
        with self.store.lock:
            settle(self.store, self._startable)
            if parts[0] == "inference-component":
                return self.store.components.named(caller, parts[1]) is not None
            endpoint = self.store.endpoints.named(caller, parts[1])
            return endpoint is not None and any(variant.name == parts[3] for variant in endpoint.variants)

    def _put_metric(
        self,
        namespace: str,
        name: str,
        value: float,
        dimensions: Mapping[str, str],
        *,
        unit: str = "None",
        at_s: float | None = None,
        count: float = 1.0,
    ) -> None:
        key = MetricKey(self._home.account, self._home.region, namespace, name, tuple(sorted(dimensions.items())))
        self.metrics.put(key, self.clock.now_s() if at_s is None else at_s, value, count, unit)

    def record_bedrock(self, caller: Caller, name: str, model_id: str, value: float, unit: str) -> None:
        """One datum of AWS/Bedrock, now."""
        key = MetricKey(caller.account, caller.region, "AWS/Bedrock", name, (("ModelId", model_id),))
        self.metrics.put(key, self.clock.now_s(), value, unit=unit)

    def function_ran(self, name: str, failed: bool, seconds: float) -> None:
        """One invocation of a Lambda function ended: the metrics that Lambda publishes of it."""
        function = {"FunctionName": name}
        self._put_metric("AWS/Lambda", "Invocations", 1.0, function, unit="Count")
        self._put_metric("AWS/Lambda", "Errors", float(failed), function, unit="Count")
        self._put_metric("AWS/Lambda", "Duration", seconds * 1000, function, unit="Milliseconds")

    def function_published(self, datum: Datum) -> None:
        """A metric that a function printed."""
        at_s = self.clock.cloud_s(datum.at_ms / 1000)
        self._put_metric(datum.namespace, datum.name, datum.value, datum.dimensions, unit=datum.unit, at_s=at_s)

    def _invoke(self, policy_arn: str, breach: Breach) -> None:
        self._autoscaling_api.called(policy_arn, breach)

    def _publish(self, caller: Caller, topic_arn: str, subject: str, message: str) -> None:
        self.clients.client("sns", caller).publish(TopicArn=topic_arn, Subject=subject, Message=message)


class _Scaled:
    """What Application Auto Scaling scales, through SageMaker's own operations."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def capacity(self, target: Target) -> Capacity | None:
        name = target.resource_id.split("/")[1]
        try:
            if target.dimension == COPIES:
                found = self._call(target, "DescribeInferenceComponent", InferenceComponentName=name)
                counts, status = found["RuntimeConfig"], found["InferenceComponentStatus"]
                return _capacity(found, status, counts["CurrentCopyCount"], counts["DesiredCopyCount"])
            found = self._call(target, "DescribeEndpoint", EndpointName=name)
        except AwsError:
            return None
        variant_name = target.resource_id.split("/")[3]
        variant = next((one for one in found["ProductionVariants"] if one["VariantName"] == variant_name), None)
        if variant is None:
            return None
        status = found["EndpointStatus"]
        return _capacity(found, status, variant["CurrentInstanceCount"], variant["DesiredInstanceCount"])

    def set_capacity(self, target: Target, capacity: int) -> None:
        parts = target.resource_id.split("/")
        if target.dimension == COPIES:
            self._call(
                target,
                "UpdateInferenceComponentRuntimeConfig",
                InferenceComponentName=parts[1],
                DesiredRuntimeConfig={"CopyCount": capacity},
            )
            return
        desired = {"VariantName": parts[3], "DesiredInstanceCount": capacity}
        self._call(
            target, "UpdateEndpointWeightsAndCapacities", EndpointName=parts[1], DesiredWeightsAndCapacities=[desired]
        )

    def _call(self, target: Target, action: str, **params: Json) -> Document:
        return self._plane.sagemaker.call(target.caller, action, params)


def _capacity(found: Document, status: str, current: int, desired: int) -> Capacity:
    failure = found.get("FailureReason", "") if status == "Failed" else None
    return Capacity(current, desired, status == "InService", failure)


CAPACITY_PARAMETER = "/loadproof/local-cloud/capacity/"


def parameter_value(caller: Caller, name: str) -> str | None:
    """An SSM parameter's value: how somebody tells the local cloud what to do."""
    found = get_backend("ssm")[caller.account][caller.region].get_parameter(name)
    return None if found is None else str(found.value)


def instances_to_be_had(caller: Caller, instance_type: str) -> int | None:
    """How many instances of a type the region has: the SSM parameter named for it; without one there is no end."""
    value = parameter_value(caller, CAPACITY_PARAMETER + instance_type)
    return int(value) if value is not None and value.isdigit() else None


class _SageMaker(QuotaOperations, SageMakerApi, ProcessingOperations, ReservationOperations):
    """Hosting, jobs and reservations are one service."""

    def parameter_value(self, caller: Caller, name: str) -> str | None:
        return parameter_value(caller, name)
