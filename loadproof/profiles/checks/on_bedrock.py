"""Backend bedrock: what Bedrock would refuse, or never do (LP290-LP298, LP387).

The catalog's rows of Bedrock are a snapshot, most of them from memory: what only a row says is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.catalog.bedrock import NO_PREFIX, bedrock_prefixes, split_profile_id
from loadproof.profiles.checks.facts import most_tokens
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.checks.workload import steps_above
from loadproof.profiles.on_bedrock import FEWEST_CONSUMERS, bedrock_consumers, bedrock_row, prefix_row

MOST_IN_FLIGHT: Final = 10_000
_TABLE: Final = "loadproof/catalog/data/bedrock_models.csv"


@rule(
    "LP290",
    "A cross-region prefix in the model's id",
    reason="The prefix decides which regions a role must be allowed, and which quota counts.",
    mend="Write the model's own id, and the prefix as `bedrock.inference_profile`.",
)
def prefix_in_the_id(subject: Subject) -> Iterator[Found]:
    if subject.profile.backend != "bedrock":
        return
    prefix, model_id = split_profile_id(subject.profile.model.id)
    if prefix != NO_PREFIX:
        mend = f"write `{model_id}`, and bedrock.inference_profile: {prefix}"
        yield Found(("model", "id"), f"`{prefix}.` names a cross-region profile", mend)


@rule(
    "LP291",
    "Provisioned throughput over an inference profile",
    reason="Inference profiles do not support provisioned throughput.",
    mend="Keep one of `inference_profile` and `provisioned_throughput`.",
)
def provisioned_across_regions(subject: Subject) -> Iterator[Found]:
    settings = subject.bedrock
    if settings.provisioned_throughput and settings.inference_profile != NO_PREFIX:
        found = f"profile {settings.inference_profile} with provisioned_throughput"
        yield Found(("bedrock", "inference_profile"), found, "keep one of them")


@rule(
    "LP292",
    "A cross-region profile of another geography",
    reason="An inference profile takes requests from the regions of its own geography only.",
    mend="Choose the prefix of the environment's region.",
)
def other_geography(subject: Subject) -> Iterator[Found]:
    settings, region = subject.bedrock, subject.region
    sources = prefix_row(subject.profile).source_regions
    if not sources or region in sources:
        return
    allowed = [name for name, row in bedrock_prefixes().items() if region in row.source_regions]
    mend = f"write one of: {', '.join([*allowed, 'global', NO_PREFIX])}"
    found = f"`{settings.inference_profile}` takes no requests from {region}"
    known_to_be_far = region.partition("-")[0] not in {one.partition("-")[0] for one in sources}
    yield Found(("bedrock", "inference_profile"), found, mend, "error" if known_to_be_far else "warning")


@rule(
    "LP293",
    "The model is not to be had this way",
    reason="Some models are invoked through an inference profile only, and not every model has one of every prefix.",
    mend="Choose a prefix that the model has.",
    severity="warning",
    also=("error",),
)
def model_over_prefix(subject: Subject) -> Iterator[Found]:
    settings, row = subject.bedrock, bedrock_row(subject.profile)
    if row is None or settings.provisioned_throughput is not None:
        return
    path, prefix = ("bedrock", "inference_profile"), settings.inference_profile
    had = ", ".join([*([NO_PREFIX] if row.on_demand else []), *row.prefixes])
    if prefix == NO_PREFIX and not row.on_demand:
        found = f"{row.model_id} is invoked through an inference profile only"
        yield Found(path, found, f"write one of: {had}", "error")
    elif prefix not in (NO_PREFIX, *row.prefixes):
        yield Found(path, f"{row.model_id} has no profile `{prefix}`", f"write one of: {had} (rows in {_TABLE})")


@rule(
    "LP294",
    "A service tier that does nothing here",
    reason="Tiers are of on-demand requests, and not every model has every tier: Bedrock refuses the request.",
    mend="Leave `service_tier` out.",
)
def service_tier(subject: Subject) -> Iterator[Found]:
    settings, row = subject.bedrock, bedrock_row(subject.profile)
    if settings.service_tier == "default":
        return
    path, tier = ("bedrock", "service_tier"), settings.service_tier
    if settings.provisioned_throughput is not None:
        yield Found(path, f"tier {tier} with provisioned_throughput", "delete it: model units are yours already")
    elif row is not None and tier not in row.tiers:
        mend = f"write one of: {', '.join(row.tiers)} (rows in {_TABLE})"
        yield Found(path, f"{row.model_id} has no tier {tier}", mend, "warning")


@rule(
    "LP295",
    "A Bedrock model that the catalog does not know",
    reason="Without its name in Service Quotas there is no alarm on its quota, and nothing of its limits is checked.",
    mend="Add a row to loadproof/catalog/data/bedrock_models.csv, or correct the id.",
    severity="warning",
)
def unknown_model(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    prefix, model_id = split_profile_id(profile.model.id)
    if profile.backend == "bedrock" and prefix == NO_PREFIX and bedrock_row(profile) is None:
        found = f"no row for `{model_id}`: no alarm on its quota"
        yield Found(("model", "id"), found, f"add a row to {_TABLE}, or correct the id")


@rule(
    "LP296",
    "Longer than the model takes",
    reason="Bedrock refuses a request whose prompt and answer do not fit the model's context; a turn of a conversation "
    "is sent with all before it.",
    mend="Shorten the workload, or choose another model.",
    severity="warning",
)
def longer_than_the_context(subject: Subject) -> Iterator[Found]:
    profile, row = subject.profile, bedrock_row(subject.profile)
    if profile.backend != "bedrock" or row is None:
        return
    written = most_tokens(profile.workload.output_tokens)
    if written is not None and written > row.max_output_tokens:
        found = f"answers of {written} tokens, more than {row.model_id} writes"
        yield Found(("workload", "output_tokens"), found, f"write at most {row.max_output_tokens}")
    context = f"the context of {row.context_tokens:,} of {row.model_id}"
    yield from steps_above(profile, row.context_tokens, context, with_answer=True)


@rule(
    "LP297",
    "Benchmarks in the cloud of a model on Bedrock",
    reason="The environment's benchmark job has rights to SageMaker's endpoints only.",
    mend="Leave gate and schedule out, and run `loadproof bench`.",
)
def benchmarks_in_the_cloud(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    if profile.backend != "bedrock":
        return
    for name, given in (("gate", profile.benchmark.gate != "none"), ("schedule", profile.benchmark.schedule)):
        if given:
            found = f"`{name}` has no use with backend bedrock"
            yield Found(("benchmark", name), found, "delete it, and run `loadproof bench`")


@rule(
    "LP298",
    "The buffer sends more than the profile allows",
    reason="Consumers at work, each with its batch in flight, would pass `bedrock.max_concurrency`.",
    mend="Lower `buffer.max_concurrency` or `buffer.batch_size`, or raise `bedrock.max_concurrency`.",
)
def buffer_within_concurrency(subject: Subject) -> Iterator[Found]:
    settings, buffer = subject.bedrock, subject.buffer
    derived = buffer.max_concurrency == "auto"
    consumers = bedrock_consumers(subject.profile) if buffer.max_concurrency == "auto" else buffer.max_concurrency
    in_flight = consumers * buffer.batch_size
    if in_flight > settings.max_concurrency:
        found = f"{consumers} consumers of {buffer.batch_size} put {in_flight} requests in flight"
        mend = f"stay within bedrock.max_concurrency: {settings.max_concurrency}, or raise it"
        if derived:  # then they are the fewest that Lambda takes
            found += f", and Lambda takes no fewer than {FEWEST_CONSUMERS} consumers"
        yield Found(("buffer", "batch_size" if derived else "max_concurrency"), found, mend)


@rule(
    "LP387",
    "Concurrency on Bedrock beside what is proven",
    reason="bedrock.max_concurrency is how many requests we have in flight at most: the objectives cannot be kept at "
    "more than that. And no buffer gets to more than 10,000, a thousand consumers of ten each, far beyond the "
    "requests a minute that any account is given: all but a few would be throttled, and tried again.",
    mend="Write objectives.at_concurrency, or some times that.",
    severity="warning",
)
def concurrency_beside_objectives(subject: Subject) -> Iterator[Found]:
    most, proven = subject.bedrock.max_concurrency, subject.profile.objectives.at_concurrency
    if "max_concurrency" in subject.bedrock.model_fields_set and most < proven:
        found = f"{most} at once, and the objectives are of {proven}"
        yield Found(("bedrock", "max_concurrency"), found, f"raise it to {proven}, or lower objectives.at_concurrency")
    if most > MOST_IN_FLIGHT:
        found = f"{most:,} requests at once, which no account's quota serves"
        yield Found(("bedrock", "max_concurrency"), found, f"write what is in flight at most, such as {2 * proven}")
