"""The dashboard of a profile on Bedrock: requests, latency, tokens and what they take of the quota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from constructs import Construct

from loadproof.constructs.bedrock.metrics import metric
from loadproof.constructs.bedrock.model import HostedModel
from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.observability.dashboard import (
    Graphs,
    Widget,
    alarm_states,
    dashboard_resource,
    heading,
    latency_bounds,
    queue_widgets,
)

_PERCENTILES: Final = ("p50", "p90", "p99")
_REFUSED: Final = {
    "InvocationThrottles": "throttled",
    "InvocationClientErrors": "client errors",
    "InvocationServerErrors": "server errors",
}


class BedrockDashboard(Construct):
    """Named after the profile's endpoint, as every profile's dashboard is."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        model: HostedModel,
        buffer: Buffer | None,
        alarm_names: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        deployment = model.deployment
        graphs = Graphs(deployment.environment.region)
        widgets = [
            heading(deployment),
            alarm_states(deployment, alarm_names),
            _requests(graphs, model),
            _latency(graphs, model, "e2e", "InvocationLatency", "until the last token, ms"),
            _latency(graphs, model, "ttft", "TimeToFirstToken", "time to first token, ms"),
            _tokens(graphs, model),
            _quota(graphs, model),
        ]
        if buffer is not None:
            widgets += queue_widgets(graphs, buffer)
        dashboard_resource(self, deployment, widgets)


def _requests(graphs: Graphs, model: HostedModel) -> Widget:
    rows = [graphs.row(metric(model, "Invocations", "Sum"), "requests")]
    rows += [graphs.row(metric(model, name, "Sum"), label, right=True) for name, label in _REFUSED.items()]
    return graphs.graph("Requests, and those refused, a minute", rows)


def _latency(graphs: Graphs, model: HostedModel, kind: str, name: str, title: str) -> Widget:
    rows = [graphs.row(metric(model, name, percentile), percentile) for percentile in _PERCENTILES]
    return graphs.graph(f"Latency: {title}", rows, latency_bounds(model.deployment.profile.objectives, kind))


def _tokens(graphs: Graphs, model: HostedModel) -> Widget:
    kinds = {"InputTokenCount": "input", "OutputTokenCount": "output"}
    rows = [graphs.row(metric(model, name, "Sum"), label) for name, label in kinds.items()]
    return graphs.graph("Tokens a minute", rows)


def _quota(graphs: Graphs, model: HostedModel) -> Widget:
    """Without the quota itself as a line: it is known only when deployed, and the alarm shows where it stands."""
    row = graphs.row(metric(model, "EstimatedTPMQuotaUsage", "Sum"), "quota tokens of this profile")
    return graphs.graph("Quota tokens a minute", [row])
