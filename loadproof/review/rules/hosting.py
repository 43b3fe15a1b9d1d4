"""Rules about machines, hosts, regions, reservations and memory (LR020-LR026)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from loadproof import catalog
from loadproof.catalog.contracts import cuda_of_image, starts_on
from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.review.rules.refused import refused
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import (
    ALARM,
    SCALING_POLICY,
    Variant,
    number,
    target_of_variant,
    targets,
    variant_pairs,
    variants,
    variants_under,
)
from loadproof.templates.template import Resource, listed

_TYPE_FIELDS: Final = ("endpoint.instance_type", "endpoint.instance_pools")


@rule(
    "LR020",
    "CUDA image without a host that runs it",
    reason="A container image of another CUDA generation than the host's does not start: the deployment waits for its "
    "time-out, says CannotStartContainerError, and there are no logs.",
    mend="Set InferenceAmiVersion to a host image of the image's CUDA generation (CUDA 13: "
    "al2023-ami-sagemaker-inference-gpu-4-1).",
    source="host images: loadproof/catalog/data/hosts.csv; the silent failure: "
    "https://github.com/aws/deep-learning-containers/pull/6187",
    severity="break",
)
def cuda_without_host(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR020")
    yield from change.fresh(_too_new_for_host)


@rule(
    "LR021",
    "Scale to zero that never wakes",
    reason="Target tracking cannot leave zero: no copy, no metric. Only a step policy on failed invocations or on a "
    "backlog adds the first copy; without one every request fails until somebody notices.",
    mend="Add a step policy that adds a copy, and an alarm on NoCapacityInvocationFailures (at least 1) that calls it; "
    "in a profile: scaling.to_zero.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html",
    severity="break",
)
def never_wakes(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR021")
    yield from change.fresh(_asleep_for_good)


@rule(
    "LR022",
    "Scale to zero not available in the region",
    reason="Some regions refuse MinInstanceCount 0 when the endpoint is created or updated.",
    mend="Keep one instance there, or use another region.",
    source="loadproof/catalog/data/region_limits.csv: a third party's report, not tried against an account",
    severity="break",
)
def zero_not_in_region(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR022")
    region = change.after.environment.region if change.after.environment else ""
    if region not in catalog.regions_without("scale_to_zero"):
        return

    def at_zero(view: View) -> Iterator[tuple[str, Found]]:
        if view.environment is None or view.environment.region != region:
            return
        for variant in variants(view):
            managed = variant.body.get("ManagedInstanceScaling") or {}
            if number(managed.get("MinInstanceCount")) == 0:
                message = f"{region} refuses instances that scale to zero (MinInstanceCount 0)"
                yield variant.name, Found(variant.config.logical_id, message, "keep one instance there")

    yield from change.fresh(at_zero)


@rule(
    "LR023",
    "Not available in the region",
    reason="SageMaker does not offer every instance type, container image or inference components in every region; "
    "the deployment fails.",
    mend="Choose what the region has, or another region.",
    source="loadproof/catalog/data/instance_regions.csv (AWS's prices, in cfn-lint 1.58.0), containers.csv, "
    "region_limits.csv",
    severity="break",
)
def not_in_region(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR023")

    def unavailable(view: View) -> Iterator[tuple[tuple[str, str], Found]]:
        if view.environment is None:
            return
        region, offered = view.environment.region, catalog.instance_regions()
        for variant in variants(view):
            for kind in variant.instance_types:
                if kind in offered and region not in offered[kind]:
                    message = f"{kind} is not offered for endpoints in {region}"
                    subject = change.field(*_TYPE_FIELDS, otherwise=variant.config.logical_id)
                    yield (kind, region), Found(subject, message, "choose a type that the region has")

    yield from change.fresh(unavailable)


@rule(
    "LR024",
    "Capacity reservation of another instance type",
    reason="A reservation holds instances of one type, and capacity-reservations-only takes no others: no instance "
    "starts, and the update is rolled back.",
    mend="Change the reservation together with the instance type, or leave the type as it is.",
    source=" "
    "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantCapacityReservationConfig.html; "
    "that the old type was the reserved one follows from its having run",
    severity="break",
)
def reservation_of_another_type(change: Change) -> Iterator[Found]:
    for old, after in variant_pairs(change):
        if not _reservation(after) or _reservation(after) != _reservation(old):
            continue
        if after.instance_types != old.instance_types:
            message = (
                f"variant `{after.name}` goes from {', '.join(old.instance_types)} to {', '.join(after.instance_types)}"
                f", its capacity reservation stays {_reservation(after).rpartition('/')[2]}: that holds the old type"
            )
            subject = change.field(*_TYPE_FIELDS, otherwise=after.config.logical_id)
            yield Found(subject, message, "change the reservation with the type")


@rule(
    "LR025",
    "Model no longer fits",
    reason="Weights, one longest request and what the server needs must fit the accelerators' memory; otherwise the "
    "container ends while it loads, again and again.",
    mend="A larger instance, more accelerators a copy, a quantized checkpoint, or a shorter longest request.",
    source="the planner's memory (docs/how-the-planner-works.md): predicted",
    severity="break",
    also=("risk",),
)
def fits_no_more(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR025")
    before, after = change.context.plan_before, change.context.plan_after
    if after is None or (change.before.side is not None and before is None):
        return
    old = before.memory.fits if before else "yes"
    memory = after.memory
    room = f"{memory.weights_gib:.1f} GiB of weights on {memory.usable_gib:.1f} GiB an accelerator"
    subject = change.field(*_TYPE_FIELDS, "model", "container", "copies", otherwise="model")
    if memory.fits == "no" and old != "no":
        message = f"predicted not to fit: {room}, {memory.margin_gib:.1f} GiB left after the longest request"
        yield Found(subject, message, "take a larger instance or a shorter longest request")
    elif memory.fits == "marginal" and old == "yes":
        message = f"may not fit: {room}, {memory.margin_gib:.1f} GiB left after the longest request (predicted)"
        yield Found(subject, message, "try it on one instance before it goes to production", "risk")


@rule(
    "LR026",
    "Quota to check",
    reason="An account has a quota of instances for each type, often 0 for large ones. Past it the deployment fails, "
    "or scaling stops below its maximum.",
    mend="Compare with Service Quotas (SageMaker, `<type> for endpoint usage`) in the account and region, all "
    "endpoints together; a blue/green update needs the old fleet beside the new one.",
    source="https://docs.aws.amazon.com/general/latest/gr/sagemaker.html; whether there is room in an "
    "account is not known offline",
    severity="warning",
)
def quota(change: Change) -> Iterator[Found]:
    if not change.has_after:
        return
    before = {} if change.moved else _most_by_type(change.before)
    for kind, most in sorted(_most_by_type(change.after).items()):
        old = before.get(kind, 0)
        if most <= old:
            continue
        was = f"until now {old}" if old else "until now none"
        message = f"up to {most} {kind} may run ({was}): quota `{kind} for endpoint usage`"
        subject = change.field(*_TYPE_FIELDS, "endpoint.max_instances", otherwise=_holder(change, kind))
        yield Found(subject, message, f"check that the account's quota leaves room for {most}")


def _too_new_for_host(view: View) -> Iterator[tuple[tuple[str, str], Found]]:
    hosts = catalog.host_images()
    for template in view.templates.values():
        for resource, container in template.containers():
            image = rendered(container.get("Image"))
            cuda = cuda_of_image(image)
            if cuda is None:
                continue
            for ami in sorted(
                {rendered(one.body.get("InferenceAmiVersion")) for one in variants_under(view, resource)}
            ):
                host = hosts.get(ami)
                # A host that SageMaker chooses by itself runs CUDA 12; one that nobody here knows may run anything.
                if starts_on(cuda, host, image) if host else ami or int(cuda.partition(".")[0]) <= _CHOSEN_CUDA:
                    continue
                named = f"host image {ami} has CUDA {host.cuda}" if host else "no InferenceAmiVersion is set"
                message = f"the image needs CUDA {cuda}, {named}: its container does not start"
                fitting = [one.ami_version for one in hosts.values() if starts_on(cuda, one, image)]
                mend = f"set InferenceAmiVersion to {fitting[-1]}" if fitting else "use an image of another CUDA"
                yield (resource.logical_id, ami), Found(resource.logical_id, message, mend)


_CHOSEN_CUDA: Final = 12


def _asleep_for_good(view: View) -> Iterator[tuple[str, Found]]:
    for target in targets(view):
        if number(target.properties.get("MinCapacity")) != 0 or _wakes(view, target):
            continue
        place = rendered(target.properties.get("ResourceId"))
        message = f"`{place}` may scale to 0, and no alarm adds a copy when a request finds none"
        yield place, Found(target.logical_id, message, "add a step policy and an alarm on NoCapacityInvocationFailures")


def _wakes(view: View, target: Resource) -> bool:
    """True where an alarm calls a step policy of this target that adds capacity."""
    called = {
        name
        for alarm in view.of(ALARM)
        for action in listed(alarm.properties, "AlarmActions")
        for name in references(action)
    }
    place = rendered(target.properties.get("ResourceId"))
    for policy in view.of(SCALING_POLICY):
        own = target.logical_id in references(policy.properties.get("ScalingTargetId")) or (
            rendered(policy.properties.get("ResourceId")) == place
        )
        steps = listed(policy.properties.get("StepScalingPolicyConfiguration") or {}, "StepAdjustments")
        adds = any((number(step.get("ScalingAdjustment")) or 0) > 0 for step in steps)
        if own and adds and policy.logical_id in called:
            return True
    return False


def _reservation(variant: Variant) -> str:
    return rendered((variant.body.get("CapacityReservationConfig") or {}).get("MlReservationArn"))


def _most_by_type(view: View) -> Mapping[str, int]:
    """The most instances of each type that the side may run; of pools, each type alone may have to hold them all."""
    most: dict[str, int] = {}
    for variant in variants(view):
        count = _most(view, variant)
        for kind in variant.instance_types:
            most[kind] = most.get(kind, 0) + count
    return most


def _most(view: View, variant: Variant) -> int:
    """What scaling may reach, else what the configuration starts with."""
    target = target_of_variant(view, variant)
    scaled = number(target.properties.get("MaxCapacity")) if target is not None else None
    return max(variant.most_instances or 1, scaled or 1)


def _holder(change: Change, kind: str) -> str:
    """The field that names the type, which need not have changed; else the configuration's logical id."""
    endpoint = change.after.profile.endpoint if change.after.profile else None
    if endpoint is not None:
        return "endpoint.instance_type" if endpoint.instance_type == kind else "endpoint.instance_pools"
    held = next((one for one in variants(change.after) if kind in one.instance_types), None)
    return held.config.logical_id if held else ""
