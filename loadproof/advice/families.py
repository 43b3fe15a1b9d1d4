"""From one server family to another: what a container's settings become, and where that cannot be said."""

from __future__ import annotations

from math import inf
from typing import Any

from loadproof import catalog
from loadproof.advice.changes import KeyChange, Value, change_to
from loadproof.capacity.workload import longest_request_tokens, mean_tokens
from loadproof.families import FAMILIES, ContainerFamily
from loadproof.profiles.checks.facts import most_tokens
from loadproof.profiles.schema import Container, Family, Profile
from loadproof.profiles.settings import components_of, supported_quantizations
from loadproof.profiles.settings import tensor_parallel_degree as degree_of


def preference(family: ContainerFamily[Any, Any]) -> float:
    """The order in which equals are preferred."""
    return inf if family.preferred is None else family.preferred


def families_for(profile: Profile) -> tuple[tuple[Family, ...], str | None]:
    """The families that could serve the profile, its own first, and in words why there is no choice (None: there is).

    Only families with an image in the catalog count, and only those that serve the checkpoint's quantization.
    """
    container = profile.container
    assert container is not None
    own = container.family
    if (tied := _tied_by(container)) is not None:
        return (own,), f"other server families are not compared: {tied} has no counterpart there"
    published = {image.family for image in catalog.container_images()}
    others = tuple(
        family.name
        for family in sorted(FAMILIES.values(), key=preference)
        if family.preferred is not None
        and family.name != own
        and family.name in published
        and profile.model.quantization in supported_quantizations(family.name)
        and (not profile.adapters or "enable_lora" in family.setting_variables)
    )
    return (own, *others), None


def container_changes(profile: Profile, family: Family, degree: int) -> tuple[KeyChange, ...]:
    """What makes the profile's container one of `family` that shards over `degree` accelerators."""
    container = profile.container
    assert container is not None
    settings = ("container", "settings")
    if family == container.family:
        effective = degree_of(components_of(profile)[0])
        return () if effective == degree else change_to(profile, (*settings, "tensor_parallel_degree"), degree)
    # Pinned stays pinned: a new catalog must not change what runs.
    version = catalog.container_image(family).version if container.version else None
    wanted: dict[str, Value] = {"tensor_parallel_degree": degree, **_translated(profile, FAMILIES[family])}
    # A setting of the same name means the same; what the other family does not know goes.
    removed = [
        KeyChange((*settings, name), value, None)
        for name, value in container.settings
        if value is not None and name not in FAMILIES[family].setting_variables
    ]
    return (
        *change_to(profile, ("container", "family"), family),
        *change_to(profile, ("container", "version"), version),
        *removed,
        *(change for name, value in wanted.items() for change in change_to(profile, (*settings, name), value)),
    )


def _translated(profile: Profile, family: ContainerFamily[Any, Any]) -> dict[str, Value]:
    """The settings of another family that keep what the profile's own promise: lengths, admission, caches, adapters."""
    container = profile.container
    assert container is not None
    settings, own = container.settings, FAMILIES[container.family]
    longest = own.value(settings, own.longest_setting) or _rounded(longest_request_tokens(profile))
    wanted: dict[str, Value] = {}
    if longest is not None and family.longest_setting is not None:
        wanted[family.longest_setting] = longest
    if longest is not None and family.prompt_setting is not None:
        prompt = _longest_prompt(profile, longest)
        wanted |= {family.prompt_setting: prompt}
        if family.step_tokens_setting is not None:
            wanted[family.step_tokens_setting] = max(prompt, 4096)
    in_flight = -(-profile.objectives.at_concurrency // max(1, profile.copies.min))
    admission = family.admission
    if admission is not None and not admission.beside_batch and in_flight > admission.default:
        wanted[admission.setting] = in_flight
    same = [(own.sequences_setting, family.sequences_setting)]
    if own.prompt_setting is None and family.prompt_setting is None:  # a step means the same to both
        same.append((own.step_tokens_setting, family.step_tokens_setting))
    for ours, theirs in same:
        if theirs is not None and (value := own.value(settings, ours)) is not None:
            wanted[theirs] = value
    if profile.adapters:
        wanted["enable_lora"] = True
    return wanted


def _longest_prompt(profile: Profile, longest: int) -> int:
    """What is left of the longest request beside a whole answer."""
    answer = most_tokens(profile.workload.output_tokens) or mean_tokens(profile.workload.output_tokens)
    return max(1, longest - answer)


def _rounded(tokens: int | None) -> int | None:
    """Up to whole KV blocks of 256 tokens, so that a limit does not sit on the very last token."""
    return None if tokens is None else -(-tokens // 256) * 256


def _tied_by(container: Container) -> str | None:
    family = FAMILIES[container.family]
    if family.image is None:
        return family.tied_by(container)
    if container.image is not None:
        return "container.image"
    if container.environment:
        return "container.environment"
    if getattr(container, "speculative", None) is not None:
        return "container.speculative"
    return family.tied_by(container)
