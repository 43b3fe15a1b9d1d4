"""What SageMaker publishes about an endpoint, under the names that alarms and dashboard ask by.

Namespaces, dimensions and units: SageMaker developer guide, "Metrics for monitoring SageMaker AI with CloudWatch".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loadproof.constructs.cdk.cloudwatch import COMPONENT_COPIES, ENDPOINT_INSTANCES, SAGEMAKER, Metric
from loadproof.constructs.deployment import Deployment
from loadproof.profiles.names import VARIANT_NAME


@dataclass(frozen=True, slots=True)
class Served:
    """One model as CloudWatch sees it: an inference component, or the endpoint's plain variant (`component` None)."""

    deployment: Deployment
    component: str | None

    @property
    def title(self) -> str:
        return self.component or self.deployment.endpoint_name

    def metric(self, name: str, statistic: str, period_s: int = 60) -> Metric:
        """An invocation metric of AWS/SageMaker."""
        return Metric(SAGEMAKER, name, self._dimensions(), statistic, period_s)

    def utilization(self, resource: str) -> Metric:
        """`CPU`, `GPU`, `GPUMemory` or `Memory` in percent: of a copy, or (variant) summed over the devices."""
        if self.component is None:
            return Metric(ENDPOINT_INSTANCES, f"{resource}Utilization", self._dimensions(), "Average")
        return Metric(COMPONENT_COPIES, f"{resource}UtilizationNormalized", self._dimensions(), "Average")

    def in_flight(self) -> Metric:
        """Requests in flight on one copy, those queued in the container included, a stream until its last token."""
        scope = "Model" if self.component is None else "Copy"
        return self.metric(f"ConcurrentRequestsPer{scope}", "Maximum", 10)

    def copies(self) -> tuple[str, dict[str, Metric]]:
        """Metric math for the copies that serve: each request adds 1 to one metric and 1/copies to the other."""
        scope = "Instance" if self.component is None else "Copy"
        metrics = {
            "invocations": self.metric("Invocations", "Sum"),
            "shares": self.metric(f"InvocationsPer{scope}", "Sum"),
        }
        return "IF(shares > 0, invocations / shares, 0)", metrics

    def _dimensions(self) -> dict[str, str]:
        if self.component is not None:
            return {"InferenceComponentName": self.component}
        return {"EndpointName": self.deployment.endpoint_name, "VariantName": VARIANT_NAME}


def served_models(deployment: Deployment) -> tuple[Served, ...]:
    """Every model of an endpoint, the profile's own first."""
    if not deployment.hosts_components:
        return (Served(deployment, None),)
    return tuple(Served(deployment, deployment.component_name(component)) for component in deployment.components)


def instance_counts(deployment: Deployment) -> Iterator[tuple[str, Metric]]:
    """Instance type and the metric that counts its instances: each reports its CPU once a publishing period."""
    endpoint = deployment.profile.endpoint
    if endpoint is None:
        return
    dimensions, period_s = (
        {"EndpointName": deployment.endpoint_name, "VariantName": VARIANT_NAME},
        endpoint.metrics.period_s,
    )
    kinds = [endpoint.instance_type] if endpoint.instance_type else [p.instance_type for p in endpoint.instance_pools]
    for kind in kinds:
        of_pool = {"InstanceType": kind} if endpoint.instance_pools else {}
        yield kind, Metric(ENDPOINT_INSTANCES, "CPUUtilization", dimensions | of_pool, "SampleCount", period_s)
