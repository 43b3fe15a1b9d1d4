"""A review's brief: do the objectives hold after the change, what it costs a month, how sure that is, what next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loadproof.pages.brief import Brief, in_a_command
from loadproof.pages.wording import joined
from loadproof.review.shapes import CostFigureDocument, Document, FindingDocument, ProfileDocument
from loadproof.review.wording import (
    OUTLOOK_MARKS,
    counted,
    few,
    headline,
    left_out,
    name,
    short_of_copies,
    shortened,
    usd,
    usd_more,
)


def brief_of(document: Document) -> Brief:
    """Of all profiles that the change touches. Names and messages are in it as they are: whoever shows it escapes."""
    touched = [profile for profile in document["profiles"] if profile["state"] != "unchanged"]
    deployable = [profile for profile in touched if profile["state"] != "refused"]
    refused = (
        f"; {counted(len(touched) - len(deployable), 'profile')} refused" if len(deployable) < len(touched) else ""
    )
    promise = f"{_promise(deployable)}{refused}"
    cost = f"{_cost(deployable) if deployable or not refused else 'not known'}{refused}"
    sure = _sure(touched) if document["profiles"] else "nothing that a profile is made of differs"
    if more := left_out(document):
        sure = f"{more}; {sure}"
    if document["not_run"]:
        return Brief(promise, cost, _not_run(document["not_run"], sure), _READ_IT)
    return Brief(promise, cost, sure, _next(touched))


_LONGEST_WHY: Final = 300  # characters of why a profile is refused
_READ_IT: Final = (
    "read the changed code; what it deploys shows in a review that runs it (`loadproof review --trust head`)"
)


def _not_run(paths: Sequence[str], sure: str) -> str:
    """What a reviewer must not take for reviewed."""
    return f"{counted(len(paths), 'file')} of changed code did not run, the base's did: {few(paths, 3)}; {sure}"


def _promise(touched: Sequence[ProfileDocument]) -> str:
    """`4 objectives met, 1 in doubt`, as predicted for what would be deployed."""
    after = [row["after"]["expected"] for profile in touched for row in profile["objectives"] if row["after"]]
    said = [f"{after.count(key)} {word}" for key, (_, word) in OUTLOOK_MARKS.items() if key in after]
    if not said:
        return "no objective is predicted for what this changes"
    return f"of {counted(len(after), 'objective')} {', '.join(said)}, as predicted"


def _cost(touched: Sequence[ProfileDocument]) -> str:
    """`$5,691 at the expected load, until now $4,092 (+$1,599)`; at the fewest copies where no load is known."""
    for at, words in (("expected", "at the expected load"), ("minimum", "at the fewest copies")):
        rows = [row for profile in touched for row in profile["costs"] if row["at"] == at]
        sides = [(_usd_per_month(row["before"]), _usd_per_month(row["after"])) for row in rows]
        known = [(before, after) for before, after in sides if before is not None and after is not None]
        if known:
            before, after = (sum(side) for side in zip(*known, strict=True))
            more = round(after - before, 2)
            until = f"until now {usd(before)} ({usd_more(more)})" if more else "as until now"
            unknown = len(sides) - len(known)
            less = f"; the price of {counted(unknown, 'profile')} is not known" if unknown else ""
            return f"{usd(after)} {words}, {until}{less}{_too_few(touched) if at == 'expected' else ''}"
    return "not known" if touched else "nothing changes"


def _too_few(touched: Sequence[ProfileDocument]) -> str:
    """What the expected load costs is the cost of too few machines where it needs more copies than there may be."""
    short = [f"{name(one)} {short_of_copies(one)}" for one in touched if short_of_copies(one)]
    return f"; too few for that load: {few(short, 3)}" if short else ""


def _usd_per_month(side: CostFigureDocument | None) -> float | None:
    """Where nothing runs costs nothing; None without a known price."""
    return 0.0 if side is None else side["usd_per_month"]


def _sure(touched: Sequence[ProfileDocument]) -> str:
    """Which profiles were measured as they would be deployed, and the grades of what is predicted of the others."""
    if not touched:
        return "both sides were synthesized, and the same is deployed"
    measured = [profile for profile in touched if profile["evidence"]["state"] == "current"]
    predicted = [profile for profile in touched if profile["evidence"]["state"] != "current"]
    grades = {row["after"]["grade"] for one in predicted for row in one["objectives"] if row["after"]}
    said = [f"measured as it would be deployed: {few([name(one) for one in measured], 3)}"] if measured else []
    if predicted:
        graded = f", grade {joined(sorted(grades), 'and')}" if grades else ""
        said.append(f"predicted only{graded}: {few([name(one) for one in predicted], 3)}")
    return "; ".join(said)


def _next(touched: Sequence[ProfileDocument]) -> str:
    """The way to mend the gravest finding, else to prove what was only predicted."""
    found = [(finding, one) for one in touched for finding in one["findings"]]
    for severity in ("break", "risk", "warning"):
        worst = [(finding, one) for finding, one in found if finding["severity"] == severity]
        if worst:
            finding, one = min(worst, key=lambda row: (row[0]["code"], name(row[1])))
            return f"{name(one)}: {_why(finding) if one['state'] == 'refused' else ''}{_mend(finding)}"
    unproven = [name(one) for one in touched if one["evidence"]["state"] != "current"]
    if unproven:
        return f"deploy it to a stage before production, then prove it: `loadproof bench {in_a_command(unproven[0])}`"
    return "nothing is in the way of merging it"


def _why(finding: FindingDocument) -> str:
    """The message, where the verdict's sentence has its first clause alone."""
    message = finding["message"].replace("`", "")
    return "" if headline(message) == message else f"{shortened(message, _LONGEST_WHY)}; "


def _mend(finding: FindingDocument) -> str:
    return f"{finding['mend'] or finding['title']} ({finding['code']})"
