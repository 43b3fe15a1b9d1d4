"""Rules about objectives, their evidence, who is told, and cost (LR05x)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.pages.wording import counted
from loadproof.profiles import profile_hash
from loadproof.profiles.promises import promises_of
from loadproof.review.model import ObjectiveChange, Severity
from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import ALARM, SCALING_POLICY
from loadproof.review.rules.words import label, listing
from loadproof.templates.template import listed
from loadproof.usd import HOURS_A_MONTH

_ALARMS: Final = (ALARM, "AWS::CloudWatch::CompositeAlarm")
_OWN_BOUND: Final = re.compile(r"workload\.classes\[[^]]*\]\.objectives\b")  # of a class: no request changes by it
_GATES: Final = ("none", "alarm", "rollback")  # the strictest last
_COMMITTED: Final = {"one_month": "a month", "six_months": "six months"}


@rule(
    "LR050",
    "Objective predicted to be missed",
    reason="What the endpoint promises is predicted not to hold after this change, and was before.",
    mend="More copies, a larger instance, other server settings (`loadproof plan` lists them), or an objective that "
    "says what is wanted now.",
    source="the planner (docs/how-the-planner-works.md): predicted, with its grade",
    severity="risk",
)
def predicted_miss(change: Change) -> Iterator[Found]:
    for one, grade in _newly(change, "misses", unless=("misses",)):
        message = f"{_figures(one)}: predicted to be missed"
        yield Found(one.path, message, "see `loadproof plan` for what would hold it", evidence=grade)


@rule(
    "LR051",
    "Objective in doubt",
    reason="The bound lies inside the interval of the prediction: it may hold or not. Before, it was predicted to.",
    mend="Benchmark before the change goes to production (`loadproof bench`), or leave more room.",
    source="the planner (docs/how-the-planner-works.md): predicted, with its grade",
    severity="warning",
)
def in_doubt(change: Change) -> Iterator[Found]:
    for one, grade in _newly(change, "near", unless=("near", "misses", "unknown")):
        message = f"{_figures(one)}: it may hold or not"
        yield Found(one.path, message, "benchmark it before production", evidence=grade)


@rule(
    "LR052",
    "Objective loosened or removed",
    reason="A promise to the callers becomes weaker: a PASS afterwards says less than one before.",
    mend="Agree with the callers, and say so in the pull request.",
    source="the objectives of both profiles",
    severity="warning",
)
def loosened(change: Change) -> Iterator[Found]:
    if change.profiles is None:
        return
    before, after = (profile.objectives for profile in change.profiles)
    olds, news = ({one.label: one for one in promises_of(profile)} for profile in change.profiles)
    mend = "agree with those who rely on it"
    if after.at_concurrency < before.at_concurrency:
        message = f"promised at {after.at_concurrency} requests in flight, until now at {before.at_concurrency}"
        yield Found("objectives.at_concurrency", message, mend)
    for named, old in olds.items():
        new = news.get(named)
        if new is None:
            yield Found(old.path, f"`{named}` of {old.bound:g} is promised no more", mend)
        elif (new.bound < old.bound) if old.name.endswith("_min") else (new.bound > old.bound):
            yield Found(new.path, f"`{named}` may be {new.bound:g}, until now {old.bound:g}", mend)


@rule(
    "LR053",
    "Evidence goes stale",
    reason="The newest measured run is of the profile as it was: nothing measured speaks for what this deploys.",
    mend="Benchmark after the deployment (`loadproof bench`), or let a gate do it.",
    source="the hash of the profile that a run stores",
    severity="info",
)
def evidence_stale(change: Change) -> Iterator[Found]:
    run, before = change.context.evidence.run, change.before.profile
    if change.context.evidence.state != "stale" or run is None or before is None or change.after.profile is None:
        return
    if run.profile_sha256 == profile_hash(before):  # else it was stale already
        message = f"run {run.run_id} ({run.verdict}) measured the profile as it was before this change"
        yield Found("", message, "benchmark after the deployment")


@rule(
    "LR054",
    "Costs at least twice as much",
    reason="What runs always is paid always; what may run is what a busy month costs. "
    "(Smaller changes are in the table of costs.)",
    mend="Compare with `loadproof plan --alternatives`, or say in the pull request what it is for.",
    source="on-demand prices of the catalog, with source and date in the review's table of costs",
    severity="warning",
)
def cost_doubles(change: Change) -> Iterator[Found]:
    if change.profiles is None:
        return
    reported = []
    for one in change.context.costs:
        before = one.before.usd_per_hour if one.before else None
        after = one.after.usd_per_hour if one.after else None
        if one.at == "expected" or before is None or after is None or after <= 0 or after < 2 * before:
            continue
        word = "at the least" if one.at == "minimum" else "at the most"
        reported.append(f"${after * HOURS_A_MONTH:,.0f} a month {word} (until now ${before * HOURS_A_MONTH:,.0f})")
    if reported:
        subject = change.field("endpoint", "copies", "scaling", "components", otherwise="endpoint")
        yield Found(subject, ", ".join(reported), "say what it is for, or compare with `loadproof plan`")


@rule(
    "LR055",
    "Promised for other requests",
    reason="Objectives hold for the workload they stand beside. With another one, figures before and after cannot be "
    "compared, and callers who send the old requests were promised something else.",
    mend="Check that the workload is what callers really send.",
    source="the workloads of both profiles",
    severity="info",
)
def other_workload(change: Change) -> Iterator[Found]:
    changed = [
        one for one in change.context.fields if one.path.startswith("workload.") and not _OWN_BOUND.match(one.path)
    ]
    if changed and change.profiles is not None:
        shown = listing(
            [f"{one.path.removeprefix('workload.')} {_word(one.before)} → {_word(one.after)}" for one in changed]
        )
        message = f"the objectives now hold for other requests: {shown}"
        yield Found(changed[0].path, message, "check that callers send such requests")


@rule(
    "LR056",
    "Gate weakened",
    reason="The gate benchmarks each deployment and turns a bad one back; without it a missed objective stays in "
    "production until somebody sees it.",
    mend="Keep the gate; to deploy once without it, say so in the pull request and put it back after.",
    source="docs/gate.md, on what the gate does after a deployment",
    severity="risk",
)
def gate_weakened(change: Change) -> Iterator[Found]:
    if change.profiles is None:
        return
    before, after = (profile.benchmark for profile in change.profiles)
    if _GATES.index(after.gate) < _GATES.index(before.gate):
        does = {"none": "is not seen", "alarm": "only raises an alarm"}[after.gate]
        message = f"`gate: {before.gate}` becomes `gate: {after.gate}`: a missed objective {does}"
        yield Found("benchmark.gate", message, "keep the gate")
    elif after.gate == "rollback" and (before.gate_unproven, after.gate_unproven) == ("rollback", "alarm"):
        message = "a benchmark that proves nothing no longer rolls the deployment back"
        yield Found("benchmark.gate_unproven", message, "keep gate_unproven: rollback")


@rule(
    "LR057",
    "Fewer alarms, or nobody notified",
    reason="What no alarm watches, or what tells nobody, is found by the callers.",
    mend="Keep the alarm and the topic it tells.",
    source="the alarms of both templates",
    severity="warning",
)
def alarms_lost(change: Change) -> Iterator[Found]:
    if change.field("endpoint.hosting", "backend"):
        return
    gone = [one for one in change.resources(*_ALARMS, action="remove") if _watches(change, one.logical_id)]
    if gone:
        names = listing([label(change.old(one)) for one in gone])
        message = f"{counted(len(gone), 'alarm')} removed: {names}"
        subject = change.field("buffer.enabled", "objectives", otherwise=gone[0].logical_id)
        yield Found(subject, message, "keep what watches the endpoint")
    silent = [
        one
        for one in change.resources(*_ALARMS, action="update")
        if _tells(change.before, one.logical_id) and not _tells(change.after, one.logical_id)
    ]
    if silent:
        verb = "tells" if len(silent) == 1 else "tell"
        message = f"{listing([label(change.old(one)) for one in silent])} {verb} nobody any more"
        subject = change.field(
            "environment.yaml: alarm_topic_arn", "environment.yaml: alarm_emails", otherwise=silent[0].logical_id
        )
        yield Found(subject, message, "keep the topic that alarms tell")


@rule(
    "LR059",
    "Evidence taken away",
    reason="A run of just this profile that BASE keeps below `evidence/` is gone, or is another now. Without a FAIL "
    "the PASS before it counts again; without a PASS nothing measured speaks for the profile.",
    mend="Keep the runs of profiles as they are deployed; prune those of older versions.",
    source="docs/evidence.md: a profile is proven by its newest run, whatever older ones said",
    severity="risk",
    also=("warning",),
)
def evidence_gone(change: Change) -> Iterator[Found]:
    hashes = {profile_hash(view.profile) for view in (change.before, change.after) if view.profile is not None}
    gone = [run for run in change.context.evidence.gone if run.profile_sha256 in hashes]
    severities: tuple[Severity, ...] = ("warning", "risk")
    for severity in severities:
        runs = [run for run in gone if (run.verdict == "PASS") == (severity == "warning")]
        if runs:
            names = listing([f"{run.run_id} ({run.verdict})" for run in runs])
            message = f"{counted(len(runs), 'run')} of just this profile taken away, or changed: {names}"
            yield Found("", message, "keep what was measured of it", severity)


@rule(
    "LR058",
    "Commitment to pay",
    reason="AWS refuses to delete provisioned throughput before its commitment ends, and bills it until then.",
    mend="Take it without a commitment first, and commit when the load is known.",
    source="https://docs.aws.amazon.com/bedrock/latest/userguide/prov-throughput.html",
    severity="risk",
)
def commitment(change: Change) -> Iterator[Found]:
    after = _throughput(change.after)
    before = _throughput(change.before)
    if after is None or after[1] not in _COMMITTED or after == before:
        return
    units, term = after
    message = f"{counted(units, 'model unit is', 'model units are')} paid for {_COMMITTED[term]}, used or not"
    yield Found("bedrock.provisioned_throughput.commitment", message, "take it without a commitment first")


def _newly(change: Change, expected: str, unless: tuple[str, ...]) -> Iterator[tuple[ObjectiveChange, str]]:
    """Objectives that are expected so now and were none of `unless` before, each with the grade of its prediction."""
    for one in change.context.objectives:
        was = one.before.expected if one.before is not None else ""
        if one.after is not None and one.after.expected == expected and was not in unless:
            yield one, f"predicted, grade {one.after.grade}"


def _throughput(view: View) -> tuple[int, str] | None:
    bedrock = view.profile.bedrock if view.profile else None
    bought = bedrock.provisioned_throughput if bedrock else None
    return (bought.model_units, bought.commitment) if bought else None


def _word(value: object) -> str:
    """A field's value; booleans and nothing as YAML writes them."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _figures(one: ObjectiveChange) -> str:
    """`ttft_p95_ms 610 predicted (before: 480), objective 500`."""
    after, before = one.after, one.before
    assert after is not None
    was = "" if before is None or before.predicted is None else f" (before: {_figure(before.predicted)})"
    sign = "at least" if one.comparison == ">=" else "at most"
    return f"{one.label} {_figure(after.predicted)}{was}, objective {sign} {_figure(after.bound)}"


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _watches(change: Change, logical_id: str) -> bool:
    """False for alarms that steer scaling, or watch what goes too: other rules tell of that."""
    alarm = change.before.named(logical_id)
    gone = [one for one in change.context.resources if one.action == "remove" and one.type not in _ALARMS]
    names = {name for one in gone for name in (one.logical_id, label(change.old(one)))}
    if alarm is not None and any(f"'{name}'" in str(alarm.properties) for name in names):
        return False
    steered = {policy.logical_id for policy in change.before.of(SCALING_POLICY)}
    actions = listed(alarm.properties, "AlarmActions") if alarm is not None else []
    return not any(name in steered for action in actions for name in references(action))


def _tells(view: View, logical_id: str) -> bool:
    alarm = view.named(logical_id)
    if alarm is None or rendered(alarm.properties.get("ActionsEnabled")).lower() == "false":
        return False
    return any(rendered(action) for action in listed(alarm.properties, "AlarmActions"))
