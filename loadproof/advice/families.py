"""From one server family to another: what a container's settings become, and where that cannot be said."""

from __future__ import annotations

from loadproof import catalog
from loadproof.advice.changes import Change, Value, change_to
from loadproof.capacity.workload import longest_request_tokens, mean_tokens
from loadproof.profiles.checks.facts import most_tokens
from loadproof.profiles.schema import Container, Family, Profile
from loadproof.profiles.settings import components_of, setting_variables, supported_quantizations
from loadproof.profiles.settings import tensor_parallel_degree as degree_of

# In the order in which equals are preferred; TGI is archived upstream, SGLang has no calibration yet.
FAMILIES: tuple[Family, ...] = ("vllm", "lmi", "tgi", "sglang")
_LONGEST = {
    "tgi": "max_total_tokens",
    "lmi": "max_model_len",
    "vllm": "max_model_len",
    "sglang": "context_length",
}
# Sequences in the running batch, and prompt tokens in one step, where a family lets one set them.
_SEQUENCES = {"lmi": "max_rolling_batch_size", "vllm": "max_num_seqs", "sglang": "max_running_requests"}
_STEP_TOKENS = {
    "lmi": "max_rolling_batch_prefill_tokens",
    "vllm": "max_num_batched_tokens",
    "sglang": "chunked_prefill_size",
}
_TGI_ADMITS = 128
# Settings without a counterpart elsewhere: whoever wrote one meant this server.
_TIED = ("kv_cache_dtype", "entrypoint", "async_mode")


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
        family
        for family in FAMILIES
        if family != own
        and family in published
        and profile.model.quantization in supported_quantizations(family)
        and (not profile.adapters or family in ("lmi", "vllm"))
    )
    return (own, *others), None


def container_changes(profile: Profile, family: Family, degree: int) -> tuple[Change, ...]:
    """What makes the profile's container one of `family` that shards over `degree` accelerators."""
    container = profile.container
    assert container is not None
    settings = ("container", "settings")
    if family == container.family:
        effective = degree_of(components_of(profile)[0])
        return () if effective == degree else change_to(profile, (*settings, "tensor_parallel_degree"), degree)
    # Pinned stays pinned: a new catalog must not change what runs.
    version = catalog.container_image(family).version if container.version else None
    wanted: dict[str, Value] = {"tensor_parallel_degree": degree, **_translated(profile, family)}
    # A setting of the same name means the same; what the other family does not know goes.
    removed = [
        Change((*settings, name), value, None)
        for name, value in container.settings
        if value is not None and name not in setting_variables(family)
    ]
    return (
        *change_to(profile, ("container", "family"), family),
        *change_to(profile, ("container", "version"), version),
        *removed,
        *(change for name, value in wanted.items() for change in change_to(profile, (*settings, name), value)),
    )


def longest_setting(family: Family) -> str | None:
    """The family's setting for prompt plus answer; None for a container of one's own."""
    return _LONGEST.get(family)


def _translated(profile: Profile, family: Family) -> dict[str, Value]:
    """The settings of another family that keep what the profile's own promise: lengths, admission, caches, adapters."""
    container = profile.container
    assert container is not None
    own = container.settings
    limits = (getattr(own, name, None) for name in dict.fromkeys(_LONGEST.values()))
    longest = next((limit for limit in limits if limit is not None), None) or _rounded(longest_request_tokens(profile))
    wanted: dict[str, Value] = {} if longest is None else {_LONGEST[family]: longest}
    if family == "tgi":
        if longest is not None:
            prompt = getattr(own, "max_input_tokens", None) or _longest_prompt(profile, longest)
            wanted |= {"max_input_tokens": prompt, "max_batch_prefill_tokens": max(prompt, 4096)}
        in_flight = -(-profile.objectives.at_concurrency // max(1, profile.copies.min))
        if in_flight > _TGI_ADMITS:
            wanted["max_concurrent_requests"] = in_flight
    for table in (_SEQUENCES, _STEP_TOKENS):
        value = getattr(own, table.get(container.family, ""), None)
        if value is not None and family in table:
            wanted[table[family]] = value
    if profile.adapters:
        wanted["enable_lora"] = True
    return wanted


def sequences_setting(family: Family) -> str | None:
    """The family's setting for sequences in the running batch; None where there is none."""
    return _SEQUENCES.get(family)


def step_tokens_setting(family: Family) -> str | None:
    """The family's setting for prompt tokens prefilled in one step."""
    return "max_batch_prefill_tokens" if family == "tgi" else _STEP_TOKENS.get(family)


def _longest_prompt(profile: Profile, longest: int) -> int:
    """What is left of the longest request beside a whole answer."""
    answer = most_tokens(profile.workload.output_tokens) or mean_tokens(profile.workload.output_tokens)
    return max(1, longest - answer)


def _rounded(tokens: int | None) -> int | None:
    """Up to whole KV blocks of 256 tokens, so that a limit does not sit on the very last token."""
    return None if tokens is None else -(-tokens // 256) * 256


def _tied_by(container: Container) -> str | None:
    if container.family == "custom":
        return "a container of your own"
    if container.image is not None:
        return "container.image"
    if container.environment:
        return "container.environment"
    if getattr(container, "speculative", None) is not None:
        return "container.speculative"
    if getattr(container.settings, "rolling_batch", None) not in (None, "auto", "vllm"):
        return "container.settings.rolling_batch"
    return next((f"container.settings.{name}" for name in _TIED if getattr(container.settings, name, None)), None)
