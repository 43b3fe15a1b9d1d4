"""A profile's workload as sessions (`loadproof.sessions`): what every verb that sends, plans or draws it goes by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, prod

from loadproof.catalog.pictures import image_tokens
from loadproof.profiles.schema import Arrivals, Profile, TokenDistribution, Workload, WorkloadClass, WorkloadStep
from loadproof.sessions import Mixture, SessionClass, Step, chain
from loadproof.token_counts import TokenCounts

_OWN = ("name", "share", "objectives")  # of a class, and nothing that the workload has too
_ALONE = {  # where no turn follows
    "continues": 1.0,
    "think_time_s": 0.0,
    "think_time_stddev_s": 0.0,
    "first_input_tokens": None,
    "turn_correlation": None,
}


def planned_mixture_of(profile: Profile) -> Mixture:
    """`mixture_of` a profile's workload, its pictures as tokens of its own model's where the catalog knows its grid."""
    return mixture_of(profile.workload, image_tokens_of(profile) or 0)


def image_tokens_of(profile: Profile) -> int | None:
    """Of all pictures that go with a session's first request; None where nobody knows the model's grid."""
    images = profile.workload.images
    if images is None:
        return 0
    one = image_tokens(profile.model.id, images.width_px, images.height_px) if profile.model else None
    return None if one is None else images.count * one


def mixture_of(workload: Workload, picture_tokens: int = 0) -> Mixture:
    """Its classes, and what is left of them as the workload itself is; `picture_tokens` go with each first request."""
    left = 1.0 - sum(one.share for one in workload.classes)
    classes = [_session_class(workload, "", left)] if left > 1e-9 else []
    classes += [_session_class(merged(workload, one), one.name, one.share, one) for one in workload.classes]
    if picture_tokens:
        classes = [
            replace(one, steps=(replace(one.steps[0], image_tokens=picture_tokens), *one.steps[1:])) for one in classes
        ]
    return Mixture(tuple(classes))


def merged(workload: Workload, part: WorkloadClass) -> Workload:
    """The workload of one class: the profile's, with what the class writes in place."""
    written = {name: getattr(part, name) for name in type(part).model_fields if name not in _OWN}
    changed = {name: value for name, value in written.items() if value is not None}
    if "steps" in changed:  # an agent's steps are no conversation's turns
        changed = {"turns": 1, "max_context_tokens": None, **_ALONE, **changed}
    elif "turns" in changed:
        changed["steps"] = ()
        if part.turns == 1:  # nobody thinks after it
            changed = {**_ALONE, **changed}
    return workload.model_copy(update={**changed, "classes": ()})


def busiest_per_s(arrivals: Arrivals) -> float:
    """The rate of the busiest hour of the week."""
    assert arrivals.requests_per_s is not None
    peaks = [max(shape) * len(shape) / sum(shape) for shape in (arrivals.hours, arrivals.days) if shape]
    return arrivals.requests_per_s * prod(peaks)


def counts_of(tokens: int | TokenDistribution) -> TokenCounts:
    """A profile's token count as a distribution, its mean filled in."""
    if isinstance(tokens, int):
        return TokenCounts("fixed", float(tokens))
    mean = tokens.mean
    if mean is None:
        mean = max(1, (tokens.min + (tokens.max or tokens.min)) // 2)
    return TokenCounts(
        tokens.distribution, float(mean), float(tokens.stddev or 0), tokens.min, tokens.max, tokens.values
    )


def most_of(counts: TokenCounts) -> float:
    """The largest count that may be drawn; infinity where a tail has no end."""
    if counts.distribution == "fixed":
        return counts.mean
    return inf if counts.maximum is None else counts.maximum


def placed_classes(workload: Workload, picture_tokens: int = 0) -> Iterator[tuple[tuple[str | int, ...], SessionClass]]:
    """Each class with where the profile writes it."""
    found = mixture_of(workload, picture_tokens).classes
    if len(found) > len(workload.classes):
        yield ("workload",), found[0]
    for place, one in enumerate(found[-len(workload.classes) :] if workload.classes else ()):
        yield ("workload", "classes", place), one


def longest_of(one: SessionClass) -> list[tuple[float, float]]:
    """(prompt, prompt with its answer) of each step, at most: infinity where a tail has no end."""
    found: list[tuple[float, float]] = []
    for step in one.steps:
        before = found[step.after[0]][1] if step.after else 0.0
        prompts, answers = step.input_tokens, step.output_tokens
        together = most_of(prompts) + most_of(answers)
        if one.paired_lengths and len(prompts.values) == len(answers.values) > 0:
            together = max(map(sum, zip(prompts.values, answers.values, strict=True)))
        prompt, whole = before + step.image_tokens + most_of(prompts), before + step.image_tokens + together
        if one.max_context_tokens is not None:
            whole = min(whole, one.max_context_tokens)
            prompt = min(prompt, whole - answers.minimum) if found else prompt
            whole = max(whole, prompt + 1)  # a first one is sent however long it is
        found.append((prompt, whole))
    return found


def first_above(one: SessionClass, most: float, *, with_answer: bool) -> int | None:
    """The first step whose prompt, or whose prompt with its answer, may be longer than `most`; None where all fit.

    A tail without end is another finding.
    """
    lengths = (whole if with_answer else prompt for prompt, whole in longest_of(one))
    return next((place for place, length in enumerate(lengths) if most < length < inf), None)


def _session_class(workload: Workload, name: str, share: float, part: WorkloadClass | None = None) -> SessionClass:
    return SessionClass(
        steps=tuple(_graph(workload.steps) if workload.steps else _turns(workload)),
        name=name,
        share=share,
        continues=workload.continues,
        shared_prefix_tokens=workload.shared_prefix_tokens,
        paired_lengths=workload.paired_lengths,
        bounds=tuple(sorted(part.objectives.items())) if part else (),
        max_context_tokens=workload.max_context_tokens,
        turn_correlation=workload.turn_correlation or 0.0,
    )


def _turns(workload: Workload) -> tuple[Step, ...]:
    sides = workload.input_tokens, workload.output_tokens, workload.first_prompts
    prompts, answers, first_prompts = map(counts_of, sides)
    think = workload.think_time_s, workload.think_time_stddev_s
    return chain(prompts, answers, workload.turns, *think, first_prompts=first_prompts)


def _graph(steps: tuple[WorkloadStep, ...]) -> Iterator[Step]:
    """Each step as often as it is sent; one that comes after several of a name waits for all of them."""
    places: dict[str, tuple[int, ...]] = {}
    count, before = 0, ""
    for step in steps:
        named = step.after if step.after is not None else ((before,) if before else ())
        after = tuple(place for name in named for place in places.get(name, ()))
        prompts, answers = counts_of(step.input_tokens), counts_of(step.output_tokens)
        for _ in range(step.times):
            yield Step(prompts, answers, after, step.pause_s, step.pause_stddev_s, step.name)
        places[step.name] = tuple(range(count, count + step.times))
        count, before = count + step.times, step.name
