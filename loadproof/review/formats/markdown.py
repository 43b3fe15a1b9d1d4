"""A comment for a pull request: verdict, one table, then everything else folded; never longer than a host takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from loadproof.catalog import price_addresses
from loadproof.review import wording
from loadproof.review.brief import brief_of
from loadproof.review.formats.escaping import code, html, linked, prose
from loadproof.review.shapes import Document, FindingDocument, ObjectiveDocument, ProfileDocument

MARKER: Final = "<!-- loadproof-review -->"  # a bot finds its own comment by it and updates that one
LONGEST_BYTES: Final = 65_000  # GitHub refuses comments of more than 65,536 characters
MOST_ROWS: Final = 50  # of one table within the details
_FIELDS_SHOWN: Final = 3  # in the cell of the first table
_LINK: Final = re.compile(r"https://[\w./?#=&%:~+-]+")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the comment. The highest `rank` is left out first where the whole is too long, told by its `kind`."""

    rank: int
    kind: str
    text: str
    profile: int | None = None  # whose details it belongs to, by position; None: a row of the table


def as_markdown(document: Document, *, longest_bytes: int = LONGEST_BYTES) -> str:
    """GitHub-flavoured Markdown; at most `longest_bytes` as UTF-8, a line then says what was left out."""
    blocks = [
        *(_row(profile) for profile in document["profiles"]),
        *(block for at, profile in enumerate(document["profiles"]) for block in _details(profile, at)),
    ]
    room_bytes = longest_bytes
    while True:
        kept, left_out = _fitting(blocks, room_bytes)
        whole = _joined(document, kept, left_out)
        over = len(whole.encode()) - longest_bytes
        if over <= 0 or not kept:
            return whole
        room_bytes = min(room_bytes, sum(_size(block) for block in kept)) - over


def _joined(document: Document, blocks: Sequence[Block], left_out: str) -> str:
    lines = [MARKER, _verdict(document), "", *_brief(document), ""]
    if left_out:
        lines += [f"> **Shortened to fit a comment.** Left out: {left_out}. `--format html` shows all.", ""]
    rows = [block.text for block in blocks if block.profile is None]
    lines += [*_TABLE_HEAD, *rows, ""] if rows else []
    inside: dict[int, list[str]] = {}
    for block in blocks:
        if block.profile is not None:
            inside.setdefault(block.profile, []).append(block.text)
    for at, texts in sorted(inside.items()):
        lines += [_summary(document["profiles"][at]), "", *texts, "</details>", ""]
    return "\n".join([*lines, _footer(document)]) + "\n"


_TABLE_HEAD: Final = (
    "| profile | what changes | cost a month, fewest copies | objectives, *predicted* | findings |",
    "|---|---|---|---|---|",
)


def _size(block: Block) -> int:
    return len(block.text.encode()) + 1


def _fitting(blocks: Sequence[Block], room_bytes: int) -> tuple[list[Block], str]:
    """The blocks that fit, in their order, and in words what does not: the least important first, from the end."""
    over, dropped = sum(map(_size, blocks)) - room_bytes, set[int]()
    for at in sorted(range(len(blocks)), key=lambda at: (-blocks[at].rank, -at)):
        if over <= 0:
            break
        over -= _size(blocks[at])
        dropped.add(at)
    kinds = [blocks[at].kind for at in sorted(dropped)]
    said = ", ".join(wording.counted(kinds.count(kind), kind) for kind in dict.fromkeys(kinds))
    return [block for at, block in enumerate(blocks) if at not in dropped], said


def _verdict(document: Document) -> str:
    verdict = document["verdict"]
    mark = wording.SEVERITY_MARKS[verdict["worst"]][0] if verdict["worst"] else "✓"
    return f"{mark} **{verdict['word']}** {prose(verdict['text'])}"


def _brief(document: Document) -> list[str]:
    return [f"- **{asked}**: {prose(said)}" for asked, said in brief_of(document).rows]


def _footer(document: Document) -> str:
    unaffected = document["unaffected"]
    others = f"; {wording.counted(unaffected, 'other profile')} not affected" if unaffected else ""
    return (
        f"<sub>Loadproof compared {code(document['base'])} with {code(document['head'])}: "
        f"{wording.synthesized(document)}, nothing deployed{others}.</sub>"
    )


def _row(profile: ProfileDocument) -> Block:
    cells = (name(profile), _changes(profile), _cost(profile), _objectives(profile), _found(profile))
    rank = {"break": 1, "risk": 2, "warning": 3, "info": 6}[profile["severity"] or "info"]
    return Block(rank, "profile", f"| {' | '.join(cells)} |")


def name(profile: ProfileDocument) -> str:
    state = wording.STATES[profile["state"]]
    shown = code(wording.name(profile), in_cell=True)
    return f"{shown} **{state}**" if state else shown


def _changes(profile: ProfileDocument) -> str:
    """The first fields with their values, then how many more, then what happens to resources."""
    cell = wording.changes_cell(profile)
    if cell:
        return cell
    lines = [
        f"{code(row['path'], in_cell=True)} {_value(row['before'])}{wording.ARROW}{_value(row['after'])}"
        for row in profile["fields"][:_FIELDS_SHOWN]
    ]
    more = len(profile["fields"]) - len(lines)
    lines += [f"{wording.counted(more, 'more field')}"] if more > 0 else []
    resources = wording.resources_line(profile["resources"])
    lines += [f"resources: {resources}"] if resources else []
    return "<br>".join(lines)


def _value(value: object, longest: int = wording.LONGEST_IN_CELL) -> str:
    """A field's value in a cell; a dash where a side has none."""
    return wording.NO_DATA if value is None else code(wording.value(value, longest), in_cell=True)


def _cost(profile: ProfileDocument) -> str:
    amounts, more, short = (money(text) for text in wording.cost_cell(profile))
    return "<br>".join([amounts, *(f"**{text}**" for text in (more, short) if text)])


def money(text: str) -> str:
    """Amounts are escaped: hosts read text between two dollar signs as mathematics."""
    return text.replace("$", "\\$")


def _objectives(profile: ProfileDocument) -> str:
    """The head's outcomes, and each objective that is newly missed with its figures."""
    lines = [wording.objectives_line(profile)]
    lines += [
        f"{prose(wording.title(row), in_cell=True)} {prose(wording.predicted(row, row['after']), in_cell=True)}, "
        f"bound {wording.bound(row, row['after'])}"
        for row in wording.newly_missed(profile)
    ]
    return "<br>".join(lines)


def _found(profile: ProfileDocument) -> str:
    """How many of each severity, and the gravest in words."""
    if not profile["findings"]:
        return "none"
    first = profile["findings"][0]
    said = [wording.findings_line(profile)]
    if first["severity"] != "info":
        said.append(f"{prose(first['title'], in_cell=True)} ({link(first)})")
    return "<br>".join(said)


def link(finding: FindingDocument) -> str:
    """The code, with a link where the page of findings has an address."""
    return f"[{finding['code']}]({finding['doc']})" if _LINK.fullmatch(finding["doc"]) else finding["code"]


def _summary(profile: ProfileDocument) -> str:
    counts = (("field", profile["fields"]), ("resource", profile["resources"]))
    said = [wording.findings_line(profile) or "no findings"]
    said += [wording.counted(len(rows), word) for word, rows in counts if rows]
    shown = html(wording.name(profile))
    return f"<details><summary>{shown}: {', '.join(said)}</summary>"


def _details(profile: ProfileDocument, at: int) -> Iterator[Block]:
    ranks = {"break": 1, "risk": 2, "warning": 4, "info": 6}
    refused = [f"- **Problem:** {prose(text)}" for text in wording.problems(profile)[:MOST_ROWS]]
    if refused:
        yield Block(1, "list of problems", "\n".join([*refused, ""]), at)
    for finding in profile["findings"]:
        yield Block(ranks[finding["severity"]], f"{finding['severity']} finding", _finding(finding), at)
    if profile["objectives"] and wording.judged(profile):
        yield Block(3, "objectives table", _objectives_table(profile), at)
    if profile["costs"] and wording.judged(profile):
        yield Block(4, "cost table", _costs_table(profile), at)
    if profile["fields"]:
        yield Block(5, "fields table", _fields_table(profile), at)
    if profile["resources"]:
        yield Block(7, "resources table", _resources_table(profile), at)
    for note in profile["notes"]:
        yield Block(8, "note", f"*Note:* {prose(note)}\n", at)


def _finding(finding: FindingDocument) -> str:
    mark, word = wording.SEVERITY_MARKS[finding["severity"]]
    place = f"{finding['file']}:{finding['line']}" if finding["line"] > 1 else finding["file"]
    subject = [code(text) for text in (finding["subject"], place) if text]
    lines = [
        f"**{mark} {word} {link(finding)}** {prose(finding['title'])}: {', '.join(subject)}"
        f"<br>{prose(finding['message'])}",
        f"- **Safe way:** {prose(finding['mend'])}",
    ]
    lines += [f"- **Seen in:** {prose(finding['evidence'])}"] if finding["evidence"] else []
    return "\n".join([*lines, ""])


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], after: str = "") -> str:
    """A titled table of at most MOST_ROWS rows; a line says how many more there are."""
    lines = [f"**{title}**", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows[:MOST_ROWS]]
    more = len(rows) - MOST_ROWS
    lines += ["", f"and {more:,} more"] if more > 0 else []
    lines += ["", after] if after else []
    return "\n".join([*lines, ""])


def _objectives_table(profile: ProfileDocument) -> str:
    has_measured = profile["evidence"]["state"] in ("current", "stale")
    head = ["objective", "bound", "*predicted* before", "*predicted* after", "range", "outlook"]
    head += ["measured"] if has_measured else []
    rows = [_objective(profile, row, has_measured=has_measured) for row in profile["objectives"]]
    grade = wording.grade(profile)
    trust = f"Predictions of grade {grade}. " if grade else ""
    return _table("Objectives", head, rows, f"<sub>{trust}{prose(wording.evidence(profile))}</sub>")


def _objective(profile: ProfileDocument, row: ObjectiveDocument, *, has_measured: bool) -> list[str]:
    before, after = row["before"], row["after"]
    bounds = [wording.bound(row, side) for side in (before, after)]
    cells = [
        wording.title(row),
        bounds[1] if bounds[0] == bounds[1] else wording.ARROW.join(bounds),
        wording.predicted(row, before),
        wording.predicted(row, after),
        wording.interval(row, after),
        " ".join(wording.OUTLOOK_MARKS[after["expected"]]) if after else "not set any more",
    ]
    cells += [wording.measured(profile, row) or wording.NO_DATA] if has_measured else []
    return [prose(text, in_cell=True) for text in cells]


def _costs_table(profile: ProfileDocument) -> str:
    rows = [[wording.COST_AT[row["at"]], *(money(text) for text in wording.cost(row))] for row in profile["costs"]]
    source = f" Prices: {linked(profile['price_source'], price_addresses())}." if profile["price_source"] else ""
    after = f"<sub>A month is 730 hours.{source}</sub>"
    return _table("Cost a month", ["copies", "before", "after", "difference"], rows, after)


def _fields_table(profile: ProfileDocument) -> str:
    longest = wording.LONGEST_VALUE
    rows = [
        [code(row["path"], in_cell=True), _value(row["before"], longest), _value(row["after"], longest)]
        for row in profile["fields"]
    ]
    return _table("Fields of the profile", ["field", "before", "after"], rows)


def _resources_table(profile: ProfileDocument) -> str:
    rows = [
        [prose(word), code(name_, in_cell=True) if name_ else "", code(type_, in_cell=True), prose(why, in_cell=True)]
        for word, name_, type_, why in wording.resource_rows(profile)
    ]
    return _table("Resources", ["deployment", "resource", "type", "because"], rows)
