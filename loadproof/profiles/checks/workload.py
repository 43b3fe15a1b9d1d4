"""The workload: can it be drawn and sent, and does the server admit it (LP250-LP254)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.facts import longest_request_limit, most_tokens
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.conversation import first_turn_above, prompt_tokens
from loadproof.profiles.schema import TokenDistribution

_ARRIVALS_MENDS: Final = {
    "burstiness": "delete it, or write process: gamma",
    "trace": "delete it, or write process: trace",
}


_SIDES: Final = ("input_tokens", "output_tokens")


@rule(
    "LP250",
    "Distribution that cannot be drawn from",
    reason="A mean, a spread and bounds must be there where the distribution needs them, and agree.",
    mend="fixed: mean; normal and lognormal: mean and stddev; uniform: min and max; empirical: values.",
)
def distributions(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    for side in _SIDES:
        tokens = getattr(workload, side)
        if isinstance(tokens, TokenDistribution):
            for name, message, mend in _distribution_problems(tokens):
                yield Found(("workload", side, *([name] if name else [])), message, mend)


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
    useless = {"requests_per_s": by_rate, "from_requests_per_s": by_rate, "burstiness": process == "gamma"}
    for name, has_use in (*useless.items(), ("trace", process == "trace")):
        if getattr(arrivals, name) is not None and not has_use:
            mend = _ARRIVALS_MENDS.get(name, "delete it, or write process: poisson")
            yield Found((*path, name), f"`{name}` has no use with {process}", mend)


@rule(
    "LP252",
    "Requests longer than the server admits",
    reason="Such a request is refused, and the benchmark measures errors.",
    mend="Shorten the workload (give distributions a max), or raise the server's limit.",
)
def request_too_long(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    prompt, answer = most_tokens(workload.input_tokens), most_tokens(workload.output_tokens)
    for side, most in zip(_SIDES, (prompt, answer), strict=True):
        tokens = getattr(workload, side)
        if most is None and isinstance(tokens, TokenDistribution) and tokens.distribution in ("normal", "lognormal"):
            yield Found(
                ("workload", side), "a tail without end: some requests will be refused", "add `max:`", "warning"
            )
    if not subject.components or prompt is None:
        return
    main, turns = subject.components[0], workload.turns
    prompt_limit = getattr(main.component.container.settings, "max_input_tokens", None)
    if prompt_limit is not None and prompt > prompt_limit:
        found = f"prompts of up to {prompt} tokens exceed max_input_tokens {prompt_limit}"
        yield Found(("workload", "input_tokens"), found, f"shorten them to {prompt_limit}, or raise the setting")
    elif prompt_limit is not None and answer is not None:
        turn = first_turn_above(prompt_limit, turns, prompt, answer, with_answer=False)
        if turn is not None:
            found = _growth(turn, turns, prompt, answer, f"over max_input_tokens {prompt_limit}")
            yield Found(("workload", "turns"), found, f"at most {turn - 1:,}, shorter turns, or raise the setting")
    limit = longest_request_limit(main)
    if limit is not None and answer is not None and prompt + answer > limit[1]:
        found = f"{prompt} prompt and {answer} answer tokens exceed {limit[1]} ({limit[0]})"
        yield Found(("workload", "output_tokens"), found, "shorten the requests, or raise the limit")
    elif limit is not None and answer is not None:
        turn = first_turn_above(limit[1], turns, prompt, answer, with_answer=True)
        if turn is not None:
            found = _growth(turn, turns, prompt, answer, f"over {limit[1]:,} ({limit[0]})")
            yield Found(("workload", "turns"), found, f"at most {turn - 1:,}, shorter turns, or raise the limit")


def _growth(turn: int, turns: int, prompt: int, answer: int, limit: str) -> str:
    """Turns are sent with all before them: which is the first too long, and how long it is."""
    tokens = prompt_tokens(turn, prompt, answer)
    return f"turn {turn} of {turns} has {tokens:,} prompt tokens, with all before it, and {answer:,} of answer: {limit}"


@rule(
    "LP253",
    "Shared prefix longer than the prompt",
    reason="The prefix is part of the prompt.",
    mend="Lower shared_prefix_tokens below the shortest prompt.",
)
def shared_prefix(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    tokens = workload.input_tokens
    shortest = tokens if isinstance(tokens, int) else int(tokens.mean or tokens.min)
    if workload.shared_prefix_tokens > shortest:
        found = f"{workload.shared_prefix_tokens} shared tokens exceed prompts of {shortest}"
        yield Found(("workload", "shared_prefix_tokens"), found, f"lower it to at most {shortest}")


@rule(
    "LP254",
    "Workload whose parts do not go together",
    reason="What has no effect is a misunderstanding: the benchmark would send something else than was meant.",
    mend="Delete the part that has no use, or add the one it needs.",
)
def workload_parts(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    if workload.think_time_s and workload.turns == 1:
        found = "a think time goes between the turns of a conversation"
        yield Found(("workload", "think_time_s"), found, "write `turns: 2` or more, or delete it")
    if workload.paired_lengths:
        counts = [len(getattr(one, "values", ())) for one in (workload.input_tokens, workload.output_tokens)]
        if not counts[0] or counts[0] != counts[1]:
            found = (
                f"lengths are paired value by value, and there are {counts[0]} of prompts and {counts[1]} of answers"
            )
            yield Found(("workload", "paired_lengths"), found, "give both as many empirical values, or delete it")
    if workload.dataset is not None and workload.shared_prefix_tokens:
        found = "a shared prefix goes with made prompts, not with a dataset"
        yield Found(("workload", "shared_prefix_tokens"), found, "delete one of them")
