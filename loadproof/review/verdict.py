"""The one sentence that a reviewer reads first: the gravest finding, what it costs, whether the objectives hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from loadproof.pages.wording import objective_value
from loadproof.review.cost import At
from loadproof.review.model import SEVERITIES, Severity
from loadproof.review.rules import RULES
from loadproof.review.shapes import (
    CountsDocument,
    FigureDocument,
    FindingDocument,
    ObjectiveDocument,
    ProfileDocument,
    VerdictDocument,
)
from loadproof.review.wording import counted, few, headline, name, shortened, title, usd_more

_WORDS: Final[Mapping[Severity, str]] = {"break": "BREAKS", "risk": "AT RISK", "warning": "LOOK AT"}
LONGEST_NAME: Final = 80
LONGEST_CLAUSE: Final = 70  # of a message; its rule's title is shorter and whole
FEWEST_WORDS: Final = 4
TITLES: Final[Mapping[str, str]] = {rule.code: rule.title for rule in RULES}
Found = Sequence[tuple[FindingDocument, ProfileDocument]]


def verdict_of(
    profiles: Sequence[ProfileDocument], *, left_out: CountsDocument | None = None, by_title: bool = False
) -> VerdictDocument:
    """Deterministic. Names of profiles are in it as they are: whoever shows it escapes.

    `left_out`: findings that are counted and not among the profiles'. `by_title`: no word of a finding's own message.
    """
    changed = [one for one in profiles if one["state"] != "unchanged"]
    judged = [one for one in changed if one["state"] in ("added", "changed")]
    found = [(finding, one) for one in profiles for finding in one["findings"]]
    severities = {finding["severity"] for finding, _ in found} | {
        one for one in SEVERITIES if left_out and left_out[one]
    }
    worst = max(severities, key=SEVERITIES.index, default=None)
    after = "; ".join(part for part in (_cost(judged), _objectives(judged)) if part)
    ending = f"; {after}." if after else "."
    if worst is not None and worst in _WORDS:
        text = _gravest(found, worst, left_out[worst] if left_out else 0, by_title) + ending
    elif not changed:
        text = f"{_looked_at(profiles)}."
    else:
        text = f"{counted(len(changed), 'profile')} changed{ending}"
    return {"worst": worst, "word": _word(worst, changed=bool(changed)), "text": text}


def _word(worst: Severity | None, *, changed: bool) -> str:
    """What the sentence begins with."""
    if worst is not None and worst in _WORDS:
        return _WORDS[worst]
    return "Nothing breaks:" if changed else "Nothing changes"


def _looked_at(profiles: Sequence[ProfileDocument]) -> str:
    if not profiles:
        return "in what is deployed: no profile is touched"
    return f"in what is deployed by {few([name_of(one) for one in profiles], 3)}"


def _gravest(found: Found, worst: Severity, more: int, by_title: bool) -> str:
    """`prod/chat: endpoint chat is replaced (LR001), and 2 more breaks`: the first finding of the worst severity.

    `more`: as grave ones that are not among those found.
    """
    worst_found = [(finding, one) for finding, one in found if finding["severity"] == worst]
    if not worst_found:
        return counted(more, worst)
    first, one = min(worst_found, key=lambda row: (row[0]["code"], name_of(row[1]), row[0]["subject"]))
    names = sorted({name_of(one) for finding, one in worst_found if finding["code"] == first["code"]})
    what, place = in_a_sentence(first["title"]) if by_title else _what(first), first["subject"]
    if one["state"] == "refused":
        if what.startswith("refused"):  # the rule's title, which says it already
            what = f"{place} {what}"
        else:
            what = f"refused: {what}" if place in what else f"refused: {place}: {what}"
    said = f"{few(names, 1)}: {what.strip()} ({first['code']})"
    others = more + sum(finding["code"] != first["code"] for finding, _ in worst_found)
    return f"{said}, and {counted(others, f'more {worst}')}" if others else said


def _what(finding: FindingDocument) -> str:
    """The message's first clause, which names what is meant; the rule's title where that is too long or says too little
    by itself (`taken away: ...`)."""
    clause, of_rule = headline(finding["message"]), TITLES.get(finding["code"], "")
    tells = len(clause.split()) >= FEWEST_WORDS or clause == finding["message"].replace("`", "")
    if (tells and len(clause) <= LONGEST_CLAUSE) or not of_rule:
        return clause
    return in_a_sentence(of_rule)


def in_a_sentence(title: str) -> str:
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def name_of(one: ProfileDocument) -> str:
    return shortened(name(one), LONGEST_NAME)


def _cost(changed: Sequence[ProfileDocument]) -> str:
    """The sum at the expected load where that is known of every profile, then at the fewest copies; else the sum at the
    fewest copies, and at the most where that goes another way."""
    fewest, unknown = _sum(changed, "minimum")
    expected, _ = _sum(changed, "expected")
    most, _ = _sum(changed, "maximum")
    if fewest is None:
        return "cost unknown" if unknown else ""
    if expected is not None and expected != fewest and _known(changed, "expected") == _known(changed, "minimum"):
        change = f"{usd_more(expected)} a month" if expected else "cost unchanged"
        said = f"{change} at the expected load, {usd_more(fewest)} at the fewest copies"
    elif fewest:
        said = f"{usd_more(fewest)} a month at the fewest copies"
        if most is not None and most * fewest < 0:  # cheaper at rest and dearer under load, or the other way about
            said += f", {usd_more(most)} at the most"
    elif most:
        said = f"cost unchanged at the fewest copies, {usd_more(most)} a month at the most"
    else:
        said = "cost unchanged"
    return f"{said} (price unknown for {counted(unknown, 'profile')})" if unknown else said


def _sum(changed: Sequence[ProfileDocument], at: At) -> tuple[float | None, int]:
    """USD a month more over all profiles with a known price (None without any), and how many have none."""
    deltas = [row["delta_usd_per_month"] for one in changed for row in one["costs"] if row["at"] == at]
    known = [delta for delta in deltas if delta is not None]
    return (round(sum(known), 2) if known else None), len(deltas) - len(known)


def _known(changed: Sequence[ProfileDocument], at: At) -> list[str]:
    """The profiles of which that cost is known."""
    return [
        name_of(one)
        for one in changed
        if any(row["at"] == at and row["delta_usd_per_month"] is not None for row in one["costs"])
    ]


def _objectives(changed: Sequence[ProfileDocument]) -> str:
    """The objectives newly missed, else those missed as before, else those in doubt, else that they hold."""
    rows = [(row, row["after"], one) for one in changed for row in one["objectives"] if row["after"] is not None]
    missed = [(row, after, one) for row, after, one in rows if after["expected"] == "misses"]
    newly = [(row, after, one) for row, after, one in missed if not row["before"] or not _misses(row["before"])]
    if newly:
        row, after, one = newly[0]
        of = f"{name_of(one)} " if len(changed) > 1 else ""
        more = f" ({counted(len(newly) - 1, 'more objective')} newly missed)" if len(newly) > 1 else ""
        return f"{of}{_missed(row, after)}{more}"
    if missed:
        return f"{counted(len(missed), 'objective')} predicted to be missed, as before"
    outcomes = [after["expected"] for _, after, _ in rows]
    near = outcomes.count("near")
    if near:
        return f"{counted(near, 'objective')} in doubt: the bound lies within the predicted range"
    return "objectives predicted to hold" if outcomes and set(outcomes) == {"meets"} else ""


def _misses(figure: FigureDocument) -> bool:
    return figure["expected"] == "misses"


def _missed(row: ObjectiveDocument, figure: FigureDocument) -> str:
    """`TTFT p95 predicted 610 ms, objective at most 500 ms`."""
    limit = "at most" if row["comparison"] == "<=" else "at least"
    predicted, bound = (objective_value(row["name"], value) for value in (figure["predicted"], figure["bound"]))
    return f"{title(row)} predicted {predicted}, objective {limit} {bound}"
