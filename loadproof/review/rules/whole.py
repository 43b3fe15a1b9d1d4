"""Rules about the profile as a whole: refused, added, removed, elsewhere (LR06x)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.names import stack_name
from loadproof.profiles.secrets import redacted
from loadproof.review.model import Severity, Traffic
from loadproof.review.rules.change import Change
from loadproof.review.rules.refused import REFUSED, new_problems, new_template_findings, stops
from loadproof.review.rules.rule import RULES, Found, rule
from loadproof.review.rules.shields import encryption_lost, isolation_lost
from loadproof.review.rules.words import listing
from loadproof.templates import RULES as TEMPLATE_RULES

# Rules over templates that have a finding of their own here: rights, pinning, secrets, code.
_REPORTED_ELSEWHERE: Final = frozenset(
    ("LS001", "LS002", "LS003", "LS004", "LS007", "LS010", "LS011", "LS012", "LS013")
)


@rule(
    REFUSED,
    "Refused by the checks",
    reason="`loadproof check` finds a problem that the base had not. An error stops plan, synthesis and deployment.",
    mend="See the check's own page (docs/checks.md) for each.",
    source="docs/checks.md: each check has its own page",
    severity="break",
    also=("warning",),
)
def refused_by_checks(change: Change) -> Iterator[Found]:
    yield from new_problems(change, REFUSED)


@rule(
    "LR061",
    "Profile removed, its stack is not",
    reason="CDK deletes no stack whose file is gone: the endpoint runs on, is billed, and nobody updates it.",
    mend="`cdk destroy` the stack before the file is deleted (afterwards: delete it in CloudFormation).",
    source="`cdk deploy` takes the stacks that the app synthesizes, and no others",
    severity="risk",
)
def removed(change: Change) -> Iterator[Found]:
    pair = change.context.pair
    if pair.after is None and pair.before is not None:
        stacks = sorted(pair.before.templates) or [stack_name(pair.environment_name, pair.name)]
    elif change.has_both:
        stacks = sorted(change.before.templates.keys() - change.after.templates.keys())
    else:
        return
    for stack in stacks:
        cost = _monthly(change) if pair.after is None else ""
        message = f"stack {stack} runs on{cost}: nothing here deletes it"
        yield Found("", message, f"run `cdk destroy {stack}` while the file is still there")


@rule(
    "LR062",
    "Profile added",
    reason="Nothing to compare with: what is shown is what it is.",
    mend="Deploy it, and benchmark it before callers come.",
    source="the folder of profiles",
    severity="info",
)
def added(change: Change) -> Iterator[Found]:
    pair = change.context.pair
    if pair.before is None and pair.after is not None and pair.after.profile is not None:
        cost = _monthly(change)
        yield Found("", f"{pair.environment_name}/{pair.name} is new{cost}", "deploy it, and benchmark it")


@rule(
    "LR063",
    "Refused by a rule over templates",
    reason="A rule over what is synthesized finds an error that the base had not: `cdk` stops.",
    mend="Mend it, or acknowledge it with a reason (docs/security.md).",
    source="docs/template-checks.md",
    severity="break",
    also=("risk", "warning"),
)
def refused_by_rules(change: Change) -> Iterator[Found]:
    reported = set(_REPORTED_ELSEWHERE)
    reported |= {"LS005"} if isolation_lost(change) else set()
    reported |= {"LS006"} if encryption_lost(change) else set()
    for finding in new_template_findings(change, *(TEMPLATE_RULES.by_code.keys() - reported)):
        if finding.severity == "error" and finding.acknowledged is None:
            severity: Severity = "break" if stops(finding, change) else "risk"
            yield Found(finding.place, finding.message, finding.mend, severity, finding.code)
        elif finding.severity == "warning" and finding.acknowledged is None:
            yield Found(finding.place, finding.message, finding.mend, "warning", finding.code)


@rule(
    "LR064",
    "Cannot be compared",
    reason="One side could not be synthesized, so nothing can be said of what the deployment does to it.",
    mend="Mend the side that is named; review again.",
    source="the synthesis itself",
    severity="warning",
    also=("break",),
)
def not_compared(change: Change) -> Iterator[Found]:
    pair = change.context.pair
    stopped = any(problem.severity == "error" for problem in change.fresh_problems())  # a warning stops nothing
    if pair.after is not None and not change.after.synthesized and not stopped:
        lost = pair.after.refusal or change.before.synthesized
        why = pair.after.refusal or (
            "the checks refuse it, as they refuse the base" if lost else "its problems were there before this change"
        )
        severity: Severity = "break" if lost else "warning"
        yield Found("", f"the head cannot be synthesized: {redacted(why)}", "mend it, then review again", severity)
    elif pair.before is not None and not change.before.synthesized and (pair.after is None or change.after.synthesized):
        why = pair.before.refusal or "the checks refuse it"
        yield Found(
            "", f"the base cannot be synthesized ({redacted(why)}): what changes is not known", "compare by hand"
        )


@rule(
    "LR065",
    "Another account or region",
    reason="Everything is made again there. What ran in the old place runs on and is billed, callers reach it, and "
    "this repository no longer knows of it.",
    mend="Make it an environment of its own beside the old one, move the callers, then destroy the old stacks.",
    source="a CloudFormation stack belongs to one account and one region",
    severity="break",
)
def elsewhere(change: Change) -> Iterator[Found]:
    before, after = change.before.environment, change.after.environment
    if before is None or after is None:
        return
    for name in ("account", "region"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            message = f"{name} {old} becomes {new}: all is made again there, what runs in {old} stays and is billed"
            yield Found(f"environment.yaml: {name}", message, "add an environment instead of moving this one")


@rule(
    "LR067",
    "What is read beside the profile changed",
    reason="The prompts or arrivals that a benchmark sends, or the tokenizer that it counts by, are part of what was "
    "proven, though no template shows them; whoever is among the signers has a word that counts.",
    mend="Benchmark it again; read who may sign.",
    source="docs/evidence.md: a run proves the traffic that it was driven with",
    severity="warning",
    also=("risk",),
)
def data_changed(change: Change) -> Iterator[Found]:
    before, after = change.context.pair.before, change.context.pair.after
    if before is None or after is None:
        return
    for file in sorted(before.data.keys() | after.data.keys()):
        told, severity = _traffic(before.traffic.get(file), after.traffic.get(file))
        if before.data.get(file) == after.data.get(file):
            if severity is not None:
                yield Found("", f"{file}: {after.traffic[file].wrong}", "mend the trace, or raise the limit", severity)
            continue
        what = "is new" if file not in before.data else "is gone" if file not in after.data else "changed"
        if change.after.profile is None and change.before.profile is None:
            message = f"{file} {what}: after it other people's signatures count as evidence"
            yield Found("", message, "read whose keys and names are in it", "risk")
        else:
            yield Found("", f"{file} {what}: a benchmark sends or counts by it{told}", "benchmark it again", severity)


def _traffic(before: Traffic | None, after: Traffic | None) -> tuple[str, Severity | None]:
    """(what a changed trace means, how grave that is if it is more than usual)."""
    if after is None:
        return "", None
    newly = bool(after.wrong) and (before is None or before.wrong != after.wrong)
    severity: Severity | None = "risk" if newly else None
    said = [after.wrong] if newly else []
    if after.unread and not after.figures:
        said = [f"its requests are not compared: {after.unread}"]
    old = before.figures if before is not None else {}
    changed = [
        f"{name} {old[name]} → {figure}" if name in old else f"{name} {figure}"
        for name, figure in after.figures.items()
        if old.get(name) != figure
    ]
    if after.figures:
        said.append(", ".join(changed) or "number, rate and lengths of its requests are as before")
    return "".join(f"; {one}" for one in said), severity


@rule(
    "LR068",
    "Other bytes at checkout",
    reason="`.gitattributes` has git write a file otherwise than it keeps it: in another encoding, through a program "
    "(`filter`), with words put in (`ident`, and `export-subst` in archives) or other line ends. A review reads what "
    "git keeps, and who deploys from a checkout deploys something else. Nor does it read attributes above 256 KiB.",
    mend="Take the attribute away from profiles, data and code.",
    source="https://git-scm.com/docs/gitattributes",
    severity="risk",
    also=("warning",),
)
def converted(change: Change) -> Iterator[Found]:
    before, after = change.context.pair.before, change.context.pair.after
    known = before.converted if before is not None else {}
    found = {file: how for file, how in sorted(after.converted.items()) if known.get(file) != how} if after else {}
    unread = {file: how for file, how in found.items() if "not read:" in how}
    new = {file: how for file, how in found.items() if file not in unread}
    if unread:
        files = listing([f"{file} (`{how}`)" for file, how in unread.items()])
        message = f"a checkout may have other bytes than were reviewed, by `.gitattributes`: {files}"
        yield Found("", message, "keep `.gitattributes` below 256 KiB")
    if new:
        files = listing([f"{file} (`{how}`)" for file, how in new.items()])
        message = f"a checkout has other bytes than were reviewed, by `.gitattributes`: {files}"
        severity: Severity = "warning" if set(new.values()) == {"eol=crlf"} else "risk"
        yield Found("", message, "take the attribute away from these files", severity)


RULES.reported_elsewhere(
    "LR066",  # where a rule fails (`findings_of`)
    "Rule that could not judge",
    reason="A template holds something in a shape that AWS does not know, such as a text in place of a map: what a "
    "rule looks for may be in it.",
    mend="Mend the template; CloudFormation would refuse it too.",
    source="the template, and AWS's resource schemas",
    severity="risk",
)


def _monthly(change: Change) -> str:
    """` ($1,312 a month at the least)`, of the side that there is."""
    for one in change.context.costs:
        figure = one.after or one.before
        if one.at == "minimum" and figure is not None and figure.usd_per_month is not None:
            return f" (${figure.usd_per_month:,.0f} a month at the least)"
    return ""
