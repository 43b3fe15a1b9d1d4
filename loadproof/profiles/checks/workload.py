"""The workload: can it be drawn and sent, and does the server admit it (LP250-LP254, LP367)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Final

from loadproof.profiles.checks.facts import longest_request_limit
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.mixture import (
    counts_of,
    first_above,
    image_tokens_of,
    longest_of,
    merged,
    mixture_of,
    placed_classes,
)
from loadproof.profiles.schema import Profile, TokenDistribution, Workload, WorkloadStep
from loadproof.profiles.tree import Path
from loadproof.token_counts import TOKEN_SIDES

_ARRIVALS_MENDS: Final = {
    "burstiness": "delete it, or write process: gamma",
    "trace": "delete it, or write process: trace",
}


_OF_SESSIONS: Final = (
    "turns", "continues", "max_context_tokens", "first_input_tokens", "turn_correlation", "steps", "classes",
    "shared_prefix_tokens",
)  # fmt: skip
MOST_WAITS: Final = 20_000  # 64 calls that each wait for 64, five times


@rule(
    "LP250",
    "Distribution that cannot be drawn from",
    reason="A mean, a spread and bounds must be there where the distribution needs them, and agree.",
    mend="fixed: mean; normal and lognormal: mean and stddev; uniform: min and max; empirical: values.",
)
def distributions(subject: Subject) -> Iterator[Found]:
    for path, tokens in distributions_of(subject.profile.workload):
        for name, message, mend in _distribution_problems(tokens):
            yield Found((*path, *([name] if name else [])), message, mend)


def distributions_of(workload: Workload) -> Iterator[tuple[Path, TokenDistribution]]:
    """Those of the whole, its steps, its classes and their steps, each with its place."""
    parts: list[tuple[Path, object]] = [(("workload",), workload)]
    parts += [(("workload", "steps", place), step) for place, step in enumerate(workload.steps)]
    for place, one in enumerate(workload.classes):
        parts.append((("workload", "classes", place), one))
        parts += [(("workload", "classes", place, "steps", at), step) for at, step in enumerate(one.steps or ())]
    for path, part in parts:
        for side in TOKEN_SIDES:
            tokens = getattr(part, side, None)  # a step has no first prompt of its own
            if isinstance(tokens, TokenDistribution):
                yield (*path, side), tokens


def _distribution_problems(tokens: TokenDistribution) -> Iterator[tuple[str, str, str]]:
    kind = tokens.distribution
    needed = {"fixed": ("mean",), "uniform": ("max",), "empirical": ("values",)}
    for name in needed.get(kind, ("mean", "stddev")):
        if not getattr(tokens, name):
            yield "", f"{kind} needs `{name}`", f"add `{name}:`"
    useless = {"fixed": ("stddev", "max"), "uniform": ("mean", "stddev"), "empirical": ("mean", "stddev", "min", "max")}
    for name in (*useless.get(kind, ()), *(() if kind == "empirical" else ("values",))):
        if name in tokens.model_fields_set and getattr(tokens, name) not in (None, ()):
            yield name, f"`{name}` has no use with {kind}", "delete it"
    if tokens.max is not None and tokens.min > tokens.max:
        yield "min", f"min {tokens.min} is above max {tokens.max}", f"lower it to at most {tokens.max}"
    elif tokens.mean is not None and kind != "uniform":
        below = tokens.mean < tokens.min
        if below or (tokens.max is not None and tokens.mean > tokens.max):
            bound = f"below min {tokens.min}" if below else f"above max {tokens.max}"
            yield "mean", f"mean {tokens.mean:g} is {bound}", "put it between min and max"


@rule(
    "LP251",
    "Arrivals that lack their rate",
    reason="Open arrivals follow a rate; a closed loop follows benchmark.concurrency and has none.",
    mend="Give requests_per_s with constant, poisson and gamma, burstiness with gamma only, trace with trace.",
)
def arrivals(subject: Subject) -> Iterator[Found]:
    arrivals, benchmark = subject.profile.workload.arrivals, subject.profile.benchmark
    path, process = ("workload", "arrivals"), arrivals.process
    by_rate = process not in ("closed", "trace")
    if by_rate and arrivals.requests_per_s is None:
        yield Found(path, f"{process} needs `requests_per_s`", "add `requests_per_s:`")
    if process == "gamma" and arrivals.burstiness is None:
        yield Found(path, "gamma needs `burstiness`", "add `burstiness:`, 1 for Poisson")
    if process == "trace" and arrivals.trace is None:
        yield Found(path, "trace needs the file of its timestamps", "add `trace:`, a CSV or JSONL file")
    if by_rate and arrivals.from_requests_per_s is not None and benchmark.duration_s is None:
        yield Found((*path, "from_requests_per_s"), "a ramp needs its time", "add `benchmark.duration_s:`")
    for name, count in (("hours", 24), ("days", 7)):
        yield from _shape(
            name, getattr(arrivals, name), count, by_rate=by_rate and arrivals.from_requests_per_s is None
        )
    useless = {"requests_per_s": by_rate, "from_requests_per_s": by_rate, "burstiness": process == "gamma"}
    for name, has_use in (*useless.items(), ("trace", process == "trace")):
        if getattr(arrivals, name) is not None and not has_use:
            mend = _ARRIVALS_MENDS.get(name, "delete it, or write process: poisson")
            yield Found((*path, name), f"`{name}` has no use with {process}", mend)


def _shape(name: str, shape: tuple[float, ...], count: int, *, by_rate: bool) -> Iterator[Found]:
    path = ("workload", "arrivals", name)
    if not shape:
        return
    if not by_rate:
        yield Found(path, f"`{name}` shape a steady rate, and there is none", "delete it, or write process: poisson")
    elif len(shape) != count:
        yield Found(path, f"expected {count} numbers, found {len(shape)}", f"write one for each, {count} in all")
    elif not sum(shape):
        yield Found(path, "all are 0: nothing would be sent", "write shares of the mean rate, such as 0.5 or 2")


@rule(
    "LP252",
    "Requests longer than the server admits",
    reason="Such a request is refused, and the benchmark measures errors.",
    mend="Shorten the workload (give distributions a max), or raise the server's limit.",
)
def request_too_long(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    for side in TOKEN_SIDES:
        tokens = getattr(workload, side)
        cut = side == "output_tokens" and workload.max_context_tokens is not None
        tailed = isinstance(tokens, TokenDistribution) and tokens.distribution in ("normal", "lognormal")
        if isinstance(tokens, TokenDistribution) and tailed and not (tokens.max or cut):
            yield Found(
                ("workload", side), "a tail without end: some requests will be refused", "add `max:`", "warning"
            )
    if not subject.components:
        return
    main = subject.components[0]
    prompt_limit = getattr(main.component.container.settings, "max_input_tokens", None)
    if prompt_limit is not None:
        yield from steps_above(subject.profile, prompt_limit, f"max_input_tokens {prompt_limit:,}", with_answer=False)
    if (limit := longest_request_limit(main)) is not None:
        yield from steps_above(subject.profile, limit[1], f"{limit[1]:,} ({limit[0]})", with_answer=True)


def steps_above(profile: Profile, most: int, limit: str, *, with_answer: bool) -> Iterator[Found]:
    """Steps are sent with all before them: of each class the first that is too long, and how long it is."""
    for path, one in placed_classes(profile.workload, image_tokens_of(profile) or 0):
        place = first_above(one, most, with_answer=with_answer)
        if place is None:
            continue
        step, (prompt, whole) = one.steps[place], longest_of(one)[place]
        pictures = f", {step.image_tokens:,} of them of pictures," if step.image_tokens else ""
        if place == 0 and not step.name:
            prompts = "input_tokens" if one.steps[-1].input_tokens == step.input_tokens else "first_input_tokens"
            side = "output_tokens" if with_answer and prompt <= most else prompts
            answer = f"{prompt:,.0f} prompt{pictures} and {whole - prompt:,.0f} answer tokens exceed {limit}"
            found = answer if with_answer else f"prompts of up to {prompt:,.0f} tokens{pictures} exceed {limit}"
            shorter = "the requests" if with_answer else f"them to {most:,}"
            yield Found((*path, side), found, f"shorten {shorter}, or raise the limit")
            continue
        named = f"step `{step.name}`" if step.name else f"turn {place + 1} of {len(one.steps)}"
        found = (
            f"{named} has {prompt:,.0f} prompt tokens, with all before it{' and pictures' if pictures else ''}, and "
            f"{whole - prompt:,.0f} of answer: over {limit}"
        )
        field = "steps" if step.name else "turns"
        fewer = "shorten it, or raise the limit"
        if place and not step.name:
            fewer = (
                f"at most {place:,}, shorter turns, `max_context_tokens: {most}` where conversations end before they "
                "are longer, or raise the limit"
            )
        yield Found((*path, field), found, fewer)


@rule(
    "LP253",
    "Shared prefix longer than the prompt",
    reason="The prefix is part of the prompt.",
    mend="Lower shared_prefix_tokens below the shortest prompt.",
)
def shared_prefix(subject: Subject) -> Iterator[Found]:
    for path, one in placed_classes(subject.profile.workload):
        first = one.steps[0].input_tokens
        shortest = int(first.mean or first.minimum)
        if one.shared_prefix_tokens > shortest:
            found = f"{one.shared_prefix_tokens} shared tokens exceed prompts of {shortest}"
            yield Found((*path, "shared_prefix_tokens"), found, f"lower it to at most {shortest}")
        elif one.shared_prefix_tokens == shortest and first.distribution == "fixed" and len(one.steps) == 1:
            found = f"all {shortest} tokens of a prompt are shared: every request is the same"
            yield Found((*path, "shared_prefix_tokens"), found, "leave some tokens to the request itself", "warning")


@rule(
    "LP367",
    "Calls that wait for more calls than anybody makes",
    reason="64 calls side by side that each wait for 64 others are 4,096 waits; predicting and sending keep each of "
    "them for every session.",
    mend="Lower `times`, or let a step wait for the one before it alone.",
)
def too_many_waits(subject: Subject) -> Iterator[Found]:
    for path, one in placed_classes(subject.profile.workload):
        waits = sum(len(step.after) for step in one.steps)
        if waits > MOST_WAITS:
            found = f"a session's {len(one.steps):,} calls wait {waits:,} times for another, more than {MOST_WAITS:,}"
            yield Found((*path, "steps"), found, "lower `times`, or what `after` names")


@rule(
    "LP254",
    "Workload whose parts do not go together",
    reason="What has no effect is a misunderstanding: the benchmark would send something else than was meant.",
    mend="Delete the part that has no use, or add the one it needs.",
)
def workload_parts(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    pictures = image_tokens_of(subject.profile) or 0
    for path, part, written in (
        (("workload",), workload, True),
        *(
            (("workload", "classes", place), merged(workload, one), one.max_context_tokens is not None)
            for place, one in enumerate(workload.classes)
        ),
    ):
        yield from _sessions(path, part)
        if part.max_context_tokens is not None and workload.arrivals.process != "trace":
            yield from (one for one in _ends(path, part, pictures) if written or one.severity != "warning")
    if workload.arrivals.process == "trace":
        for name in _OF_SESSIONS:
            if name in workload.model_fields_set and getattr(workload, name) not in ((), 0, 1, None):
                found = f"a trace has each request's own lengths and sessions: `{name}` beside it are not sent"
                yield Found(("workload", name), found, "delete it, or the trace", "warning")
    share = sum(one.share for one in workload.classes)
    if share > 1 + 1e-9:
        yield Found(
            ("workload", "classes"), f"shares add up to {share:g}", "at most 1; what is left is the workload's own"
        )
    names = [one.name for one in workload.classes]
    for place, name in enumerate(names):
        if name in names[:place]:
            yield Found(("workload", "classes", place, "name"), f"a second class `{name}`", "give each its own name")
    if workload.dataset is not None and (workload.classes or workload.steps):
        found = "a dataset is what all requests are: classes and steps go with made prompts"
        yield Found(("workload", "dataset"), found, "delete it, or the classes and steps")
    if workload.paired_lengths:
        yield from _pairs(("workload",), workload)
    for place, one in enumerate(workload.classes):
        for name in sorted(one.model_fields_set):
            if getattr(one, name) is None:
                found = "null takes nothing back: what a class does not write is as the workload's"
                yield Found(
                    ("workload", "classes", place, name), found, "write what it is to be, or delete it", "warning"
                )
        if one.paired_lengths:
            yield from _pairs(("workload", "classes", place), merged(workload, one))
    if workload.dataset is not None and workload.shared_prefix_tokens:
        found = "a shared prefix goes with made prompts, not with a dataset"
        yield Found(("workload", "shared_prefix_tokens"), found, "delete one of them")


def _pairs(path: Path, workload: Workload) -> Iterator[Found]:
    """Paired lengths need as many values of the one as of the other."""
    sides: list[Workload | WorkloadStep] = [workload, *workload.steps]
    counts = [[len(getattr(tokens, "values", ())) for tokens in (one.input_tokens, one.output_tokens)] for one in sides]
    if not any(prompts == answers > 0 for prompts, answers in counts):
        prompts, answers = counts[0]
        found = f"lengths are paired value by value, and there are {prompts} of prompts and {answers} of answers"
        yield Found((*path, "paired_lengths"), found, "give both as many empirical values, or delete it")


def _sessions(path: Path, workload: Workload) -> Iterator[Found]:
    """What has no use in a session, or cannot be one."""
    if workload.think_time_s and workload.turns == 1:
        found = "a think time goes between the turns of a conversation"
        yield Found((*path, "think_time_s"), found, "write `turns: 2` or more, or delete it")
    if workload.think_time_stddev_s and not workload.think_time_s:
        found = "a deviation of a think time that is not there"
        yield Found((*path, "think_time_stddev_s"), found, "add `think_time_s:`, or delete it")
    if workload.continues < 1 and (workload.turns == 1 or workload.steps):
        found = "it is the chance that a conversation goes on, and there is none"
        yield Found((*path, "continues"), found, "write `turns: 2` or more, or delete it")
    if workload.first_input_tokens is not None and (workload.turns == 1 or workload.steps or workload.dataset):
        found = "it is of a conversation's first prompt, beside later turns that are made, and there are none"
        yield Found((*path, "first_input_tokens"), found, "write `turns: 2` or more, or delete it")
    if workload.turn_correlation and (workload.turns == 1 or workload.steps or workload.dataset):
        found = "it is of the turns of a conversation that are made, and there are none"
        yield Found((*path, "turn_correlation"), found, "write `turns: 2` or more, or delete it")
    elif workload.turn_correlation and _never_change(workload):
        found = "lengths that never change are all alike already"
        yield Found((*path, "turn_correlation"), found, "give a distribution of them, or delete it", "warning")
    if workload.steps and workload.turns > 1:
        yield Found((*path, "turns"), "steps stand in place of turns", "delete one of them")
    yield from _graph(path, workload.steps)


def _never_change(workload: Workload) -> bool:
    sides = workload.input_tokens, workload.output_tokens
    return all(counts_of(one).distribution == "fixed" for one in sides)


def _ends(path: Path, workload: Workload, picture_tokens: int) -> Iterator[Found]:
    """Conversations that end before a turn that is too long need room for two, and requests that are made."""
    at, most = (*path, "max_context_tokens"), workload.max_context_tokens or 0
    if workload.steps or workload.dataset is not None:
        found = f"it ends conversations of made prompts, and these are {'steps' if workload.steps else 'a dataset'}"
        yield Found(at, found, "delete it")
        return
    one = mixture_of(workload, picture_tokens).classes[0]
    lengths = longest_of(replace(one, max_context_tokens=None))
    first, longest = lengths[0][0], lengths[-1][1]
    if most <= first < inf:
        found = f"a first prompt, which is always sent, may have {first:,.0f} tokens: {most:,} leave no answer"
        side = "input_tokens" if workload.first_input_tokens is None else "first_input_tokens"
        yield Found(at, found, f"write at least {first + 1:,.0f}, or give {side} a lower `max`")
    elif len(one.steps) > 1 and len(one.expected) == 1:
        yield Found(at, f"no conversation gets to a second turn within {most:,} tokens", "raise it, or delete it")
    elif longest <= most:
        found = f"it ends nothing: the longest session has {longest:,.0f} tokens"
        yield Found(at, found, "lower it, or delete it", "warning")


def _graph(path: Path, steps: tuple[WorkloadStep, ...]) -> Iterator[Found]:
    known: set[str] = set()
    for place, step in enumerate(steps):
        at = (*path, "steps", place)
        if step.name in known:
            yield Found((*at, "name"), f"a second step `{step.name}`", "give each its own name, or write `times:`")
        for number, name in enumerate(step.after or ()):
            if name not in known:
                later = "it stands later" if any(one.name == name for one in steps) else "no such step"
                yield Found((*at, "after", number), f"`{name}`: {later}", f"name one of {', '.join(known) or 'none'}")
        if step.pause_s and not place:
            yield Found((*at, "pause_s"), "nothing comes before the first step", "delete it")
        known.add(step.name)
