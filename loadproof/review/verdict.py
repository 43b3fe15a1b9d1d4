"""The one sentence that a reviewer reads first: the gravest finding, what it costs, whether the objectives hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loadproof.pages.wording import objective_title, objective_value
from loadproof.review.cost import At
from loadproof.review.model import SEVERITIES, Finding, ObjectiveChange, ProfileReview, Review, Severity
from loadproof.review.rules import RULES
from loadproof.review.shapes import State
from loadproof.review.wording import counted, few, headline, shortened, usd_more

_WORDS: Final[Mapping[Severity, str]] = {"break": "BREAKS", "risk": "AT RISK", "warning": "LOOK AT"}
LONGEST_NAME: Final = 80
LONGEST_CLAUSE: Final = 70  # of a message; its rule's title is shorter and whole
FEWEST_WORDS: Final = 4
TITLES: Final[Mapping[str, str]] = {rule.code: rule.title for rule in RULES}
Found = Sequence[tuple[Finding, ProfileReview]]


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """The gravest severity (None: nothing found), the words that the sentence begins with, and the rest of it."""

    worst: Severity | None
    word: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.word} {self.text}"


def verdict_of(review: Review) -> ReviewVerdict:
    """Deterministic. Names of profiles are in it as they are: whoever shows it escapes."""
    changed = [one for one in review.profiles if state_of(one) != "unchanged"]
    judged = [one for one in changed if state_of(one) in ("added", "changed")]
    found = [(finding, one) for one in review.profiles for finding in one.findings]
    worst = max((finding.severity for finding, _ in found), key=SEVERITIES.index, default=None)
    after = "; ".join(part for part in (_cost(judged), _objectives(judged)) if part)
    ending = f"; {after}." if after else "."
    word = word_of(worst, changed=bool(changed))
    if worst is not None and worst in _WORDS:
        return ReviewVerdict(worst, word, _gravest(found, worst) + ending)
    if not changed:
        return ReviewVerdict(worst, word, f"{_looked_at(review)}.")
    return ReviewVerdict(worst, word, f"{counted(len(changed), 'profile')} changed{ending}")


def word_of(worst: Severity | None, *, changed: bool) -> str:
    """What the sentence begins with."""
    if worst is not None and worst in _WORDS:
        return _WORDS[worst]
    return "Nothing breaks:" if changed else "Nothing changes"


def state_of(one: ProfileReview) -> State:
    """What happened to the profile. Refused: its head has problems that stop synthesis, or cannot be synthesized."""
    before, after = one.pair.before, one.pair.after
    if after is None:
        return "removed"
    if after.refusal or any(problem.severity == "error" for problem in after.problems):
        return "refused"
    if before is None:
        return "added"
    return "changed" if one.fields or one.resources or one.findings else "unchanged"


def _looked_at(review: Review) -> str:
    if not review.profiles:
        return "in what is deployed: no profile is touched"
    return f"in what is deployed by {few([name_of(one) for one in review.profiles], 3)}"


def _gravest(found: Found, worst: Severity) -> str:
    """`prod/chat: endpoint chat is replaced (LR001), and 2 more breaks`: the first finding of the worst severity."""
    worst_found = [(finding, one) for finding, one in found if finding.severity == worst]
    first, one = min(worst_found, key=lambda row: (row[0].code, name_of(row[1]), row[0].place))
    names = sorted({name_of(one) for finding, one in worst_found if finding.code == first.code})
    what = _what(first)
    if state_of(one) == "refused":
        if what.startswith("refused"):  # the rule's title, which says it already
            what = f"{first.place} {what}"
        else:
            what = f"refused: {what}" if first.place in what else f"refused: {first.place}: {what}"
    said = f"{few(names, 1)}: {what} ({first.code})"
    others = sum(finding.code != first.code for finding, _ in worst_found)
    return f"{said}, and {counted(others, f'more {worst}')}" if others else said


def _what(finding: Finding) -> str:
    """The message's first clause, which names what is meant; the rule's title where that is too long or says too little
    by itself (`taken away: ...`)."""
    clause, title = headline(finding.message), TITLES.get(finding.code, "")
    tells = len(clause.split()) >= FEWEST_WORDS or clause == finding.message.replace("`", "")
    if (tells and len(clause) <= LONGEST_CLAUSE) or not title:
        return clause
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def name_of(one: ProfileReview) -> str:
    return shortened(f"{one.pair.environment_name}/{one.pair.name}", LONGEST_NAME)


def _cost(changed: Sequence[ProfileReview]) -> str:
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


def _sum(changed: Sequence[ProfileReview], at: At) -> tuple[float | None, int]:
    """USD a month more over all profiles with a known price (None without any), and how many have none."""
    deltas = [row.delta_usd_per_month for one in changed for row in one.costs if row.at == at]
    known = [delta for delta in deltas if delta is not None]
    return (round(sum(known), 2) if known else None), len(deltas) - len(known)


def _known(changed: Sequence[ProfileReview], at: At) -> list[str]:
    """The profiles of which that cost is known."""
    return [
        name_of(one)
        for one in changed
        if any(row.at == at and row.delta_usd_per_month is not None for row in one.costs)
    ]


def _objectives(changed: Sequence[ProfileReview]) -> str:
    """The objectives newly missed, else those missed as before, else those in doubt, else that they hold."""
    rows = [(row, one) for one in changed for row in one.objectives if row.after is not None]
    missed = [(row, one) for row, one in rows if row.after is not None and row.after.expected == "misses"]
    newly = [(row, one) for row, one in missed if row.before is None or row.before.expected != "misses"]
    if newly:
        row, one = newly[0]
        of = f"{name_of(one)} " if len(changed) > 1 else ""
        more = f" ({counted(len(newly) - 1, 'more objective')} newly missed)" if len(newly) > 1 else ""
        return f"{of}{_missed(row)}{more}"
    if missed:
        return f"{counted(len(missed), 'objective')} predicted to be missed, as before"
    outcomes = [row.after.expected for row, _ in rows if row.after is not None]
    near = outcomes.count("near")
    if near:
        return f"{counted(near, 'objective')} in doubt: the bound lies within the predicted range"
    return "objectives predicted to hold" if outcomes and set(outcomes) == {"meets"} else ""


def _missed(row: ObjectiveChange) -> str:
    """`TTFT p95 predicted 610 ms, objective at most 500 ms`."""
    assert row.after is not None
    figure = row.after
    limit = "at most" if row.comparison == "<=" else "at least"
    predicted, bound = (objective_value(row.name, value) for value in (figure.predicted, figure.bound))
    return f"{objective_title(row.name, row.part)} predicted {predicted}, objective {limit} {bound}"
