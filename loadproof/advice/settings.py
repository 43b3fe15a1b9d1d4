"""The server settings Loadproof would set: tried one by one, kept where closed form and twin agree that they help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from loadproof.advice.alternatives import SettingAdvice
from loadproof.advice.candidates import copies_at, count_changes
from loadproof.advice.changes import KeyChange, Value, change_to, changed
from loadproof.advice.trial import TwinRun, replay
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.cost import copies_on_instance, cost_of
from loadproof.capacity.curve import PredictedLevel, batch_capacity
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import UNCERTAINTY_GIB, memory_fit
from loadproof.capacity.outlook import outlook_of
from loadproof.capacity.runs import predict_run
from loadproof.capacity.search import ladder
from loadproof.capacity.workload import PlannedWorkload, longest_request_tokens, planned_deployment, planned_workload
from loadproof.families import FAMILIES, UNLIMITED
from loadproof.knee import find_knee
from loadproof.profiles.checks import errors_of
from loadproof.profiles.checks.facts import most_tokens
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Environment, Profile
from loadproof.simulation.replay import replayed

# A figure must move by this much to be worth an edit, and no other may get worse by more than that.
_WORTH = 0.05
_TOLERATED = 0.01
_MISSED = "objectives not surely met"
_MOST_MEMORY_FRACTION = 0.95
_PREFILL_PROMPTS = (1, 2, 4, 8, 16)
_SERVED_RATIOS = (1.2, 0.6, 0.3, 0.2, 0.1)  # of equal gains the mildest is kept


@dataclass(frozen=True, slots=True)
class _Trial:
    """One thing to try; `current` says what an unset key stands for, `why` what it does."""

    changes: tuple[KeyChange, ...]
    current: str
    why: str

    @property
    def key(self) -> KeyChange:
        return self.changes[0]


_Replayed = Literal["refused", "output_tokens_per_s", "ttft_ms", "e2e_ms", "e2e_p90_ms"]
# What may not get worse in the twin, whatever the figure is that gets better.
_WATCHED: tuple[_Replayed, ...] = ("output_tokens_per_s", "ttft_ms", "e2e_ms")


@dataclass(frozen=True, slots=True)
class _Figure:
    """`decisive`: while it improves no other figure counts, since other requests are then compared, or none.

    `replayed` is the twin's figure of the same name at `concurrency` in flight; None: it has none of its own.
    """

    name: str
    value: float
    more_is_better: bool = False
    digits: int = 0
    decisive: bool = False
    concurrency: int = 0
    replayed: _Replayed | None = None

    def gain(self, other: _Figure) -> float:
        """Relative improvement from self to `other`; from nothing to something is infinite."""
        better, worse = (other.value, self.value) if self.more_is_better else (self.value, other.value)
        if better == worse:
            return 0.0
        return better / worse - 1 if worse > 0 else float("inf")


def advise(profile: Profile, environment: Environment | None = None) -> tuple[SettingAdvice, ...]:
    """Settings to change, in the order they were tried, each judged on top of those before it.

    Of the values tried for one setting, that with the largest gain is kept, and only where some predicted figure gains
    5% and none loses more than 1%, and only where the twin, given the same requests, sees the same figure gain and no
    other lose 5%. Running the advice again on the advised profile finds nothing.
    """
    found: list[SettingAdvice] = []
    for trials_for in (
        _lengths,
        _batching,
        _memory_fraction,
        _copies,
        _admission,
        _sequences,
        _prefix_cache,
        _prefill_tokens,
        _ratio,
    ):
        advice = _best(profile, list(trials_for(profile, planned_deployment(profile))), environment)
        if advice is not None:
            found.append(advice)
            profile = changed(profile, advice.changes)
    return tuple(found)


def _best(profile: Profile, trials: list[_Trial], environment: Environment | None) -> SettingAdvice | None:
    if not trials:
        return None
    before = _figures(profile)
    found: list[tuple[float, _Trial, _Figure, _Figure]] = []
    for trial in trials:
        if not trial.changes or errors_of(tried := changed(profile, trial.changes), environment):
            continue
        after = _figures(tried)
        gains = {name: figure.gain(after[name]) for name, figure in before.items() if name in after}
        gains = {name: gain for name, gain in gains.items() if before[name].decisive and gain > 0} or gains
        if gains.get(_MISSED, 0.0) > _WORTH:  # worth an edit, but a figure in its own unit says more
            gains[_MISSED] = _WORTH
        if not gains or min(gains.values()) < -_TOLERATED:
            continue
        name = max(gains, key=lambda metric: gains[metric])
        if gains[name] >= _WORTH:
            found.append((gains[name], trial, before[name], after[name]))
    while found:
        # Of equal gains the first that was tried is the mildest.
        most = max(gain for gain, *_ in found)
        chosen = next(row for row in found if row[0] * (1 + _TOLERATED) >= most)
        _, trial, figure, improved = chosen
        if _twin_agrees(profile, changed(profile, trial.changes), improved):
            return _advice(trial, figure, improved)
        found.remove(chosen)
    return None


def _twin_agrees(profile: Profile, tried: Profile, figure: _Figure) -> bool:
    """The twin sees `figure` gain, and nothing watched lose, by more than a prediction can tell apart.

    Where the profile does not fit as it is, or the figure is the outlook's, there is no figure to see gain.
    """
    if not figure.concurrency:
        return True
    before, after = replay(profile, figure.concurrency), replay(tried, figure.concurrency)
    if figure.decisive:
        return after.refused < before.refused
    seen = figure.replayed is None or _replayed_gain(before, after, figure.replayed) >= _WORTH
    return seen and all(_replayed_gain(before, after, name) >= -_WORTH for name in _WATCHED)


def _replayed_gain(before: TwinRun, after: TwinRun, name: _Replayed) -> float:
    old, new = (getattr(run, name) for run in (before, after))
    if old is None or new is None:  # nothing is served by one of them
        return float("-inf") if new is None else float("inf")
    return _Figure(name, old, more_is_better=name == "output_tokens_per_s").gain(_Figure(name, new))


def _advice(trial: _Trial, before: _Figure, after: _Figure) -> SettingAdvice:
    digits = before.digits
    reason = f"{trial.why}: {before.name} goes from {before.value:,.{digits}f} to {after.value:,.{digits}f}"
    return SettingAdvice(
        setting=trial.key.name,
        current=trial.current,
        proposed=_shown(trial.key.after),
        metric=before.name,
        before=before.value,
        after=after.value,
        reason=reason,
        changes=trial.changes,
    )


def _figures(profile: Profile) -> dict[str, _Figure]:
    """What a setting may move. Where the model does not fit, only memory counts."""
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    memory = memory_fit(deployment)
    short = _Figure("GiB short of fitting for sure", max(0.0, UNCERTAINTY_GIB - memory.margin_gib), False, 1, True)
    found = {short.name: short}
    level = workload.level(deployment, profile.objectives.at_concurrency) if memory.fits == "yes" else None
    if level is not None:
        found |= {figure.name: figure for figure in _at_level(profile, deployment, workload, level)}
    return found


def _at_level(
    profile: Profile, deployment: PlannedDeployment, workload: PlannedWorkload, level: PredictedLevel
) -> Iterator[_Figure]:
    at = level.concurrency
    figure = partial(_Figure, concurrency=at)
    yield figure(f"requests refused at {at} in flight", level.refused, decisive=True, replayed="refused")
    highest = max((at, *profile.benchmark.concurrency))
    more = partial(_Figure, more_is_better=True, replayed="output_tokens_per_s")
    if (top := workload.level(deployment, highest)) is not None and highest != at:
        name = f"requests refused at {highest} in flight"
        yield _Figure(name, top.refused, decisive=True, concurrency=highest, replayed="refused")
        yield more(f"output tokens/s at {highest} in flight", top.output_tokens_per_s, concurrency=highest)
    yield figure(f"mean TTFT in ms at {at} in flight", level.ttft_ms, replayed="ttft_ms")
    yield figure(f"E2E in ms at {at} in flight", level.e2e_ms, replayed="e2e_ms")
    knee, rate = _knee(deployment, workload)
    yield more("output tokens/s at the knee", rate, concurrency=knee)
    if deployment.limits.scheduler == "prefill_first" and not workload.staggered:
        # Equal requests are replayed one by one: what admission does to them no closed form knows.
        run = predict_run(deployment, workload.input_tokens, workload.output_tokens, at)
        if run is not None:
            yield figure(f"p90 latency in ms of a run at {at} in flight", run.latency_p90_ms, replayed="e2e_p90_ms")
            yield more(f"output tokens/s of a run at {at} in flight", run.output_tokens_per_s, concurrency=at)
    promises, confidence = promises_of(profile), confidence_of(deployment, workload.turns, workload.input_tokens)
    judged = replayed(workload).level(deployment, at) if any(one.part for one in promises) else level
    rows = outlook_of(promises, judged, workload, confidence)
    yield figure(_MISSED, sum(row.expected != "meets" for row in rows))


def _knee(deployment: PlannedDeployment, workload: PlannedWorkload) -> tuple[int, float]:
    """(requests in flight, output tokens/s); (0, 0.0) where there is none."""
    climbed = ladder(partial(workload.level, deployment), deployment, unit=deployment.copies)
    knee = find_knee([(row.concurrency, row.output_tokens_per_s, row.e2e_ms) for row in climbed])
    return (knee.concurrency, knee.output_tokens_per_s or 0.0) if knee else (0, 0.0)


def _lengths(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """The longest request: only where its KV cache does not fit as things are."""
    name, longest = FAMILIES[deployment.family].longest_setting, longest_request_tokens(profile)
    if name is None or longest is None or memory_fit(deployment).fits == "yes":
        return
    rounded = -(-longest // 256) * 256
    context = deployment.limits.max_request_tokens
    yield _setting(
        profile,
        name,
        min(rounded, context) if context else rounded,
        f"unset: {context:,} tokens" if context else "unset",
        f"the workload's longest request takes {longest:,} tokens",
    )


def _batching(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """Continuous batching in place of dynamic: the fields of the other kind go (LP231)."""
    container, mended = profile.container, FAMILIES[deployment.family].continuous_batching
    if container is None or deployment.limits.scheduler != "dynamic" or not mended:
        return
    changes = [
        change
        for name, value in mended.items()
        for change in change_to(profile, ("container", "settings", name), value)
    ]
    now = _shown(getattr(container.settings, next(iter(mended))))
    yield _Trial(tuple(changes), now, "requests join a running batch instead of waiting for the next one")


def _memory_fraction(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """More of the memory for KV cache, where it is what requests wait for."""
    name = FAMILIES[deployment.family].memory_setting
    if name is None or deployment.memory_fraction >= _MOST_MEMORY_FRACTION:
        return
    yield _setting(
        profile, name, _MOST_MEMORY_FRACTION, f"unset: {deployment.memory_fraction:g}", "more memory becomes KV cache"
    )


def _copies(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """As many copies as the instances that are paid for take."""
    instances = cost_of(profile, deployment).instances_min
    room = copies_on_instance(profile, deployment.instance, deployment.accelerators)
    endpoint = profile.endpoint
    if endpoint is None or endpoint.hosting == "plain_variant" or profile.components or profile.copies.min == 0:
        return
    copies = copies_at(profile, room, max(1, instances))
    if copies > profile.copies.min:
        changes = tuple(
            change for change in count_changes(profile, room, max(1, instances)) if change.path[0] == "copies"
        )
        machines = "1 instance" if instances == 1 else f"{instances} instances"
        yield _Trial(
            changes, str(profile.copies.min), f"{machines} of {deployment.instance.instance_type} take {copies}"
        )


def _admission(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """Admit what the objectives and the benchmark send."""
    if deployment.limits.max_admitted_requests >= UNLIMITED:
        return
    wanted = -(-max((profile.objectives.at_concurrency, *profile.benchmark.concurrency)) // deployment.copies)
    if wanted <= deployment.limits.max_admitted_requests:
        return
    admission = FAMILIES[deployment.family].admission
    if admission is not None:
        value = wanted - deployment.limits.max_sequences if admission.beside_batch else wanted
        unset = f"unset: {admission.default:,}"
        yield _setting(profile, admission.setting, value, unset, "every request in flight is admitted")


def _sequences(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """As many places in the batch as a copy is sent requests, where the limit, not the memory, ends it."""
    name = FAMILIES[deployment.family].sequences_setting
    workload = planned_workload(profile)
    now = deployment.limits.max_sequences
    if name is None or batch_capacity(deployment, workload.input_tokens, workload.output_tokens) < now:
        return
    wanted = -(-max((profile.objectives.at_concurrency, *profile.benchmark.concurrency)) // deployment.copies)
    if wanted > now:
        power = 1 << (wanted - 1).bit_length()
        yield _setting(profile, name, power, f"unset: {now:,}", "requests in flight run together instead of queueing")


def _prefix_cache(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """Shared prompts are computed once. Written down, the plan can count on it."""
    shared = profile.workload.shared_prefix_tokens
    if shared and "enable_prefix_caching" in FAMILIES[deployment.family].setting_variables:
        yield _setting(
            profile,
            "enable_prefix_caching",
            True,
            "unset: the server's own default",
            f"{shared:,} shared tokens of each prompt are computed once",
        )


def _prefill_tokens(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """How many prompts one step prefills."""
    name = FAMILIES[deployment.family].step_tokens_setting
    if name is None:
        return
    prompt = most_tokens(profile.workload.first_prompts) or planned_workload(profile).input_tokens
    now = deployment.limits.step_prefill_tokens
    for prompts in _PREFILL_PROMPTS:
        tokens = -(-prompt * prompts // 256) * 256
        # A chunked scheduler's answers share the step: what fewer tokens than its default do to them is not modelled.
        if tokens > now or (tokens < now and deployment.limits.scheduler == "prefill_first"):
            yield _setting(profile, name, tokens, f"unset: {now:,}", f"a step prefills up to {tokens:,} prompt tokens")


def _ratio(profile: Profile, deployment: PlannedDeployment) -> Iterator[_Trial]:
    """When decoding is interrupted for waiting prompts."""
    if "waiting_served_ratio" not in FAMILIES[deployment.family].setting_variables:
        return
    now = deployment.limits.waiting_served_ratio
    for ratio in _SERVED_RATIOS:
        if ratio != now:
            why = f"a batch is interrupted for {ratio:g} times its size in waiting requests"
            yield _setting(profile, "waiting_served_ratio", ratio, f"unset: {now:g}", why)


def _setting(profile: Profile, name: str, value: Value, unset: str, why: str) -> _Trial:
    settings = profile.container and profile.container.settings
    now = getattr(settings, name, None)
    return _Trial(
        change_to(profile, ("container", "settings", name), value), unset if now is None else _shown(now), why
    )


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
