"""The whole control plane: our services wired to each other and to moto's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from emulator.controlplane.autoscaling import AutoScalingApi
from emulator.controlplane.clients import Clients
from emulator.controlplane.cloudformation.api import CloudFormationApi
from emulator.controlplane.sagemaker import SageMakerApi, Store, Timing
from emulator.controlplane.sagemaker.lifecycle import Startable, settle
from emulator.controlplane.sagemaker.lookup import StoreDirectory
from emulator.controlplane.sagemaker.store import key
from emulator.controlplane.wire import Caller, Reply, Service, caller_of
from emulator.directory import ComponentView, VariantView


class ControlPlane:
    """Answers requests for SageMaker, Application Auto Scaling and CloudFormation; knows which are for moto.

    `startable` is set once the runtime exists: it says why a container could not start.
    """

    def __init__(self, *, account: str, region: str, timing: Timing) -> None:
        self._region = region
        self._home = Caller(account=account, region=region, access_key="")
        self.clients = Clients()
        self.store = Store(timing=timing)
        self.startable: Startable = lambda view: None
        self._autoscaling_api = AutoScalingApi(exists=self._scalable, alarms=_Alarms(self.clients))
        api = SageMakerApi(
            self.store,
            roles=role_problem,
            scaled=self._autoscaling_api.scaled_variants,
            startable=self._startable,
        )
        self.sagemaker = Service("sagemaker", api)
        self.autoscaling = Service("application-autoscaling", self._autoscaling_api)
        self.cloudformation = Service(
            "cloudformation", CloudFormationApi(self.clients, self.sagemaker, self.autoscaling)
        )
        self.directory = StoreDirectory(self.store, self._startable, self._put_metric)

    def answer(self, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """The reply of one of our services; None when moto is to answer. Called in a thread: it may take a while."""
        target = headers.get("X-Amz-Target", "")
        caller, service = caller_of(headers.get("Authorization", ""), self._region)
        if target.startswith("SageMaker."):
            return self.sagemaker.answer_json(caller, target, body)
        if target.startswith("AnyScaleFrontendService."):
            return self.autoscaling.answer_json(caller, target, body)
        if service == "cloudformation":
            return self.cloudformation.answer_query(caller, body)
        return None

    def _startable(self, view: ComponentView | VariantView) -> str | None:
        return self.startable(view)

    def _scalable(self, caller: Caller, resource_id: str) -> bool:
        """Whether the component or variant that a resource id names exists."""
        parts = resource_id.split("/")
        with self.store.lock:
            settle(self.store, self._startable)
            if parts[0] == "inference-component":
                return key(caller, parts[1]) in self.store.components
            endpoint = self.store.endpoints.get(key(caller, parts[1]))
            return endpoint is not None and any(variant.name == parts[3] for variant in endpoint.variants)

    def _put_metric(self, namespace: str, name: str, value: float, dimensions: Mapping[str, str]) -> None:
        """One datum straight into moto's CloudWatch: the runtime's loop must not wait for an HTTP call to itself."""
        from moto.cloudwatch.models import cloudwatch_backends

        rows = [{"Name": key, "Value": text} for key, text in dimensions.items()]
        datum = {
            "MetricName": name,
            "Value": value,
            "Dimensions": rows,
            "Timestamp": datetime.now(UTC).replace(tzinfo=None),
        }
        cloudwatch_backends[self._home.account][self._home.region].put_metric_data(namespace, [datum])


class _Alarms:
    """A scaling policy's alarms, kept in CloudWatch."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def put(self, caller: Caller, alarm: dict[str, Any]) -> str:
        self._clients.client("cloudwatch", caller).put_metric_alarm(**alarm)
        return caller.arn("cloudwatch", f"alarm:{alarm['AlarmName']}")

    def delete(self, caller: Caller, names: list[str]) -> None:
        if names:
            self._clients.client("cloudwatch", caller).delete_alarms(AlarmNames=names)

    def acting_on(self, caller: Caller, policy_arn: str) -> list[dict[str, str]]:
        pages = self._clients.client("cloudwatch", caller).get_paginator("describe_alarms").paginate()
        return [
            {"AlarmName": alarm["AlarmName"], "AlarmARN": alarm["AlarmArn"]}
            for page in pages
            for alarm in page["MetricAlarms"]
            if policy_arn in alarm.get("AlarmActions", [])
        ]


def role_problem(account: str, role_arn: str) -> str | None:
    """Why SageMaker cannot assume a role: it is missing, or its trust policy does not name the service."""
    from moto.iam.models import iam_backends

    role = next((one for one in iam_backends[account]["aws"].roles.values() if one.arn == role_arn), None)
    if role is None:
        return "no such role"
    if "sagemaker.amazonaws.com" not in str(role.assume_role_policy_document):
        return "its trust policy does not name sagemaker.amazonaws.com"
    return None
