"""What a container image promises and refuses, as rows with a source: what it packs, needs, and does not start with.

An image is looked at by the software its repository and tag name (`djl-inference:0.38.0-lmi29.0.0-cu130` is LMI image
29.0.0), and by what that packs. A row without a condition holds for everything; what is not known refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, Literal

from loadproof.catalog.readers import HostImage, table

Outcome = Literal["starting", "asked"]
_VERSION: Final = r"(\d+(?:\.\d+)+)"
_CUDA_TAG: Final = re.compile(r"(?:^|[^a-z])cu(?:da)?-?(\d\d)\.?(\d)(?!\d)")
# What a server says of a model type that it does not know.
_UNKNOWN: Final = (
    "`Model architectures [...] are not supported for now`, or `Transformers does not recognize this architecture`"
)
_SERVERS: Final = (
    ("vllm", "vLLM", _UNKNOWN),
    ("sglang", "SGLang", _UNKNOWN),
    ("tgi", "TGI", "`Unsupported model type`; sharded, `sharded is not supported for AutoModel`"),
)
# Software -> the repositories whose tags name it, and how.
_NAMED: Final = (
    ("djl", r"^djl-inference$", rf"^v?{_VERSION}"),
    ("lmi_image", r"^djl-inference$", rf"-lmi{_VERSION}"),
    ("trtllm", r"^djl-inference$", rf"-tensorrtllm{_VERSION}"),
    ("tgi", r"tgi-inference$", rf"(?:^|-)tgi{_VERSION}"),
    ("tgi", r"^text-generation-inference$", rf"^v?{_VERSION}"),
    ("optimum_neuron", r"tgi-inference$", rf"-optimum{_VERSION}"),
    ("vllm", r"^(?:huggingface-)?vllm(?:-openai)?$", rf"^v?{_VERSION}"),
    ("sglang", r"^sglang$", rf"^v?{_VERSION}"),
    ("transformers", r"", rf"-transformers{_VERSION}"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that holds for versions of a software from `since` (included) to `before` (excluded)."""

    software: str
    since: str
    before: str
    fact: str
    value: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class ContractRefusal:
    """What an image does not start with, or answers no request with. Empty conditions hold for everything."""

    id: str
    software: str
    since: str
    before: str
    image: str
    models: str
    accelerators: str
    driver_below: str
    quantizations: str
    variables: str
    missing: str
    mounted: str
    remote_code: str
    outcome: str
    says: str
    mend: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class ModelType:
    """A model type by its models' ids, and the first version of each software that knows it.

    `since` is of Transformers, `vllm_until` the last vLLM that has it. An empty version is not known, or knew it from
    its own first on: it refuses nothing.
    """

    model_type: str
    models: str
    since: str
    vllm: str
    vllm_until: str
    sglang: str
    tgi: str
    source: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A container that SageMaker is to start. None: not known."""

    image: str
    model_id: str | None = None
    base_id: str | None = None  # of a fine-tune, the model whose shape it has
    accelerator: str | None = None
    driver: str | None = None  # of the host
    quantization: str | None = None
    variables: Mapping[str, str] | None = None
    mounted: bool = False  # model data of its own under /opt/ml/model
    remote_code: bool | None = None


@cache
def facts() -> tuple[Fact, ...]:
    """Every fact of every image."""
    return tuple(table(Fact, "container_contracts.csv"))


@cache
def contract_refusals() -> tuple[ContractRefusal, ...]:
    """Every published refusal."""
    return tuple(table(ContractRefusal, "container_refusals.csv"))


@cache
def model_types() -> tuple[ModelType, ...]:
    """Model types that a Transformers of an image may lack."""
    return tuple(table(ModelType, "model_types.csv"))


@cache
def default_hosts() -> Mapping[str, HostImage]:
    """The host that SageMaker takes where no InferenceAmiVersion is named, by instance family (`g5`)."""
    named = {"ami_version": "instance_family"}
    return {row.ami_version: row for row in table(HostImage, "default_hosts.csv", named)}


def cuda_of_image(image: str) -> str | None:
    """CUDA as an image's tag says it (`cu130`)."""
    tag = _CUDA_TAG.search(image)
    return f"{tag.group(1)}.{tag.group(2)}" if tag else None


def starts_on(cuda: str, host: HostImage, image: str = "") -> bool:
    """True when an image of this CUDA is known to start on the host: an older generation dies there without a log.

    One driver runs all minor versions of its generation (NVIDIA's CUDA compatibility guide).
    """
    exception = fact(image, "starts_on_cuda_13_host")
    return cuda.partition(".")[0] in host.starts_cuda or (exception == cuda and "13" in host.starts_cuda)


@lru_cache(maxsize=64)
def software_of(image: str) -> Mapping[str, str]:
    """Software and version that an image names, and what those pack. Empty for an image of nobody's known."""
    repository, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    found: dict[str, str] = {}
    for name, repositories, pattern in _NAMED:
        version = re.search(pattern, tag) if re.search(repositories, repository) else None
        if version is not None:
            found[name] = version.group(1)
    for packed in _facts_of(found, "packs"):
        name, _, version_packed = packed.value.partition(" ")
        found.setdefault(name, version_packed)
    return MappingProxyType(found)


@lru_cache(maxsize=256)
def fact(image: str, name: str) -> str | None:
    """The value of one fact about an image; None where nobody published it."""
    return next((one.value for one in _facts_of(software_of(image), name)), None)


def adapter_switch(image: str) -> str | None:
    """The variable without which the image has no routes for adapters; None where it needs none."""
    found = fact(image, "adapter_switch")
    return None if found == "none" else found


def refusals_of(running: Running, outcome: Outcome | None = None) -> Iterator[ContractRefusal]:
    """What is published to go wrong with exactly this; of one outcome, or of all."""
    published = [one for one in _of_its_software(running.image) if _holds(one, running)]
    if not any(
        one.models and not one.remote_code for one in published
    ):  # what is published of this very model says more
        published += [one for one in _of_its_age(running.image) if _holds(one, running)]
    yield from (one for one in published if outcome is None or one.outcome == outcome)


@lru_cache(maxsize=64)
def _of_its_software(image: str) -> tuple[ContractRefusal, ...]:
    """What is published of an image's name, and of versions that are in it; the same for every machine."""
    software = software_of(image)
    return tuple(one for one in contract_refusals() if _is_of(one, image, software))


def _is_of(refusal: ContractRefusal, image: str, software: Mapping[str, str]) -> bool:
    version = software.get(refusal.software)
    packed = not refusal.software or (version is not None and within(version, refusal.since, refusal.before))
    return packed and (not refusal.image or re.search(refusal.image, image) is not None)


@lru_cache(maxsize=64)
def _of_its_age(image: str) -> tuple[ContractRefusal, ...]:
    """Of model types newer than what is in it, or that it has no more; the same for every machine it is tried on."""
    software = software_of(image)
    return (*_of_older_transformers(software), *_of_older_servers(software), *_of_newer_vllm(software))


def _of_older_servers(software: Mapping[str, str]) -> Iterator[ContractRefusal]:
    """Model types newer than the image's server. What Transformers knows only by a model's own code may run in LMI
    without vLLM, so that nothing is said of it there."""
    for one in model_types():
        for name, title, words in _SERVERS:
            version, since = software.get(name), getattr(one, name)
            elsewhere = "lmi_image" in software and not one.since
            if not since or version is None or elsewhere or not within(version, "", since):
                continue
            says = f"{title} {version} does not know model type {one.model_type} ({words})"
            yield _refusal(one, "starting", says, f"use an image with {title} {since} or newer")


def _of_newer_vllm(software: Mapping[str, str]) -> Iterator[ContractRefusal]:
    """Model types that the image's vLLM has no more."""
    version = software.get("vllm")
    for one in model_types():
        if version is None or not one.vllm_until or _numbers(version) <= _numbers(one.vllm_until):
            continue
        says = f"the architecture of {one.model_type} was supported in vLLM until v{one.vllm_until}"
        yield _refusal(one, "starting", says, f"use an image with vLLM {one.vllm_until}, or another model")


def _of_older_transformers(software: Mapping[str, str]) -> Iterator[ContractRefusal]:
    """Model types newer than an image's Transformers, where nothing else in it knows them: of TGI only a bound of its
    Transformers is published, and vLLM brings model types of its own."""
    packed = software.get("transformers")
    bound = next((one.value for one in _facts_of(software, "transformers_below")), "")
    for one in model_types():
        if not one.since:
            continue
        if bound and within(one.since, bound, ""):
            says, mend = f"ValueError: Unsupported model type {one.model_type}", "use vLLM, SGLang or LMI"
            yield _refusal(one, "starting", says, mend)
        elif packed and "vllm" not in software and within(packed, "", one.since):
            says = f"model type {one.model_type} but Transformers does not recognize this architecture"
            yield _refusal(one, "asked", says, f"use an image with Transformers {one.since} or newer")


def _refusal(of: ModelType, outcome: Outcome, says: str, mend: str) -> ContractRefusal:
    conditions = dict.fromkeys((field.name for field in fields(ContractRefusal)), "")
    told = {"id": of.model_type, "models": of.models, "outcome": outcome, "says": says, "mend": mend}
    return ContractRefusal(**conditions | told | {"source": of.source, "date": of.date})


def _facts_of(software: Mapping[str, str], name: str) -> Iterator[Fact]:
    for one in facts():
        if one.fact == name and one.software in software and within(software[one.software], one.since, one.before):
            yield one


def _holds(refusal: ContractRefusal, running: Running) -> bool:
    return (
        (not refusal.models or any(_is_named(refusal.models, one) for one in _ids(running)))
        and (not refusal.accelerators or running.accelerator in refusal.accelerators.split("; "))
        and (not refusal.driver_below or _older(running.driver, refusal.driver_below))
        and (not refusal.quantizations or running.quantization in refusal.quantizations.split())
        and (not refusal.variables or any(re.search(refusal.variables, one) for one in _written(running)))
        and (not refusal.missing or _all_missing(refusal.missing, running.variables))
        and (not refusal.mounted or running.mounted)
        and (not refusal.remote_code or running.remote_code is False)
    )


def _all_missing(names: str, variables: Mapping[str, str] | None) -> bool:
    return variables is not None and not any(name in variables for name in names.split())


def _written(running: Running) -> Iterator[str]:
    return (f"{name}={value}" for name, value in (running.variables or {}).items())


@lru_cache(maxsize=4096)
def _is_named(pattern: str, model_id: str) -> bool:
    return re.search(pattern, model_id) is not None


def _ids(running: Running) -> tuple[str, ...]:
    """The model's id, and that of the model whose shape it has."""
    return (running.model_id or "", running.base_id or "")


def _older(driver: str | None, bound: str) -> bool:
    return bool(driver) and _numbers(driver or "") < _numbers(bound)


def within(version: str, since: str, before: str) -> bool:
    """Whether a version is at least `since` and below `before`; an empty bound is none."""
    return (not since or _numbers(version) >= _numbers(since)) and (not before or _numbers(version) < _numbers(before))


@lru_cache(maxsize=1024)
def _numbers(version: str) -> tuple[int, ...]:
    """`0.30.0` as numbers, trailing zeros dropped, so that 0.30 and 0.30.0 are one."""
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
