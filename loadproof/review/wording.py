"""How every format of a review says things: money, counts, values, changes. Plain text; each format escapes it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from loadproof.pages.wording import NO_DATA as NO_DATA
from loadproof.pages.wording import bound_text, objective_title, objective_value
from loadproof.pages.wording import counted as counted
from loadproof.pages.wording import usd as usd
from loadproof.review.model import Severity
from loadproof.review.shapes import (
    CostDocument,
    Document,
    FieldDocument,
    FigureDocument,
    ObjectiveDocument,
    ProfileDocument,
    ResourceDocument,
)
from loadproof.sessions import label_of

# Shape and word, so that no meaning hangs on colour.
SEVERITY_MARKS: Final[dict[Severity, tuple[str, str]]] = {
    "break": ("✗", "break"),
    "risk": ("▲", "risk"),
    "warning": ("△", "warning"),
    "info": ("○", "info"),
}
OUTLOOK_MARKS: Final = {  # the worst first
    "misses": ("✗", "missed"),
    "near": ("≈", "in doubt"),
    "unknown": ("?", "unknown"),
    "meets": ("✓", "met"),
}
STATES: Final = {"added": "new", "changed": "", "removed": "removed", "refused": "refused", "unchanged": "unchanged"}
COST_AT: Final = {"minimum": "fewest copies", "expected": "expected load", "maximum": "most copies"}
ACTIONS: Final = {"replace": "replaced", "remove": "removed", "add": "added", "update": "updated"}  # gravest first
LONGEST_VALUE: Final = 60
LONGEST_IN_CELL: Final = 40  # of the table over all profiles
MOST_PATHS: Final = 3
ARROW: Final = " → "
_FIXED: Final = "\N{NO-BREAK SPACE}"  # within a figure and its unit, or a mark and its count
_CLAUSE: Final = re.compile(
    r"(?:`[^`]*`|\([^()]*\)|(?![;:.] ).)+", re.DOTALL
)  # up to a stop outside of code and brackets


def name(profile: ProfileDocument) -> str:
    return f"{profile['environment']}/{profile['profile']}"


def few(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def headline(message: str) -> str:
    """A message's first clause, without its backticks, cut where it is long: what a sentence or a cell has room for."""
    clause = _CLAUSE.match(message)
    return shortened((clause[0] if clause else message).replace("`", ""), 120)


def shortened(text: str, longest: int) -> str:
    """At most so many characters; a quotation that is cut is closed."""
    if len(text) <= longest:
        return text
    cut = text[: longest - 1]
    return f"{cut[:-1]}…”" if cut.count("“") > cut.count("”") else f"{cut}…"


def _fixed(text: str) -> str:
    return text.replace(" ", _FIXED)


def usd_more(value: float | None) -> str:
    """`+$1,312`, `−$40`, `$0`: a difference."""
    return f"+{usd(value)}" if value is not None and value > 0 else usd(value)


def cost(row: CostDocument) -> tuple[str, str, str]:
    """(before, after, difference), USD a month; a dash where nothing runs, no difference where a price is unknown."""
    sides = [NO_DATA if side is None else usd(side["usd_per_month"]) for side in (row["before"], row["after"])]
    more = row["delta_usd_per_month"]
    return sides[0], sides[1], NO_DATA if more is None else usd_more(more)


def cost_at(profile: ProfileDocument, at: str) -> CostDocument | None:
    return next((row for row in profile["costs"] if row["at"] == at), None)


def short_of_copies(profile: ProfileDocument) -> str:
    """`needs 18 copies, 4 at the most`, predicted; empty where the most copies bear the workload."""
    short = profile["copies_short"]
    return f"needs {counted(short['needed'], 'copy', 'copies')}, {short['most']:,} at the most" if short else ""


def cost_cell(profile: ProfileDocument) -> tuple[str, str, str]:
    """(amounts, difference, what they lack) at the fewest copies; at the most where only those differ; empty: none."""
    return (*_cost_cell(profile), short_of_copies(profile))


def _cost_cell(profile: ProfileDocument) -> tuple[str, str]:
    row, most = cost_at(profile, "minimum"), cost_at(profile, "maximum")
    if row is None or profile["state"] == "refused":
        return NO_DATA, ""
    before, after, more = cost(row)
    if profile["state"] == "removed":
        return before, "until the stack is destroyed"
    if before != after:
        return f"{before}{ARROW}{after}", "" if more == NO_DATA else more
    if most is None or not most["delta_usd_per_month"]:
        return before, ""
    return before, f"{cost(most)[2]} at the most copies"


def changes_cell(profile: ProfileDocument) -> str:
    """What changes where that is not told by fields: refused, removed, nothing; else empty."""
    if profile["state"] == "refused":
        return "unknown: refused by its checks" if profile["problems"] else "unknown: cannot be synthesized"
    if profile["state"] == "removed":
        return "its file is deleted; its stack stays"
    if profile["fields"] or profile["resources"]:
        return ""
    unknown = any("resources are not compared" in note for note in profile["notes"])
    return "resources not compared" if unknown else "nothing that is deployed"


def problems(profile: ProfileDocument) -> list[str]:
    """Why the head is refused, where no finding says it."""
    if profile["state"] != "refused" or profile["findings"]:
        return []
    return [text for text in (*profile["problems"], profile["refusal"]) if text]


def judged(profile: ProfileDocument) -> bool:
    """Whether costs and objectives of the head can be told, and something changed."""
    return profile["state"] in ("added", "changed")


def value(found: object, longest: int = LONGEST_VALUE) -> str:
    """A value of a field or property on one line: text as it is, all else as JSON, cut where it is long."""
    if found is None:
        return "none"
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return shortened(text, longest)


def title(row: ObjectiveDocument) -> str:
    return objective_title(row["name"], row.get("part", ""))


def bound(row: ObjectiveDocument, figure: FigureDocument | None) -> str:
    """`≤ 500 ms`; a dash where the side does not set it."""
    if figure is None or figure["bound"] is None:
        return NO_DATA
    return _fixed(bound_text(row["name"], row["comparison"], figure["bound"]))


def predicted(row: ObjectiveDocument, figure: FigureDocument | None) -> str:
    return NO_DATA if figure is None else _fixed(objective_value(row["name"], figure["predicted"]))


def interval(row: ObjectiveDocument, figure: FigureDocument | None) -> str:
    """`210 to 474 ms`; a dash without one."""
    if figure is None or figure["low"] is None or figure["high"] is None:
        return NO_DATA
    low, high = (objective_value(row["name"], figure[end]) for end in ("low", "high"))
    return low if low == high else f"{low.split(' ')[0]} to {high}"


def objectives_line(profile: ProfileDocument) -> str:
    """How the head's objectives are predicted to do, the worst first: `1 missed, 2 met`."""
    outcomes: list[str] = [row["after"]["expected"] for row in profile["objectives"] if row["after"]]
    if profile["state"] in ("refused", "removed"):
        return NO_DATA
    if not outcomes:
        return "none set"
    said = []
    for outcome, (mark, word) in OUTLOOK_MARKS.items():
        count = outcomes.count(outcome)
        if count:
            said.append(_fixed(f"{mark} {f'all {count}' if 1 < count == len(outcomes) else count} {word}"))
    return ", ".join(said)


def findings_line(profile: ProfileDocument) -> str:
    """`1 break, 2 warnings`."""
    found = [finding["severity"] for finding in profile["findings"]]
    return ", ".join(
        _fixed(f"{mark} {counted(found.count(severity), word) if word != 'info' else f'{found.count(severity)} info'}")
        for severity, (mark, word) in SEVERITY_MARKS.items()
        if severity in found
    )


def resources_line(rows: Sequence[ResourceDocument]) -> str:
    """`1 replaced, 2 updated`; replacements by design count as updates, as which they are felt."""
    told = [felt(row) for row in rows]
    return ", ".join(f"{told.count(word)} {word}" for word in ACTIONS.values() if word in told)


def felt(row: ResourceDocument) -> str:
    return "updated" if row["action"] == "replace" and row["expected"] else ACTIONS[row["action"]]


def resource_rows(profile: ProfileDocument) -> list[tuple[str, str, str, str]]:
    """(what the deployment does, logical id, type, why), the gravest first; counted by type where all are new or all
    removed: then no row has anything to say of its own."""
    rows = profile["resources"]
    if profile["state"] in ("added", "removed"):
        kinds = Counter((felt(row), row["type"], row["kept"] and row["action"] == "remove") for row in rows)
        return [
            (word, "", f"{count:,} × {type_}", "kept when removed" if kept else "")
            for (word, type_, kept), count in sorted(kinds.items())
        ]
    order = list(ACTIONS.values())
    ordered = sorted(rows, key=lambda row: order.index(felt(row)))
    return [(felt(row), row["logical_id"], row["type"], why(row)) for row in ordered]


def why(row: ResourceDocument) -> str:
    """What of a resource changes: the properties that force a replacement alone where there are any."""
    if row["action"] in ("add", "remove"):
        return "the old one is kept" if row["kept"] else ""
    forcing = [one["path"] for one in row["properties"] if one["replaces"]]
    paths = forcing or [one["path"] for one in row["properties"]]
    said = [f"`{path}`" for path in paths[:MOST_PATHS]]
    said += [f"{len(paths) - MOST_PATHS} more"] if len(paths) > MOST_PATHS else []
    if row["action"] == "replace":
        said += [f"refers to `{row['cause']}`, which is replaced"] if row["cause"] else []
        said += ["a new one each time, by design"] if row["expected"] else []
        said += ["the old one is kept"] if row["kept"] else []
    return ", ".join(said)


def newly_missed(profile: ProfileDocument) -> list[ObjectiveDocument]:
    """Objectives that the head is predicted to miss and the base was not."""
    return [
        row
        for row in profile["objectives"]
        if judged(profile)
        and row["after"]
        and row["after"]["expected"] == "misses"
        and (row["before"] is None or row["before"]["expected"] != "misses")
    ]


def change(row: FieldDocument) -> str:
    """`8 → 12`; a dash where a side has no such field."""
    sides = (row["before"], row["after"])
    return ARROW.join(NO_DATA if side is None else value(side, LONGEST_IN_CELL) for side in sides)


def grade(profile: ProfileDocument) -> str:
    """The grade of the head's predictions, else of the base's; empty without any."""
    for row in profile["objectives"]:
        for figure in (row["after"], row["before"]):
            if figure and figure["grade"]:
                return figure["grade"]
    return ""


def measured(profile: ProfileDocument, row: ObjectiveDocument) -> str:
    """What the newest run measured of an objective; empty where it did not."""
    name = row["name"]
    run = profile["evidence"]["run"] if profile["evidence"]["state"] != "claimed" else None
    figure = run["measured"].get(label_of(name, row.get("part", ""))) if run else None
    return "" if figure is None else objective_value(name, figure)


def evidence(profile: ProfileDocument) -> str:
    """What is known by measurement, in one sentence."""
    found = profile["evidence"]
    run = found["run"]
    if not run:
        return "Nothing measured is stored for this profile: every figure here is predicted."
    who = {"gate": "signed by the gate", "person": "signed by a person", "claimed": "claimed"}[run["signed_by"]]
    what = f"Run {run['run_id']} of {run['created_utc']}: {run['verdict']}, {who}"
    what += f" ({run['signer']})" if run["signer"] else ""
    if found["state"] == "claimed":
        why = "; ".join(found["changed_since"]) or "nobody signed it whose word this profile takes"
        return f"{what}. It proves nothing here: {why}."
    if found["state"] == "current":
        return f"{what}. It measured exactly this profile."
    since = few(found["changed_since"], 5) or "the profile"
    return f"{what}. It is stale: since then {since} changed.{other_traffic(found['changed_since'])}"


def other_traffic(changed: Sequence[str]) -> str:
    """A run proves its objectives for the traffic that it was driven with: what is to be said where that changed."""
    moved = any(path.partition(".")[0].partition("[")[0] == "workload" for path in changed)
    return " It was driven with other traffic than is expected now." if moved else ""


def synthesized(document: Document) -> str:
    """What was compared: a refused head was not synthesized."""
    refused = sum(profile["state"] == "refused" for profile in document["profiles"])
    return "both sides synthesized" + (f" but for {counted(refused, 'refused profile')}" if refused else "")


def left_out(document: Document) -> str:
    """`left out here: 900 profiles, 900 breaks`: what the document counts and does not show; empty: it shows all."""
    more = document.get("left_out")
    if more is None:
        return ""
    said = [counted(more["profiles"], "profile")] if more["profiles"] else []
    said += [
        counted(more["findings"][severity], word)
        for severity, (_, word) in SEVERITY_MARKS.items()
        if more["findings"][severity]
    ]
    said += [counted(more["rows"], "row")] if more["rows"] else []
    return f"left out here: {', '.join(said)}"
