"""Endpoints, variants, components and what scales them, as a template has them. Reads; judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from loadproof.review.model import ResourceChange
from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.templates.template import Resource, listed, specifications

ENDPOINT: Final = "AWS::SageMaker::Endpoint"
CONFIG: Final = "AWS::SageMaker::EndpointConfig"
MODEL: Final = "AWS::SageMaker::Model"
COMPONENT: Final = "AWS::SageMaker::InferenceComponent"
TARGET: Final = "AWS::ApplicationAutoScaling::ScalableTarget"
SCALING_POLICY: Final = "AWS::ApplicationAutoScaling::ScalingPolicy"
ALARM: Final = "AWS::CloudWatch::Alarm"
QUEUE: Final = "AWS::SQS::Queue"
FUNCTION: Final = "AWS::Lambda::Function"


@dataclass(frozen=True, slots=True)
class Variant:
    """One production variant with the configuration it stands in, and the endpoints that use that."""

    config: Resource
    endpoints: tuple[Resource, ...]
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        return rendered(self.body.get("VariantName"))

    @property
    def instance_types(self) -> tuple[str, ...]:
        pools = [rendered(pool.get("InstanceType")) for pool in listed(self.body, "InstancePools")]
        own = rendered(self.body.get("InstanceType"))
        return tuple(sorted(pools)) if pools else (own,) if own else ()

    @property
    def most_instances(self) -> int | None:
        """The most that SageMaker's own scaling may reach, else those it starts with; None where it is no number."""
        managed = self.body.get("ManagedInstanceScaling") or {}
        return number(managed.get("MaxInstanceCount", self.body.get("InitialInstanceCount")))


def variants(view: View) -> Iterator[Variant]:
    """Every production variant of every configuration."""
    for config in view.of(CONFIG):
        users = tuple(
            endpoint
            for endpoint in view.of(ENDPOINT)
            if _is(config, "EndpointConfigName", rendered(endpoint.properties.get("EndpointConfigName")))
        )
        for body in listed(config.properties, "ProductionVariants"):
            if isinstance(body, dict):
                yield Variant(config, users, body)


def variant_pairs(change: Change) -> Iterator[tuple[Variant, Variant]]:
    """The same variant of the same endpoint on both sides."""
    if not change.has_both:
        return
    for before in variants(change.before):
        users = {endpoint.logical_id for endpoint in before.endpoints}
        for after in variants(change.after):
            if after.name == before.name and users & {endpoint.logical_id for endpoint in after.endpoints}:
                yield before, after


def endpoint_label(endpoint: Resource) -> str:
    """Its name, else its logical id."""
    return rendered(endpoint.properties.get("EndpointName")) or endpoint.logical_id


def component_label(component: Resource) -> str:
    return rendered(component.properties.get("InferenceComponentName")) or component.logical_id


def targets(view: View) -> Iterator[Resource]:
    """Scalable targets of SageMaker; tables and services of others scale by rules of their own."""
    for target in view.of(TARGET):
        if rendered(target.properties.get("ScalableDimension")).startswith("sagemaker:"):
            yield target


def variants_under(view: View, resource: Resource) -> Iterator[Variant]:
    """The variants whose machines run a model's or a component's container."""
    users = [
        component
        for component in view.of(COMPONENT)
        if component is resource
        or any(resource.logical_id in references(one.get("ModelName")) for one in specifications(component))
    ]
    endpoints = {name for component in users for name in references(component.properties.get("EndpointName"))}
    for variant in variants(view):
        own = resource.logical_id in references(variant.body.get("ModelName"))
        if own or any(endpoint.logical_id in endpoints for endpoint in variant.endpoints):
            yield variant


def target_of_variant(view: View, variant: Variant) -> Resource | None:
    """The scalable target that moves the variant's instances (`endpoint/E/variant/V`); None where none does."""
    for target in targets(view):
        place = rendered(target.properties.get("ResourceId"))
        if not place.startswith("endpoint/") or not place.endswith(f"/variant/{variant.name}"):
            continue
        named = place.removeprefix("endpoint/").removesuffix(f"/variant/{variant.name}")
        if any(_is(endpoint, "EndpointName", named) for endpoint in variant.endpoints):
            return target
    return None


def target_of_component(view: View, component: Resource) -> Resource | None:
    """The scalable target that moves the component's copies; None where none does."""
    for target in targets(view):
        place = rendered(target.properties.get("ResourceId"))
        named = place.removeprefix("inference-component/")
        if named != place and _is(component, "InferenceComponentName", named):
            return target
    return None


def target_pairs(change: Change) -> Iterator[tuple[Resource, Resource]]:
    """What scales the same thing on both sides."""
    if not change.has_both:
        return
    known = {rendered(target.properties.get("ResourceId")): target for target in targets(change.before)}
    for after in targets(change.after):
        before = known.get(rendered(after.properties.get("ResourceId")))
        if before is not None:
            yield before, after


def place_label(place: str) -> str:
    """`inference component x` of `inference-component/x`."""
    kind, _, name = place.partition("/")
    return f"{kind.replace('-', ' ')} `{name}`" if name else f"`{place}`"


def touches_more_than_tags(change: ResourceChange) -> bool:
    """Tags are written without an update of what runs."""
    return any(not prop.path.startswith("Tags") for prop in change.properties)


def number(value: Any) -> int | None:
    """A whole number, also as text; None for a reference."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value)
    return int(value) if isinstance(value, str) and value.isdigit() else None


def _is(resource: Resource, name_property: str, named: str) -> bool:
    """True where a text names the resource: literally, or by a reference to it."""
    literal = bool(named) and named == rendered(resource.properties.get(name_property))
    return literal or resource.logical_id in references(named)
