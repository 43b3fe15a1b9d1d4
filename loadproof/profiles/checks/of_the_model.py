"""What a server is told that its model, or its requests, have not (LP334-LP337)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Final

from loadproof import catalog
from loadproof.catalog.contracts import software_of, within
from loadproof.profiles.checks.facts import architecture_of
from loadproof.profiles.checks.rule import Found, Placed, component_rule
from loadproof.profiles.schema import HubSource
from loadproof.profiles.settings import ON, image_name

_EXPERT_PARALLEL: Final = re.compile(
    r"(SM_VLLM|OPTION)_ENABLE_EXPERT_PARALLEL|SM_SGLANG_(EP_SIZE|EXPERT_PARALLEL_SIZE)"
)
_PICTURES: Final = ("SM_VLLM_LIMIT_MM_PER_PROMPT", "OPTION_LIMIT_MM_PER_PROMPT", "SM_SGLANG_LIMIT_MM_DATA_PER_REQUEST")


@component_rule(
    "LP334",
    "Experts in parallel of a model that has none",
    reason="vLLM stops: `Number of experts in the model must be greater than 0 when expert parallelism is enabled` "
    "(vllm/config/model.py, 0.8.5 to 0.30.0); SGLang has nothing to spread.",
    mend="Delete the variable, or serve a mixture of experts.",
)
def experts_of_none(placed: Placed) -> Iterator[Found]:
    shape = architecture_of(placed.component.model)
    for name, value in placed.component.container.environment.items():
        wanted = _EXPERT_PARALLEL.fullmatch(name) and (value.lower() in ON or (value.isdecimal() and int(value) > 1))
        if shape is not None and not shape.experts and wanted:
            found = f"{name} of {placed.component.model.id}, which has no experts"
            yield Found(placed.at("container", "environment", name), found, "delete it")


@component_rule(
    "LP335",
    "Draft model of another vocabulary",
    reason="A draft proposes tokens by their numbers: vLLM stops where the two vocabularies differ in size (`Target "
    "and draft model should have the same vocabulary size`, vllm/config/speculative.py).",
    mend="Name a smaller model of the same family as the draft, or use method ngram or eagle3.",
)
def draft_of_another_vocabulary(placed: Placed) -> Iterator[Found]:
    wanted, shape = getattr(placed.component.container, "speculative", None), architecture_of(placed.component.model)
    if wanted is None or wanted.method != "draft_model" or wanted.draft_model is None or shape is None:
        return
    draft = catalog.architecture(wanted.draft_model)
    if draft is not None and 0 not in (draft.vocab, shape.vocab) and draft.vocab != shape.vocab:
        found = f"{wanted.draft_model} has {draft.vocab:,} tokens, {placed.component.model.id} {shape.vocab:,}"
        yield Found(placed.at("container", "speculative", "draft_model"), found, "name a draft of the same family")


@component_rule(
    "LP336",
    "More pictures a request than the server takes",
    reason="The server refuses each such request: `At most 2 image(s) may be provided in one prompt`. vLLM took one "
    "before 0.8.0, where nobody said otherwise (vllm/config.py: MultiModalConfig).",
    mend="Raise the limit to the most pictures that a request has, or send fewer.",
)
def more_pictures_than_taken(placed: Placed) -> Iterator[Found]:
    images, container = placed.profile.workload.images, placed.component.container
    if images is None or not placed.is_main:
        return
    limits = [
        (name, _most_pictures(container.environment[name])) for name in _PICTURES if name in container.environment
    ]
    for name, most in limits:
        if most is not None and images.count > most:
            found = f"{images.count} pictures a request (workload.images.count), {name} takes {most}"
            yield Found(placed.at("container", "environment", name), found, f'write {{"image": {images.count}}}')
    version = software_of(image_name(container)).get("vllm")
    if not limits and images.count > 1 and version is not None and within(version, "", "0.8.0"):
        found = f"{images.count} pictures a request, vLLM {version} takes 1 where no limit is written"
        variable = _PICTURES[container.family == "lmi"]
        mend = f"write container.environment.{variable}: '{{\"image\": {images.count}}}'"
        yield Found(("workload", "images", "count"), found, mend)


@component_rule(
    "LP337",
    "Hub id a slip away from a listed one",
    severity="warning",
    reason="The hub answers `404 Repository Not Found` when the server starts: one word of the id is nearly one of the "
    "same publisher's listed models. `model.base` says a shape, and hides that nobody knows the id.",
    mend="Correct `model.id`; where it is meant, nothing is to be done.",
)
def slip_in_a_hub_id(placed: Placed) -> Iterator[Found]:
    model = placed.component.model
    if not isinstance(model.source, HubSource) or catalog.architecture(model.id) is not None:
        return
    near = next((one for one in catalog.near_models(model.id) if _is_slip(model.id, one)), None)
    if near is not None:
        yield Found(placed.at("model", "id"), f"`{model.id}` is nearly {near}", f"write {near}")


def _is_slip(written: str, listed: str) -> bool:
    """One word of letters differs by a letter or two; sizes, releases and short words make other models."""
    words, theirs = (re.split(r"[-_./]", one.casefold()) for one in (written, listed))
    differing = [pair for pair in zip(words, theirs, strict=False) if pair[0] != pair[1]]
    if len(words) != len(theirs) or len(differing) != 1:
        return False
    here, there = differing[0]
    alike = difflib.SequenceMatcher(None, here, there).ratio()
    return here.isalpha() and there.isalpha() and min(len(here), len(there)) > 4 and alike > 0.8


def _most_pictures(text: str) -> int | None:
    """Of vLLM's and SGLang's JSON: {"image": 2}, or {"image": {"count": 2}}; None where it says nothing of pictures."""
    try:
        said = json.loads(text)
    except ValueError:
        return None  # LP366
    most = said.get("image") if isinstance(said, dict) else None
    most = most.get("count") if isinstance(most, dict) else most
    return most if isinstance(most, int) else None
