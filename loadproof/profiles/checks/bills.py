"""What is paid for and never used, and bills that nobody expects (LP357-LP361, LP365, LP386)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.catalog import Instance, instances
from loadproof.profiles.checks.facts import instance_types, instances_for, known_instances, rooms
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import HubSource
from loadproof.profiles.settings import accelerators_per_copy
from loadproof.profiles.tree import Path
from loadproof.usd import usd_per_month

MOST_USD_PER_MONTH: Final = 500_000
WIDE_SWING, SWING_USD_PER_MONTH = 50, 100_000
MOST_MODEL_UNITS: Final = 50  # from $14 an hour each on, half a million a month
DEARER: Final = 10  # times: no faster accelerator makes that good for copies that both hold
SEEN_DEVICES: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_ADDRESS: Final = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
NO_DEVICE: Final = ("", "-1", "none", "void", "NoDevFiles")


@rule(
    "LP357",
    "Bill that nobody expects",
    reason="Application Auto Scaling and SageMaker bring as many instances as they may, whoever asks: a loop in a "
    "client is enough. Told above $500,000 a month, and above $100,000 where that is fifty times the fewest instances: "
    "nobody plans for both. The price is the catalog's, on demand. A model unit of Bedrock is billed by the hour, used "
    "or not; an account has none with a commitment before it asks AWS for them (CreateProvisionedModelThroughput).",
    mend="Lower endpoint.max_instances, or bedrock.provisioned_throughput.model_units, to what may be paid for.",
    severity="warning",
)
def large_bill(subject: Subject) -> Iterator[Found]:
    if subject.profile.backend == "bedrock":
        throughput = subject.bedrock.provisioned_throughput
        if throughput is not None and throughput.model_units > MOST_MODEL_UNITS:
            found = f"{throughput.model_units:,} model units are billed by the hour, used or not"
            place = ("bedrock", "provisioned_throughput", "model_units")
            yield Found(place, found, "write how many may be paid for: AWS tells what a unit does")
        return
    endpoint = subject.endpoint
    prices = [one.usd_per_hour for _, one in known_instances(endpoint) if one.usd_per_hour is not None]
    dearest = usd_per_month(max(prices) * endpoint.max_instances) if prices else None
    swings = endpoint.max_instances >= WIDE_SWING * max(1, endpoint.min_instances)
    if dearest is not None and dearest > (SWING_USD_PER_MONTH if swings else MOST_USD_PER_MONTH):
        found = f"{endpoint.max_instances:,} instances at the most cost ${dearest:,.0f} a month"
        yield Found(("endpoint", "max_instances"), found, "write how many may be paid for")


@rule(
    "LP358",
    "Accelerators that no copy uses",
    reason="An instance is paid for whole. Where all copies there may be need less than half of its accelerators, or "
    "half and there is a smaller instance with the same ones, the others wait for nobody.",
    mend="Use a smaller instance, more copies, or more accelerators a copy.",
    severity="warning",
)
def idle_accelerators(subject: Subject) -> Iterator[Found]:
    variant = subject.endpoint.hosting == "plain_variant"
    used = sum(
        accelerators_per_copy(one.component) * (1 if variant else one.component.copies.max)
        for one in subject.components
    )
    known = list(known_instances(subject.endpoint))
    if len(known) < len(list(instance_types(subject.endpoint))) or not used:
        return
    fewer = all(2 * used < one.accelerator_count for _, one in known)  # else a pool is what there is room in
    if fewer or all(2 * used == one.accelerator_count and _has_smaller(subject, one) for _, one in known):
        for path, instance in known:
            found = f"{instance.accelerator_count} accelerators, of which all copies use {used} at the most"
            yield Found(path, found, "use a smaller instance, or accelerators_per_copy")


def _has_smaller(subject: Subject, instance: Instance) -> bool:
    """True where an instance of fewer of the same accelerators holds a copy."""
    return any(
        one.accelerator == instance.accelerator
        and one.accelerator_count < instance.accelerator_count
        and rooms(subject.components, one)
        for one in instances().values()
    )


@rule(
    "LP386",
    "Dear instances where cheaper ones hold the same",
    reason="SageMaker fills pools in the order of their priority: the first is what is paid for, and later ones are "
    "for when it cannot be had. And instances that are always there, as many as the most copies need, cost as much "
    "with the fewest: what scaling takes away saves nothing. More than all copies fill, and than there are copies at "
    "the least to spread, stand empty.",
    mend="Give the cheaper pool the lower number; write min_instances for the fewest copies.",
    severity="warning",
)
def dear_instances(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    if endpoint.hosting != "inference_components" or not subject.components:
        return
    costs: list[tuple[int, Path, Instance, float]] = []
    for path, instance in known_instances(endpoint):
        fewest, most = (instances_for(subject.components, instance, bound) for bound in ("min", "max"))
        spread = sum(one.component.copies.min for one in subject.components)
        empty = 0 < most < endpoint.min_instances > spread
        if endpoint.instance_type is not None and (empty or fewest < most <= endpoint.min_instances):
            found = f"{endpoint.min_instances} instances are always there: all copies need {most}, the fewest {fewest}"
            yield Found(("endpoint", "min_instances"), found, f"write {fewest}")
        if endpoint.instance_type is None and fewest and instance.usd_per_hour is not None:
            priority = endpoint.instance_pools[int(path[2])].priority
            costs.append((priority, path, instance, fewest * instance.usd_per_hour))
    costs.sort(key=lambda cost: cost[0])
    cheapest = min((cost for *_, cost in costs[1:]), default=None)
    if cheapest is not None and costs[0][3] > DEARER * cheapest:
        _, path, instance, cost = costs[0]
        found = (
            f"{instance.instance_type} comes first: the fewest copies cost ${cost:,.2f} an hour, not ${cheapest:,.2f}"
        )
        yield Found(path, found, "give it a larger priority number than the cheaper pool, or leave it out")


@component_rule(
    "LP359",
    "Accelerators hidden from the server",
    reason="CUDA shows a program the devices that these variables name: with none, the server finds no accelerator and "
    "stops.",
    mend="Delete the variable: a copy is given its own accelerators.",
)
def hidden_accelerators(placed: Placed) -> Iterator[Found]:
    for name in SEEN_DEVICES:
        value = placed.component.container.environment.get(name)
        if value is not None and value.strip() in NO_DEVICE:
            found = f"`{value}` hides every accelerator"
            yield Found(placed.at("container", "environment", name), found, "delete it")


@component_rule(
    "LP360",
    "Weights in twice their size",
    reason="Models are published in 16 bits or less: fp32 adds no precision, doubles memory and time a token.",
    mend="Write bf16, or leave dtype out.",
    severity="warning",
)
def doubled_weights(placed: Placed) -> Iterator[Found]:
    if placed.component.model.dtype == "fp32":
        yield Found(placed.at("model", "dtype"), "fp32 doubles memory and time a token", "write bf16, or leave it out")


@component_rule(
    "LP361",
    "Written among what is read",
    reason="SageMaker downloads everything below the model's prefix when a copy starts: requests and answers that are "
    "kept there too, more each day, and whoever may read weights reads them. Where answers of an asynchronous "
    "endpoint lie among its requests, whoever sends what arrives there sends them, too.",
    mend="Give captures, requests and answers each a bucket or a prefix of their own.",
)
def written_among_read(placed: Placed) -> Iterator[Found]:
    source, later = placed.component.model.source, placed.endpoint.async_inference
    weights = "" if isinstance(source, HubSource) else str(getattr(source, "s3_uri", ""))
    written: list[tuple[Path, str | None]] = []
    if placed.endpoint.data_capture is not None:
        written.append((("endpoint", "data_capture", "s3_uri"), placed.endpoint.data_capture.s3_uri))
    if later is not None:
        names = ("input_s3_uri", "output_s3_uri", "failure_s3_uri")
        written += [(("endpoint", "async_inference", name), getattr(later, name)) for name in names]
    for place, uri in written:
        prefix = f"{uri.rstrip('/')}/" if uri else ""
        if weights.endswith("/") and prefix.startswith(weights):
            yield Found(place, f"it lies below the weights, {weights}", "name another prefix")
        requests = f"{later.input_s3_uri.rstrip('/')}/" if later is not None and later.input_s3_uri else None
        if requests and placed.is_main and place[-1] != "input_s3_uri" and prefix.startswith(requests):
            yield Found(place, f"it lies among the requests, {requests}", "name another prefix", "warning")


@component_rule(
    "LP365",
    "Bucket name that S3 has not",
    reason="A bucket's name has no two periods in a row and is no IP address "
    "(https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html): there is nothing to read there.",
    mend="Write the bucket's name as S3 shows it.",
)
def no_bucket(placed: Placed) -> Iterator[Found]:
    endpoint, component = placed.endpoint, placed.component
    parts: list[tuple[Path, object]] = [
        (placed.at("model", "source"), component.model.source),
        (("endpoint", "data_capture"), endpoint.data_capture),
        (("endpoint", "async_inference"), endpoint.async_inference),
        *((placed.at("adapters", at), one) for at, one in enumerate(component.adapters)),
    ]
    for path, part in parts:
        for name in ("s3_uri", "input_s3_uri", "output_s3_uri", "failure_s3_uri"):
            bucket = str(getattr(part, name, None) or "").removeprefix("s3://").partition("/")[0]
            if ".." in bucket or _ADDRESS.fullmatch(bucket):
                yield Found((*path, name), f"no bucket is called `{bucket}`", "write the bucket's name")
