"""One dashboard a profile: what on-call looks at, objectives and scaling targets drawn into it.

Body: CloudWatch's "Dashboard Body Structure and Syntax". Metrics are asked for only where they are published for the
kind of hosting, so no graph stays empty for want of a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from loadproof.catalog import instances
from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.cdk.cloudwatch import Metric
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.images import instance_types
from loadproof.constructs.observability.endpoint_metrics import Served, instance_counts, served_models
from loadproof.profiles.schema import Component, Endpoint, Objectives, TargetTracking
from loadproof.wire.documents import Document

_HEIGHT: Final = 6
_THIRD: Final = 8  # of the grid's 24 columns
_PERCENTILES: Final = ("p50", "p90", "p99")
_ERRORS: Final = {
    "Invocation4XXErrors": "refused (4XX)",
    "Invocation5XXErrors": "failed (5XX)",
    "InvocationModelErrors": "model errors",
    "MidStreamErrors": "broken streams",
}

Widget = Document
Row = list[Any]


class Dashboard(Construct):
    """The profile's dashboard, named after its endpoint."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        buffer: Buffer | None = None,
        alarm_names: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        dashboard_resource(self, deployment, _widgets(deployment, buffer, alarm_names))


def dashboard_resource(scope: Construct, deployment: Deployment, widgets: Sequence[Widget]) -> None:
    """The dashboard of a profile, its widgets placed from left to right."""
    content = {"start": "-PT3H", "periodOverride": "inherit", "widgets": placed(widgets)}
    # Names of functions are known to CloudFormation only, so the body goes through CDK's own JSON.
    body = Stack.of(scope).to_json_string(content)
    cloudwatch.CfnDashboard(scope, "Resource", dashboard_name=deployment.endpoint_name, dashboard_body=body)


def _widgets(deployment: Deployment, buffer: Buffer | None, alarm_names: Sequence[str]) -> list[Widget]:
    graphs = Graphs(deployment.environment.region)
    models = served_models(deployment)
    widgets = [heading(deployment), alarm_states(deployment, alarm_names)]
    for model, component in zip(models, deployment.components, strict=False):
        # Objectives are of the profile's own model.
        bounds = latency_bounds(deployment.profile.objectives, "e2e") if model is models[0] else {}
        widgets += [
            _requests(graphs, model),
            _latency(graphs, model, bounds),
            _in_flight(graphs, model, component),
            _copies(graphs, model, component),
            _utilization(graphs, model, deployment),
        ]
    widgets.append(_cost(graphs, deployment))
    if buffer is not None:
        widgets += queue_widgets(graphs, buffer)
    return widgets


def heading(deployment: Deployment) -> Widget:
    profile = deployment.profile
    objectives = profile.objectives
    at = objectives.at_concurrency
    bounds = ", ".join(f"{name} {bound:g}" for name, bound in objectives.bounds.items())
    text = (
        f"# {deployment.endpoint_name}\n{profile.description or profile.model.id}\n\n"
        f"Objectives at {at} in flight: {bounds or 'none'}. [Runbook]({deployment.environment.runbook_url})"
    )
    return {"type": "text", "width": 2 * _THIRD, "height": 3, "properties": {"markdown": text}}


def alarm_states(deployment: Deployment, names: Sequence[str]) -> Widget:
    arns = [deployment.arn("cloudwatch", f"alarm:{name}") for name in names]
    return {"type": "alarm", "width": _THIRD, "height": 3, "properties": {"title": "Alarms", "alarms": arns}}


def _requests(graphs: Graphs, model: Served) -> Widget:
    rows = [graphs.row(model.metric("Invocations", "Sum"), "requests")]
    rows += [graphs.row(model.metric(name, "Sum"), label, right=True) for name, label in _ERRORS.items()]
    if model.component is not None:
        failures = model.metric("NoCapacityInvocationFailures", "Sum")
        rows.append(graphs.row(failures, "no copy", right=True))
    return graphs.graph(f"{model.title}: requests and errors a minute", rows)


def _latency(graphs: Graphs, model: Served, bounds: Mapping[str, float]) -> Widget:
    """Both metrics are microseconds; the graph is in the objectives' unit."""
    rows: list[Row] = []
    for at, percentile in enumerate(_PERCENTILES):
        for kind, word in (("Model", "model"), ("Overhead", "overhead")):
            source = f"{word}{at}"
            rows.append(graphs.row(model.metric(f"{kind}Latency", percentile), source, id=source, visible=False))
            rows.append(graphs.formula(f"{source} / 1000", f"{word} {percentile}"))
    return graphs.graph(f"{model.title}: latency, ms", rows, bounds)


def _in_flight(graphs: Graphs, model: Served, component: Component) -> Widget:
    targets = {
        f"scaling target {policy.target:g}": policy.target
        for policy in (component.scaling.policies if component.scaling else ())
        if isinstance(policy, TargetTracking)
        and policy.metric.startswith("concurrent_requests")
        and isinstance(policy.target, int | float)
    }
    row = graphs.row(model.in_flight(), "most in flight, streams until their last token")
    return graphs.graph(f"{model.title}: in flight on a copy", [row], targets)


def _copies(graphs: Graphs, model: Served, component: Component) -> Widget:
    expression, metrics = model.copies()
    rows = [graphs.row(metric, name, id=name, visible=False) for name, metric in metrics.items()]
    rows.append(graphs.formula(expression, "copies, as far as requests tell"))
    rows += [graphs.row(metric, kind, right=True) for kind, metric in instance_counts(model.deployment)]
    most = {"most copies": float(component.copies.max)} if model.component else {}
    return graphs.graph(f"{model.title}: copies (left), instances (right)", rows, most)


def _utilization(graphs: Graphs, model: Served, deployment: Deployment) -> Widget:
    """A variant's GPU figures are sums over the devices: divided by their number they are comparable."""
    devices = 1 if model.component or deployment.profile.endpoint is None else _devices(deployment.profile.endpoint)
    rows: list[Row] = []
    for resource, word in (("GPU", "GPU"), ("GPUMemory", "GPU memory"), ("CPU", "CPU"), ("Memory", "memory")):
        metric = model.utilization(resource)
        if devices > 1 and resource.startswith("GPU"):
            rows.append(graphs.row(metric, word, id=resource.lower(), visible=False))
            rows.append(graphs.formula(f"{resource.lower()} / {devices}", word))
        else:
            rows.append(graphs.row(metric, word))
    return graphs.graph(f"{model.title}: utilization, %", rows)


def _devices(endpoint: Endpoint) -> int:
    """Accelerators of the smallest instance type; 1 where the catalog knows none."""
    known = [instances().get(kind) for kind in instance_types(endpoint)]
    return max(1, min((row.accelerator_count for row in known if row is not None), default=1))


def _cost(graphs: Graphs, deployment: Deployment) -> Widget:
    rows: list[Row] = []
    priced: list[str] = []
    for at, (kind, metric) in enumerate(instance_counts(deployment)):
        instance = instances().get(kind)
        if instance is None or instance.usd_per_hour is None:
            continue
        rows.append(graphs.row(metric, kind, id=f"count{at}", visible=False))
        rows.append(graphs.formula(f"FILL(count{at}, 0) * {instance.usd_per_hour:g}", f"{kind}, USD an hour"))
        priced.append(f"{kind} {instance.usd_per_hour:g} ({instance.price_region}, {instance.price_date})")
    if not rows:
        text = "No list price is known of this endpoint's instance types."
        return {"type": "text", "width": _THIRD, "height": _HEIGHT, "properties": {"markdown": text}}
    return graphs.graph(f"Cost rate at list price: {'; '.join(priced)}", rows)


def queue_widgets(graphs: Graphs, buffer: Buffer) -> list[Widget]:
    waiting = [
        graphs.row(buffer.metric_waiting_messages(), "waiting"),
        graphs.row(buffer.metric_dead_letters(), "dead letters", right=True),
    ]
    age = graphs.row(buffer.metric_oldest_message_age_s(), "oldest message")
    handled = graphs.row(buffer.metric("Age", "Maximum"), "oldest handled, since its first send")
    consumer = [
        graphs.row(buffer.consumer.metric(name), name.lower()) for name in ("Invocations", "Errors", "Throttles")
    ]
    ended = [
        graphs.row(buffer.metric(name, "Sum"), words)
        for name, words in (
            ("Stored", "results stored"),
            ("Postponed", "postponed"),
            ("Poisoned", "dead-lettered"),
            ("Expired", "expired"),
            ("DuplicatesAvoided", "duplicates avoided"),
            ("WastedGenerations", "wasted generations"),
        )
    ]
    visibility = {"visibility timeout": float(buffer.visibility_timeout_s)}
    return [
        graphs.graph("Queue: messages", waiting),
        graphs.graph("Queue: age of the oldest message, s", [age, handled], visibility),
        graphs.graph("Messages by their end, a minute", ended),
        graphs.graph("Consumer, a minute", consumer),
    ]


def latency_bounds(objectives: Objectives, kind: str) -> dict[str, float]:
    """The profile's bounds of one latency (`e2e`, `ttft`), by objective."""
    names = [f"{kind}_{percentile}_ms" for percentile in ("p50", "p90", "p95", "p99")]
    return {name: bound for name in names if (bound := getattr(objectives, name)) is not None}


class Graphs:
    """Metric widgets of one region, in CloudWatch's own words."""

    def __init__(self, region: str) -> None:
        self._region = region

    def row(
        self, metric: Metric, label: str, *, right: bool = False, id: str | None = None, visible: bool = True
    ) -> Row:
        """One metric: namespace, name, its dimensions flat, and how it is drawn."""
        dimensions = [part for pair in metric.dimensions.items() for part in pair]
        drawn: Document = {"label": label, "stat": metric.statistic, "period": metric.period_s}
        drawn |= {"yAxis": "right"} if right else {}
        drawn |= {"id": id} if id else {}
        drawn |= {} if visible else {"visible": False}
        return [metric.namespace, metric.name, *dimensions, drawn]

    def formula(self, expression: str, label: str) -> Row:
        return [{"expression": expression, "label": label, "region": self._region}]

    def graph(self, title: str, rows: Sequence[Row], bounds: Mapping[str, float] | None = None) -> Widget:
        """A graph over time; `bounds` are horizontal lines by label."""
        properties: Document = {
            "title": title,
            "view": "timeSeries",
            "region": self._region,
            "metrics": list(rows),
            "yAxis": {"left": {"min": 0}, "right": {"min": 0}},
        }
        if bounds:
            properties["annotations"] = {"horizontal": [{"label": name, "value": at} for name, at in bounds.items()]}
        return {"type": "metric", "width": _THIRD, "height": _HEIGHT, "properties": properties}


def placed(widgets: Sequence[Widget]) -> list[Widget]:
    """Left to right, row by row, on the grid of 24 columns."""
    placed: list[Widget] = []
    x = y = deepest = 0
    for widget in widgets:
        if x + widget["width"] > 24:
            x, y, deepest = 0, y + deepest, 0
        placed.append({"x": x, "y": y, **widget})
        x += widget["width"]
        deepest = max(deepest, widget["height"])
    return placed
