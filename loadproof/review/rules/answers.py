"""Rules about what callers get and may send: model, lengths, payload (LR027-LR029)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from loadproof.families import FAMILIES
from loadproof.profiles import Profile, components_of, protocol_of
from loadproof.profiles.checks.facts import architecture_of
from loadproof.profiles.schema import Container
from loadproof.review.rules.change import Change, models_by_name
from loadproof.review.rules.rule import Found, rule
from loadproof.wire.payloads import payload_of


@rule(
    "LR027",
    "Another model answers",
    reason="Callers get other answers, in other lengths and at another speed; evidence of the old model says nothing "
    "of the new one.",
    mend="Evaluate its answers first, and benchmark it after the deployment.",
    source="the profile's model, revision and weights",
    severity="warning",
)
def another_model(change: Change) -> Iterator[Found]:
    if change.profiles is None or change.field("backend"):
        return
    before, after = (_models(profile) for profile in change.profiles)
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            (old, old_weights), (new, new_weights) = before[name], after[name]
            same = old == new
            message = f"callers get answers of {new}{new_weights} instead of {'' if same else old}{old_weights}"
            message = " ".join(message.split())
            subject = change.field("model.id", "model", "components", otherwise="model.id")
            yield Found(subject, message, "evaluate its answers before callers see them")


@rule(
    "LR028",
    "Longer requests are refused",
    reason="Requests that were answered until now are refused by the server.",
    mend="Look up the longest requests of the last weeks before lowering it.",
    source="the container's settings; what callers send is not known offline",
    severity="risk",
)
def shorter_requests(change: Change) -> Iterator[Found]:
    for path, before, after, context in _containers(change):
        family = FAMILIES[after.family]
        for name in (family.longest_setting, family.prompt_setting) if before.family == after.family else ():
            old, new = family.value(before.settings, name), family.value(after.settings, name)
            if old is None and name == family.longest_setting and family.longest_is_context:
                old = context
            if old is not None and new is not None and new < old:
                what = "prompts" if name == family.prompt_setting else "prompts with their answers"
                message = f"{what} of more than {new:,} tokens are refused, until now {old:,} were taken"
                yield Found(f"{path}container.settings.{name}", message, "look up how long requests have been")


@rule(
    "LR029",
    "Another request format or operation",
    reason="Servers take different payloads, and asynchronous endpoints another operation: callers' requests fail, and "
    "answers and streams look different.",
    mend="Move the callers at the same time, or deploy the new server as a profile of another name.",
    source="the containers' documentation: TGI, LMI and the OpenAI API take different bodies; InvokeEndpointAsync in "
    "the API reference of SageMaker Runtime",
    severity="break",
)
def another_format(change: Change) -> Iterator[Found]:
    for path, before, after, _ in _containers(change):
        old, new = protocol_of(before), protocol_of(after)
        if old != new:
            taken, sent = payload_of(new).title, payload_of(old).title
            message = f"{after.family} takes {taken}'s payload, callers send {sent}'s payload"
            subject = change.field(f"{path}container.family", f"{path}container", otherwise=f"{path}container")
            yield Found(subject, message, _TOGETHER)
    yield from _other_api(change)


_TOGETHER: Final = "move the callers together with it, or deploy it under another name"


def _other_api(change: Change) -> Iterator[Found]:
    """Real time and asynchronous endpoints are called by different operations, and each refuses the other's."""
    if change.profiles is None:
        return
    before, after = (profile.endpoint.async_inference if profile.endpoint else None for profile in change.profiles)
    if (before is None) != (after is None) and not change.field("backend"):
        calls = ("InvokeEndpoint", "InvokeEndpointAsync")
        now, then = calls if before is None else reversed(calls)
        message = f"callers must use {then} instead of {now}: the endpoint refuses what they send until now"
        yield Found("endpoint.async_inference", message, _TOGETHER)


def _containers(change: Change) -> Iterator[tuple[str, Container, Container, int | None]]:
    """Every model that both sides have: where its fields begin, its containers, and the context it had."""
    if change.profiles is not None:
        before, after = (models_by_name(profile) for profile in change.profiles)
        for name, (path, part) in after.items():
            if name in before:
                old = before[name][1]
                shape = architecture_of(old.model)
                yield path, old.container, part.container, shape.context if shape else None


def _models(profile: Profile) -> Mapping[str, tuple[str, str]]:
    """Component name -> the model it serves, and where its weights come from, in words."""
    if profile.backend == "bedrock":
        return {"main": (profile.model.id, "")}
    models: dict[str, tuple[str, str]] = {}
    for component in components_of(profile):
        source = component.model.source
        revision = getattr(source, "revision", None)
        weights = f" at commit {revision[:12]}" if revision else f" from {getattr(source, 's3_uri', 'nowhere')}"
        quantized = "" if component.model.quantization == "none" else f" in {component.model.quantization}"
        models[component.name] = (f"{component.model.id}{quantized}", weights)
    return models
