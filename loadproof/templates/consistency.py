"""Rules about what validators of CloudFormation let pass and AWS refuses, or takes and never does (LS1xx)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from loadproof.templates.rule import Found, found, rule
from loadproof.templates.template import Resource, Template, listed, specifications, text

_METRIC_KINDS: Final = ("PredefinedMetricSpecification", "CustomizedMetricSpecification")
_WIDGET_KINDS: Final = ("alarm", "custom", "explorer", "log", "metric", "text")


@rule(
    "LS101",
    "Minimum above maximum",
    reason="The service refuses it, minutes into the deployment.",
    mend="Swap or correct the two.",
)
def bounds_crossed(template: Template) -> Iterator[Found]:
    for config in template.of("AWS::SageMaker::EndpointConfig"):
        for variant in listed(config.properties, "ProductionVariants"):
            managed = variant.get("ManagedInstanceScaling") or {}
            yield from _crossed(config, managed, "MinInstanceCount", "MaxInstanceCount")
    for target in template.of("AWS::ApplicationAutoScaling::ScalableTarget"):
        yield from _crossed(target, target.properties, "MinCapacity", "MaxCapacity")
        for action in listed(target.properties, "ScheduledActions"):
            yield from _crossed(target, action.get("ScalableTargetAction") or {}, "MinCapacity", "MaxCapacity")


@rule(
    "LS102",
    "Scaling policy that never scales",
    reason="Target tracking needs a metric and step scaling its steps; without them the copies stay as they are.",
    mend="Give exactly one metric specification, or the steps.",
)
def policy_without_measure(template: Template) -> Iterator[Found]:
    for policy in template.of("AWS::ApplicationAutoScaling::ScalingPolicy"):
        if policy.properties.get("PolicyType") == "StepScaling":
            steps = (policy.properties.get("StepScalingPolicyConfiguration") or {}).get("StepAdjustments")
            if not steps:
                yield found(policy, "step scaling without steps", "add StepAdjustments")
            continue
        tracking = policy.properties.get("TargetTrackingScalingPolicyConfiguration") or {}
        given = [kind for kind in _METRIC_KINDS if tracking.get(kind)]
        if len(given) != 1:
            yield found(policy, f"target tracking with {len(given)} metrics", f"give one of {', '.join(_METRIC_KINDS)}")
        elif given == ["CustomizedMetricSpecification"]:
            yield from _one_result(policy, tracking["CustomizedMetricSpecification"])


@rule(
    "LS103",
    "Dashboard that CloudWatch does not draw",
    reason="PutDashboard refuses bad JSON at deployment, and draws a widget without metrics as an empty box.",
    mend="Mend the widget.",
)
def dashboard_broken(template: Template) -> Iterator[Found]:
    for dashboard in template.of("AWS::CloudWatch::Dashboard"):
        try:
            body = json.loads(text(dashboard.properties.get("DashboardBody", "")))
        except ValueError as error:
            yield found(dashboard, f"the body is no JSON: {error}", "mend it")
            continue
        widgets = body.get("widgets") if isinstance(body, dict) else None
        if not isinstance(widgets, list) or not widgets:
            yield found(dashboard, "the body has no widgets", "add one")
            continue
        for at, widget in enumerate(widgets):
            wrong = _widget_fault(widget)
            if wrong:
                yield found(dashboard, f"widget {at} {wrong}", "mend it")


@rule(
    "LS104",
    "Component without a model",
    reason="CreateInferenceComponent needs a model, a container, or the component that an adapter is for.",
    mend="Give ModelName, Container or BaseInferenceComponentName.",
)
def component_without_model(template: Template) -> Iterator[Found]:
    for component in template.of("AWS::SageMaker::InferenceComponent"):
        for specification in specifications(component) or [{}]:
            if not any(specification.get(name) for name in ("ModelName", "Container", "BaseInferenceComponentName")):
                yield found(component, "no model, container or base component", "name the model")


@rule(
    "LS105",
    "Dead-letter queue that takes healthy messages",
    reason="With a receive count of 0 SQS refuses the queue; below 3 one crash of the consumer costs healthy messages.",
    mend="Write 5 or more.",
)
def receives_too_few(template: Template) -> Iterator[Found]:
    for queue in template.of("AWS::SQS::Queue"):
        redrive = queue.properties.get("RedrivePolicy")
        count = redrive.get("maxReceiveCount") if isinstance(redrive, dict) else None
        if isinstance(count, int) and count < 3:
            yield found(queue, f"maxReceiveCount is {count}", "write 5 or more")


@rule(
    "LS106",
    "State machine that cannot go on",
    reason="CreateStateMachine refuses a transition to a state that does not exist.",
    mend="Name an existing state, or End: true.",
)
def state_missing(template: Template) -> Iterator[Found]:
    for machine in template.of("AWS::StepFunctions::StateMachine"):
        written = machine.properties.get("Definition", machine.properties.get("DefinitionString"))
        if isinstance(written, dict) and "States" in written:
            definition = written
        elif written is None:
            continue  # the definition is an asset of its own
        else:
            try:
                definition = json.loads(text(written))
            except ValueError as error:
                yield found(machine, f"the definition is no JSON: {error}", "mend it")
                continue
        for fault in _machine_faults(definition):
            yield found(machine, fault, "name an existing state")


def _crossed(resource: Resource, holder: Mapping[str, object], low: str, high: str) -> Iterator[Found]:
    minimum, maximum = holder.get(low), holder.get(high)
    if isinstance(minimum, int | float) and isinstance(maximum, int | float) and minimum > maximum:
        yield found(resource, f"{low} {minimum} is above {high} {maximum}", "correct one of them")


def _one_result(policy: Resource, specification: Mapping[str, object]) -> Iterator[Found]:
    """Metric math needs exactly one query that is returned; ReturnData is true where it is not said."""
    queries = listed(specification, "Metrics")
    returned = [query for query in queries if query.get("ReturnData", True)]
    if queries and len(returned) != 1:
        yield found(policy, f"{len(returned)} of {len(queries)} queries return data", "let exactly one do so")
    elif not queries and not specification.get("MetricName"):
        yield found(policy, "a customized metric without a metric", "give MetricName or Metrics")


def _widget_fault(widget: object) -> str | None:
    """Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""
    if not isinstance(widget, dict) or widget.get("type") not in _WIDGET_KINDS:
        return f"has no type of {', '.join(_WIDGET_KINDS)}"
    properties = widget.get("properties")
    if not isinstance(properties, dict):
        return "has no properties"
    width, height = widget.get("width", 6), widget.get("height", 6)
    if not (isinstance(width, int) and isinstance(height, int) and 1 <= width <= 24 and 1 <= height <= 1000):
        return f"is {width} wide and {height} high, allowed are 1..24 and 1..1000"
    if isinstance(widget.get("x"), int) and widget["x"] + width > 24:
        return "reaches beyond column 24"
    if widget["type"] == "text":
        return None if properties.get("markdown") else "has no markdown"
    if widget["type"] == "alarm":
        return None if properties.get("alarms") else "names no alarms"
    if widget["type"] == "metric":
        if not properties.get("region"):
            return "has no region"
        return None if properties.get("metrics") or properties.get("annotations") else "has no metrics"
    return None


def _machine_faults(machine: Any) -> Iterator[str]:
    """Source: https://states-language.net, of a machine and of the machines inside its Map and Parallel states."""
    states = machine.get("States") if isinstance(machine, dict) else None
    if not isinstance(states, dict) or not states:
        yield "a state machine without states"
        return
    targets = {("StartAt", str(machine.get("StartAt")))}
    for name, state in states.items():
        kind = state.get("Type")
        targets |= {(name, target) for target in _transitions(state)}
        ends = kind in ("Choice", "Succeed", "Fail") or state.get("End") is True
        if not ends and "Next" not in state:
            yield f"state {name} has neither Next nor End"
        for inner in (state.get("ItemProcessor"), state.get("Iterator"), *listed(state, "Branches")):
            if inner is not None:
                yield from _machine_faults(inner)
    for source, target in sorted(targets):
        if target not in states:
            yield f"{source} leads to `{target}`, which does not exist"
    reached = {target for source, target in targets if source != target}
    for name in sorted(states.keys() - reached):
        yield f"state {name} is never reached"


def _transitions(state: Mapping[str, object]) -> Iterator[str]:
    for holder in (state, *listed(state, "Catch"), *listed(state, "Choices")):
        if "Next" in holder:
            yield str(holder["Next"])
    if "Default" in state:
        yield str(state["Default"])
