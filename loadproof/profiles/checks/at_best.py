"""What hardware could do at best with what is sent: bounds that nothing misses (LP384), days of benchmark (LP385)."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf
from typing import Final

from loadproof.families import FAMILIES
from loadproof.profiles.checks.facts import (
    accelerator_of,
    architecture_of,
    known_instances,
    kv_cache,
    least_answer_s,
    mean_tokens,
    memory_share,
    weight_bytes,
)
from loadproof.profiles.checks.nonsense import MOST_LEVEL_S
from loadproof.profiles.checks.objectives import MOST_FIRST_TOKEN_MS, MOST_MS_A_TOKEN, SLOW_MS_A_TOKEN
from loadproof.profiles.checks.physics import MOST_REQUESTS
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.judging import latencies_of, requests_to_judge
from loadproof.profiles.mixture import longest_of, mixture_of
from loadproof.profiles.schema import Profile
from loadproof.profiles.settings import accelerators_per_copy

# Servers take a few times what the hardware could at best, two to four: five times the slowest of them.
BEYOND: Final = 20.0
# What people notice whatever the hardware: a wait of seconds, and tokens that come more slowly than they read.
NOTICED_MS: Final = {"ttft": 5_000.0, "e2e": 5_000.0, "itl": 1_000.0, "tpot": 250.0}
# Beyond, LP345 tells it whatever the model.
LP345_MS: Final = {
    "ttft": MOST_FIRST_TOKEN_MS,
    "tpot": SLOW_MS_A_TOKEN,
    "itl_p50_ms": SLOW_MS_A_TOKEN,
    "itl": MOST_MS_A_TOKEN,
}
TAIL: Final = 10.0  # times the mean, of lengths without an end
LONG_BENCHMARK_S: Final = 86_400  # a soak, which may last longer, is a phase
MANY_TOKENS: Final = 1_000_000_000  # Bedrock: $35 to $15,000, and most of a day of a million tokens a minute
OFFLOADING: Final = ("CPU_OFFLOAD", "OFFLOAD_GROUP")


@component_rule(
    "LP384",
    "Latency bound that nothing misses",
    reason="What the accelerators could do at best: all requests in flight at once on one copy, their prompts computed "
    "one after another (2 · active parameters · tokens / compute), each step reading weights and caches once (bytes / "
    "bandwidth). Servers take a few times that. A bound of more than 20 times is met by an endpoint that has broken "
    "down, and the verdict says PASS. Up to 5 s of waiting and 250 ms a token are never told: people notice them.",
    mend="Write what a caller would notice: two to four times what `loadproof plan` predicts.",
    severity="warning",
)
def nothing_misses(placed: Placed) -> Iterator[Found]:
    profile = placed.profile
    if not placed.is_main or not _is_closed(profile) or profile.workload.dataset is not None or _is_slower(placed):
        return
    most_ms = slowest_at_best(placed)
    queued = profile.buffer is not None and profile.buffer.enabled  # its time to the first token is a wait
    for one, metric, _ in latencies_of(profile) if most_ms else ():
        most = max(BEYOND * most_ms[metric], NOTICED_MS[metric])
        told = LP345_MS.get(one.name, LP345_MS.get(metric, inf))
        if most < one.bound <= told and not (queued and metric in ("ttft", "e2e")):
            found = f"{one.bound:,.6g} ms, where {_told(most_ms[metric])} ms are what the hardware takes at the least"
            yield Found(one.place, found, f"write at most {most:,.0f}")


def _told(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 10 else f"{milliseconds:.2g}"


def _is_closed(profile: Profile) -> bool:
    """An open load may exceed what is there, and then any bound is missed."""
    benchmark = profile.benchmark
    return profile.workload.arrivals.process == "closed" and not benchmark.phases and benchmark.rate is None


def _is_slower(placed: Placed) -> bool:
    """Weights in the host's memory, or a server that is not ours to read."""
    container = placed.component.container
    return container.family == "custom" or any(word in name for name in container.environment for word in OFFLOADING)


def slowest_at_best(placed: Placed) -> dict[str, float]:
    """Milliseconds by metric on the slowest of the endpoint's instance types; empty where nobody can tell.

    step = (weights + in flight · cache) / bandwidth + 2 · parameters · in flight / compute
    prompts = in flight · (2 · parameters · tokens + 2 · layers · width of heads · tokens²) / compute
    ttft = prompts + step + waits for a place in the batch; tpot = step + prompts / (answer - 1); itl = step + prompts;
    e2e = ttft + (answer - 1) · step
    """
    shape, count = architecture_of(placed.component.model), accelerators_per_copy(placed.component)
    known = [accelerator_of(instance) for _, instance in known_instances(placed.endpoint)]
    if shape is None or not shape.parameters_b or not known:
        return {}
    in_flight, (prompt, answer, shortest) = placed.profile.objectives.at_concurrency, _longest(placed.profile)
    weights = weight_bytes(placed.component.model, shape)
    cache = kv_cache(placed, shape, count).bytes_of(prompt + answer)
    active, slowest = 2 * shape.active_parameters_b * 1e9, dict.fromkeys(("ttft", "tpot", "itl", "e2e"), 0.0)
    for chip in known:
        bandwidth, compute = chip.bandwidth_gb_per_s * 1e9, chip.bf16_tflops * 1e12 * count
        room = (chip.memory_bytes * memory_share(placed.component.container) - weights / count) / max(1.0, cache)
        held = min(in_flight, _batch(placed) or in_flight, int(room))
        if held < 1:
            return {}
        step = 1000 * ((weights / count + held * cache) / bandwidth + active * held / compute)
        quadratic = 2 * shape.layers * shape.heads * shape.head_dim * prompt**2
        prompts = 1000 * in_flight * (active * prompt + quadratic) / compute
        waits = (ceil(in_flight / held) - 1) * answer * step
        ttft = prompts + step + waits
        least = {"ttft": ttft, "itl": step + prompts, "tpot": step + prompts / max(1.0, shortest - 1)}
        least["e2e"] = ttft + answer * step
        slowest = {name: max(value, least[name]) for name, value in slowest.items()}
    return slowest


def _batch(placed: Placed) -> int | None:
    family, settings = FAMILIES[placed.component.container.family], placed.component.container.settings
    most: int | None = family.value(settings, family.sequences_setting)
    return most


def _longest(profile: Profile) -> tuple[float, float, float]:
    """Tokens of the longest prompt, of the longest answer and of the shortest; of tails without end, ten means."""
    prompt, answer, shortest = 1.0, 1.0, inf
    for one in mixture_of(profile.workload).classes:
        means = sum(step.input_tokens.mean + step.output_tokens.mean for step in one.steps)
        longest = max(whole for _, whole in longest_of(one))
        prompt = max(prompt, longest if longest < inf else TAIL * means)
        for counts in (step.output_tokens for step in one.steps):
            fixed = counts.distribution == "fixed"
            answer = max(answer, counts.mean if fixed else counts.maximum or TAIL * counts.mean)
            shortest = min(shortest, counts.mean if fixed else counts.minimum)
    return prompt, answer, shortest if profile.workload.answer_length == "asked" else 1.0


@rule(
    "LP385",
    "Benchmark that takes days",
    reason="Levels are driven one after another, and the endpoint is paid for all the while: at the least requests · "
    "seconds of an answer / in flight each. Bedrock bills each token, and an account's quota is some hundred thousand "
    "to a few million a minute. Hundreds of requests settle a percentile (LP258).",
    mend="Send hundreds of requests a level, or some minutes of them; drive what is to last as one of `phases`.",
    severity="warning",
)
def takes_days(subject: Subject) -> Iterator[Found]:
    profile, benchmark = subject.profile, subject.profile.benchmark
    if not _is_closed(profile):
        return
    levels, at, timed = benchmark.concurrency, profile.objectives.at_concurrency, benchmark.duration_s is not None
    judged = 0 if timed else requests_to_judge(profile) or 0
    requests = [max(benchmark.requests_per_level, judged if level == at else 0) for level in levels]
    widest = max(benchmark.requests_per_level, judged) > benchmark.requests_per_level
    place = ("benchmark", "duration_s" if timed else "requests_at_objectives" if widest else "requests_per_level")
    mean = mean_tokens(profile.workload.first_prompts) + mean_tokens(profile.workload.output_tokens)
    if profile.backend == "bedrock" and not timed and sum(requests) * mean > MANY_TOKENS:
        found = f"{sum(requests):,} requests have {sum(requests) * mean:,.3g} tokens, each of them billed"
        yield Found(place, found, "send hundreds of requests")
    answer_s = least_answer_s(subject.main)
    seconds = len(levels) * (benchmark.duration_s or 0)
    if not timed and answer_s is not None:
        seconds = sum(count * answer_s / level for count, level in zip(requests, levels, strict=True))
    too_many = place[-1] != "duration_s" and max(requests) > MOST_REQUESTS  # LP248's, as LP343's are longer levels
    if seconds > LONG_BENCHMARK_S and not too_many and seconds <= MOST_LEVEL_S * (1 if timed else inf):
        found = f"{len(levels)} levels take {seconds / 86_400:,.1f} days{'' if timed else ' at the least'}"
        yield Found(place, found, "write minutes" if timed else "send hundreds of requests")
