"""What images are published to refuse: contracts as rows (LP330-LP332), and variables (LP366, LP371, LP373, LP377)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from loadproof import catalog
from loadproof.catalog.arguments import (
    too_few_on_cpu,
    unknown_arguments,
    unknown_parsers,
    unreadable_json,
    unreadable_values,
)
from loadproof.catalog.contracts import ContractRefusal, Running, adapter_switch, default_hosts, fact, refusals_of
from loadproof.families import FAMILIES, family_and_version
from loadproof.profiles.checks.facts import chosen_host, cuda_of, is_neuron_image, known_instances
from loadproof.profiles.checks.rule import Found, Placed, component_rule
from loadproof.profiles.schema import HubSource
from loadproof.profiles.settings import (
    ON,
    container_variables,
    image_name,
    is_staged,
    offline_by,
    reserved_variables,
)
from loadproof.profiles.tree import Path

# What variables may say, and how to mend anything else.
_FORMS: Final = {
    "VLLM_USE_V1": (re.compile(r"0|1"), "write 0 or 1"),
    "OMP_NUM_THREADS": (re.compile(r"[1-9]\d*(,[1-9]\d*)*"), "write how many, at least 1"),
}
# Of other names that servers read the nearest is at 0.90 (OPTION_MODEL_DIR to OPTION_MODEL_ID), TP_SIZE's kin aside.
_NEAR: Final = 0.92


@component_rule(
    "LP330",
    "The image is published not to start with this",
    reason="Somebody deployed the same and published what the container said: it does not start, or answers nothing.",
    mend="Use the version, accelerator, host or variable that the finding names.",
)
def published_refusal(placed: Placed) -> Iterator[Found]:
    seen: set[str] = set()
    for at_instance, running in _running(placed):
        for refusal in refusals_of(running):
            if refusal.id not in seen:
                seen.add(refusal.id)
                found = f"{_subject(refusal, placed)} {_verb(refusal)}: {refusal.says}"
                yield Found(_place(refusal, placed, at_instance), found, f"{refusal.mend} ({refusal.source})")


@component_rule(
    "LP382",
    "Image of another family",
    reason="The family decides which variables the templates write: a server of another family reads none of them.",
    mend="Write the family of the image, or an image of the family.",
)
def image_of_another_family(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    image = (container.image or "").rpartition("/")[2]
    known, published = family_and_version(image), FAMILIES[container.family].image
    ours = published is None or published.repository in image or is_neuron_image(container)
    if known is not None and not ours:
        found = f"{image} is an image of {FAMILIES[known[0]].called}, the family is {container.family}"
        yield Found(placed.at("container", "image"), found, f"write family: {known[0]}, or another image")


@component_rule(
    "LP331",
    "Adapters the image does not take",
    reason="The component is InService, and only requests fail: the container never loaded the adapter; or it stops, "
    "at a rank that its vLLM has not (MaxLoRARanks of vllm/config/lora.py).",
    mend="Raise max_lora_rank to the largest adapter's rank, or use a container that loads adapters while it runs.",
)
def adapter_contract(placed: Placed) -> Iterator[Found]:
    container, adapters = placed.component.container, placed.component.adapters
    image = image_name(container)
    yield from _ranks(placed, image)
    few = too_few_on_cpu(container.environment, getattr(container.settings, "max_loras", None))
    if few is not None:
        found = f"the image's vLLM does not start: {few[1]}"
        yield Found(placed.at("container", "environment", few[0]), found, "write at least max_loras, or delete it")
    if adapters and fact(image, "adapter_routes") == "none":
        instead = "the base model would answer for them" if fact(image, "wrong_adapter") else "they answer Not Found"
        found = f"{container.family} loads no adapters for SageMaker while it runs: {instead}"
        yield Found(placed.at("adapters"), found, "use vllm or lmi")
    switch = adapter_switch(image)
    if adapters and switch and container.environment.get(switch, "true").lower() not in ON:
        found = f"{switch} switched off: the image then has no adapter routes and answers Not Found"
        yield Found(placed.at("container", "environment", switch), found, "delete it; templates set it to true")


@component_rule(
    "LP332",
    "Host left to chance",
    reason="Where no host image is named, SageMaker takes its default, whose driver is years old on some families.",
    mend="Write container.cuda, so that the fitting host is named, or endpoint.ami_version.",
    severity="warning",
)
def host_left_to_chance(placed: Placed) -> Iterator[Found]:
    container, endpoint = placed.component.container, placed.endpoint
    said = endpoint.ami_version is not None or cuda_of(container) is not None
    if said or container.image is None or is_neuron_image(container):
        return
    for _, instance in known_instances(endpoint):
        host = default_hosts().get(instance.family)
        if host is not None and host.driver:
            found = (
                f"nothing says the image's CUDA, and the default host of {instance.family} has driver {host.driver}"
                f" (CUDA {host.cuda})"
            )
            yield Found(placed.at("container", "image"), found, 'write container.cuda: "12.8", for example')
            return


@component_rule(
    "LP366",
    "Variable that its reader does not understand",
    reason="vLLM reads this switch as 0 or 1 and stops at anything else; OpenMP ignores a number of threads that is "
    "none, and takes every core; with more threads than vCPUs they wait for each other at every barrier. What "
    "overrides a model's config.json is JSON, and the server stops at anything else; so do vLLM, LMI's too, SGLang and "
    "TGI at a value that an argument does not take.",
    mend="Write 0 or 1 for VLLM_USE_V1, a count of at most the instance's vCPUs for OMP_NUM_THREADS, JSON where "
    "config.json is overridden.",
    severity="warning",
    also=("error",),
)
def unreadable_variable(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    for name, says in unreadable_json(image_name(container), container.environment):
        mend = "write JSON: keys and texts in double quotes"
        yield Found(placed.at("container", "environment", name), f"no JSON: {says}", mend, "error")
    for name, says in unreadable_values(image_name(container), container.environment):
        found, mend = f"the server does not start: {says}", "write a value that it takes"
        yield Found(placed.at("container", "environment", name), found, mend, "error")
    for name, value in container.environment.items():
        form, mend = _FORMS.get(name, (None, ""))
        if form is not None and not form.fullmatch(value):
            yield Found(placed.at("container", "environment", name), f"`{value}`", mend)
        elif name == "OMP_NUM_THREADS":
            threads = int(value.partition(",")[0])
            most = max((int(one.vcpu) for _, one in known_instances(placed.endpoint)), default=threads)
            if threads > most:
                found = f"{threads:,} threads on {most} vCPUs"
                yield Found(placed.at("container", "environment", name), found, f"write at most {most}")


@component_rule(
    "LP371",
    "Variable that is nearly one of the server's",
    reason="TGI and LMI ignore a variable that they do not know; and what a plan reads is the typed field. Told of "
    "names that differ from a known variable by a letter or two: servers have more than the profile has fields for.",
    mend="Write the typed field that the finding names.",
    severity="warning",
)
def misspelt_variable(placed: Placed) -> Iterator[Found]:
    known, variables = reserved_variables(placed.component), placed.component.container.environment
    stopped = {one.variable for one in unknown_arguments(image_name(placed.component.container), variables)}
    for name in variables:
        near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=_NEAR)
        if name not in (*known, *stopped) and near and not _other_word(name.upper(), near[0]):
            found = f"{name} is nearly {near[0]}, which is `{known[near[0]]}`"
            yield Found(placed.at("container", "environment", name), found, "write that field, and delete this")


@component_rule(
    "LP373",
    "Argument that the server does not know",
    reason="AWS's images of vLLM and SGLang make an argument of every variable with their prefix, and the server stops "
    "at one that its version does not have; so does every vLLM at a parser of tool calls or of reasoning that it "
    "has not (catalog/data/server_arguments.csv, from the servers' own packages).",
    mend="Correct the name, or delete the variable.",
)
def unknown_argument(placed: Placed) -> Iterator[Found]:
    container, fields = placed.component.container, reserved_variables(placed.component)
    image = image_name(container).rpartition("/")[2]
    for unknown in unknown_arguments(image, container.environment):
        nearest = unknown.nearest or ""
        mend = f"write `{fields[nearest]}`" if nearest in fields else f"write {nearest}" if nearest else "delete it"
        found = f"{image} does not start: {unknown.says}"
        yield Found(placed.at("container", "environment", unknown.variable), found, mend)
    for unknown in unknown_parsers(image, container.environment):
        mend = f"write {unknown.nearest}" if unknown.nearest else "write one of these"
        found = f"{image} does not start: {unknown.says}"
        yield Found(placed.at("container", "environment", unknown.variable), found, mend)


@component_rule(
    "LP377",
    "Offline, with weights from the hub",
    reason="A server that may not ask the hub finds no weights there: it stops while starting.",
    mend="Delete the variable, or stage the weights in S3 (network_isolation: true does).",
)
def offline_from_the_hub(placed: Placed) -> Iterator[Found]:
    model, variable = placed.component.model, offline_by(placed.component.container.environment)
    if variable is not None and isinstance(model.source, HubSource) and not is_staged(model, placed.profile):
        found = f"the server is to fetch {model.id} from the hub, and {variable} forbids it"
        yield Found(placed.at("container", "environment", variable), found, "delete it, or stage the weights in S3")


def _other_word(name: str, near: str) -> bool:
    """PP_SIZE is no slip of TP_SIZE: a word of two letters is another, where the rest is the same."""
    words = list(zip(name.split("_"), near.split("_"), strict=False))
    return len(name) == len(near) and any(one != other and len(one) == len(other) <= 2 for one, other in words)


def _ranks(placed: Placed, image: str) -> Iterator[Found]:
    settings = placed.component.container.settings
    most = getattr(settings, "max_lora_rank", None)
    path = placed.at("container", "settings", "max_lora_rank")
    allowed = [int(rank) for rank in (fact(image, "lora_ranks") or "").split()]
    if most is not None and allowed and most not in allowed:
        found = f"the image's vLLM takes max_lora_rank {', '.join(map(str, allowed))}; found {most}"
        larger = [rank for rank in allowed if rank >= most]
        yield Found(path, found, f"write {larger[0]}" if larger else "use a newer image")
    for at, adapter in enumerate(placed.component.adapters):
        if most is not None and adapter.rank is not None and adapter.rank > most:
            found = f"adapter {adapter.name} has rank {adapter.rank}, greater than max_lora_rank {most}"
            yield Found(path, found, f"write {adapter.rank} or more, or leave it out")
        elif adapter.rank is not None and allowed and adapter.rank > allowed[-1]:
            found = f"the image's vLLM takes ranks up to {allowed[-1]}; found {adapter.rank}"
            yield Found(placed.at("adapters", at, "rank"), found, "write `r` of its adapter_config.json")


def _running(placed: Placed) -> Iterator[tuple[Path, Running]]:
    """What SageMaker would start, on each instance type of the endpoint."""
    component, endpoint = placed.component, placed.endpoint
    containers = [component.container, *(one.container for one in placed.profile.components)]
    named = chosen_host(endpoint, containers)
    variables = container_variables(component, staged=is_staged(component.model, placed.profile))
    known = catalog.architecture(component.model.id)
    for path, instance in known_instances(endpoint):
        host = catalog.host_images().get(named or "") or default_hosts().get(instance.family)
        yield (
            path,
            Running(
                image=image_name(component.container),
                model_id=component.model.id,
                base_id=known.hf_id if known else None,
                accelerator=instance.accelerator,
                driver=host.driver if host else None,
                quantization=component.model.quantization,
                variables=variables,
                mounted=not isinstance(component.model.source, HubSource),
                remote_code=component.model.trust_remote_code,
            ),
        )


def _subject(refusal: ContractRefusal, placed: Placed) -> str:
    model = placed.component.model
    parts = [image_name(placed.component.container).rpartition("/")[2]]
    if refusal.models:
        parts.append(f"with {model.id}")
    if refusal.quantizations:
        parts.append(f"in {model.quantization}")
    if refusal.accelerators:
        parts.append(f"on {refusal.accelerators.replace('; ', ' or ')}")
    if refusal.driver_below:
        parts.append(f"on a host with a driver below {refusal.driver_below}")
    if refusal.missing:
        parts.append(f"without {refusal.missing}")
    return " ".join(parts)


def _verb(refusal: ContractRefusal) -> str:
    return "does not start" if refusal.outcome == "starting" else "answers no request"


def _names(refusal: ContractRefusal, variable: str, value: str) -> bool:
    return bool(refusal.variables) and re.search(refusal.variables, f"{variable}={value}") is not None


def _place(refusal: ContractRefusal, placed: Placed, at_instance: Path) -> Path:
    """The field to change first."""
    if refusal.remote_code:
        return placed.at("model", "trust_remote_code")
    if refusal.driver_below:
        return ("endpoint", "ami_version")
    written = [one for one in placed.component.container.environment.items() if _names(refusal, *one)]
    if written:
        return placed.at("container", "environment", written[0][0])
    names = FAMILIES[placed.component.container.family].model_variables
    if names is not None and _names(refusal, names.dtype, names.dtypes.get(placed.component.model.dtype, "")):
        return placed.at("model", "dtype")
    if refusal.accelerators:
        return at_instance
    if refusal.missing or refusal.variables:
        return placed.at("container", "environment")
    if refusal.models:
        return placed.at("model", "id")
    if refusal.quantizations:
        return placed.at("model", "quantization")
    return placed.at("container", "image")
