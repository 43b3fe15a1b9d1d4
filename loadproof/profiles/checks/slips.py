"""Slips of a unit, a bound or a digit that leave a profile well formed (LP349-LP353), found by reading mutants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.facts import least_answer_s
from loadproof.profiles.checks.nonsense import FAR_TOO_MANY, MOST_TARGET, MOST_WAIT_S
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.checks.workload import distributions_of
from loadproof.profiles.tree import Path

MOST_SCALE_OUT_WAIT_S, MOST_SCALE_IN_WAIT_S = 1_800, 14_400
MOST_BACKLOG_S: Final = 3_600
LEAST_COOLDOWN_S: Final = 10  # period of the finest metric: SageMaker's ConcurrentRequestsPerCopy
LEAST_SPREAD_TOKENS: Final = 0.5
NARROWEST_HEADS, WIDEST_HEADS = 0.5, 4  # times the model's width
MOST_POSITIONS: Final = 100_000_000
LEAST_VOCABULARY: Final = 256


@component_rule(
    "LP349",
    "Cooldown in another unit",
    reason="Who waits half an hour after a copy came leaves the requests that it could not carry waiting as long; less "
    "than ten seconds end before the metric has another point, and are none: minutes or milliseconds were meant. "
    "With none at all in either direction each point of the metric moves the count, before a copy that came serves.",
    mend="Write seconds: 10 to 1,800 before further copies come, 10 to 14,400 before some go, or 0 for none of one.",
    severity="warning",
)
def cooldown_of_another_unit(placed: Placed) -> Iterator[Found]:
    scaling, to_zero = placed.component.scaling, placed.to_zero
    fewer = placed.profile.endpoint.scale_in if placed.is_main and placed.profile.endpoint is not None else None
    if fewer is not None and fewer.cooldown_min * 60 > MOST_SCALE_IN_WAIT_S:
        found = f"{fewer.cooldown_min:,} minutes before an empty instance may go, paid for"
        yield Found(("endpoint", "scale_in", "cooldown_min"), found, f"write at most {MOST_SCALE_IN_WAIT_S // 60}")
    if to_zero is not None and to_zero.wake_cooldown_s != "auto":
        place = placed.at("scaling", "to_zero", "wake_cooldown_s")
        yield from _wait(place, to_zero.wake_cooldown_s, adds=True)
    for at, policy in enumerate(scaling.policies if scaling is not None else ()):
        adds = any(step.add_copies > 0 for step in getattr(policy, "steps", ())) or getattr(policy, "add_copies", 0) > 0
        for name in ("scale_out_cooldown_s", "scale_in_cooldown_s", "cooldown_s"):
            seconds, place = getattr(policy, name, "auto"), placed.at("scaling", "policies", at, name)
            if name == "scale_in_cooldown_s" and seconds == getattr(policy, "scale_out_cooldown_s", None) == 0:
                yield Found(place, "no cooldown in either direction", "write 300, or auto")
            elif not isinstance(seconds, str):
                out = name == "scale_out_cooldown_s" or (name == "cooldown_s" and adds)
                yield from _wait(place, seconds, adds=out)


def _wait(place: Path, seconds: int, *, adds: bool) -> Iterator[Found]:
    if 0 < seconds < LEAST_COOLDOWN_S:
        yield Found(place, f"{seconds} s end before the metric has another point", "write at least 10, or 0")
    if adds and MOST_SCALE_OUT_WAIT_S < seconds <= MOST_WAIT_S:
        found = f"{seconds:,} s before another copy may come are {seconds / 3600:.1f} hours"
        yield Found(place, found, f"write seconds, at most {MOST_SCALE_OUT_WAIT_S:,}, or auto")
    elif MOST_SCALE_IN_WAIT_S < seconds <= MOST_WAIT_S:
        found = f"{seconds:,} s before a copy may go are {seconds / 3600:.1f} hours, paid for"
        yield Found(place, found, "write seconds, at most 14,400, or auto")


@rule(
    "LP350",
    "Spread that its bounds cannot hold",
    reason="Counts from min to max around a mean spread by sqrt((mean - min)(max - mean)) at most (Bhatia and Davis), "
    "half of them at either end. What is drawn is cut to the bounds: it has another mean than the one written. And "
    "tokens are whole: a spread of less than half a token is none.",
    mend="Lower stddev, or widen min and max.",
    severity="warning",
)
def spread_beyond_bounds(subject: Subject) -> Iterator[Found]:
    for path, tokens in distributions_of(subject.profile.workload):
        mean, stddev, least, most = tokens.mean, tokens.stddev, tokens.min, tokens.max
        if tokens.distribution not in ("normal", "lognormal") or mean is None or stddev is None:
            continue
        if stddev < LEAST_SPREAD_TOKENS:
            yield Found((*path, "stddev"), f"{stddev:g} tokens: every draw is the same", "write distribution: fixed")
        if most is None or not least <= mean <= most:
            continue
        widest = ((mean - least) * (most - mean)) ** 0.5
        if stddev > widest:
            found = (
                f"{stddev:,.6g} around {mean:,.6g}; counts from {least:,} to {most:,} spread by {widest:,.0f} at most"
            )
            yield Found((*path, "stddev"), found, "lower it, or widen min and max")


@component_rule(
    "LP351",
    "Batch that is waited for beyond the objective",
    reason="A batch that is not full is held back that long before it begins: its first request has missed its bound "
    "by then.",
    mend="Write milliseconds, well below the bound: some tens.",
    severity="warning",
)
def batch_waits_too_long(placed: Placed) -> Iterator[Found]:
    delay_ms = getattr(placed.component.container.settings, "max_batch_delay_ms", None) or 0
    for name, bound_ms in placed.profile.objectives.bounds.items():
        if name.startswith(("ttft_", "e2e_")) and delay_ms >= bound_ms:
            found = f"{delay_ms:,} ms are not within {name}, {bound_ms:g} ms"
            yield Found(
                placed.at("container", "settings", "max_batch_delay_ms"), found, "write some tens of milliseconds"
            )
            return


@component_rule(
    "LP352",
    "Shape that no model has",
    reason="Rotary embeddings turn a head's dimensions in pairs; a model's heads are together half to four times as "
    "wide as it is (0.76 times in Gemma 3 27B, 3.4 times in DeepSeek-V3); the longest published context is 10,485,760 "
    "tokens (Llama 4 Scout); fewer than 256 tokens cannot write every byte. What is planned is another model's.",
    mend="Copy the numbers from the model's config.json.",
    severity="warning",
)
def shape_of_no_model(placed: Placed) -> Iterator[Found]:
    shape = placed.component.model.architecture
    if shape is None:
        return
    place, mend = placed.at("model", "architecture"), "copy it from config.json"
    heads = shape.num_attention_heads * shape.head_dim
    if shape.head_dim % 2:
        yield Found((*place, "head_dim"), f"{shape.head_dim} is odd", mend)
    if not shape.hidden_size * NARROWEST_HEADS <= heads <= shape.hidden_size * WIDEST_HEADS:
        found = f"{shape.num_attention_heads} heads of {shape.head_dim} in a model {shape.hidden_size:,} wide"
        yield Found((*place, "head_dim"), found, mend)
    if shape.max_position_embeddings > MOST_POSITIONS:
        found = f"a context of {shape.max_position_embeddings:,} tokens"
        yield Found((*place, "max_position_embeddings"), found, mend)
    if shape.vocab_size < LEAST_VOCABULARY:
        yield Found((*place, "vocab_size"), f"{shape.vocab_size} tokens cannot write every byte", mend)


@component_rule(
    "LP353",
    "Copies that come long after what is proven",
    reason="The objectives are proven at objectives.at_concurrency. Where one copy is to carry more than ten times "
    "that before another comes, nobody knows how slow it is by then; nor does anybody wait an hour for the messages "
    "before his, which is what a backlog takes at the least (messages · seconds of an answer / at_concurrency).",
    mend="Lower the target, write auto, or prove the objectives at a higher at_concurrency.",
    severity="warning",
)
def target_beyond_proof(placed: Placed) -> Iterator[Found]:
    scaling, proven = placed.component.scaling, placed.profile.objectives.at_concurrency
    for at, policy in enumerate(scaling.policies if scaling is not None else ()):
        target, metric = getattr(policy, "target", "auto"), str(getattr(policy, "metric", ""))
        if isinstance(target, str):
            continue
        wait_s = target * (least_answer_s(placed) or 0) / proven if metric == "backlog_per_copy" else 0
        if wait_s > MOST_BACKLOG_S and placed.is_main:
            found = f"a copy works at {target:,.6g} messages for {wait_s / 3600:,.1f} hours at the least"
            yield Found(placed.at("scaling", "policies", at, "target"), found, "write what it does in minutes, or auto")
        if metric == "concurrent_requests_per_copy" and FAR_TOO_MANY * proven < target <= MOST_TARGET:
            found = f"{target:g} requests a copy; the objectives are proven at {proven:,} in all"
            yield Found(placed.at("scaling", "policies", at, "target"), found, "lower it, or raise at_concurrency")
