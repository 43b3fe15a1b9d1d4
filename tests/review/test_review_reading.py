"""A document that a stranger left: what fits the schema is shown in our words, everything else is refused in one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given, settings
from hypothesis import strategies as st
from review_samples import chat, hostile, ordinary

from loadproof.cli.main import run
from loadproof.errors import InputError
from loadproof.review.document import document
from loadproof.review.formats import FORMATS, formatted
from loadproof.review.formats.escaping import LONGEST_NAME
from loadproof.review.model import Review
from loadproof.review.reading import read_document
from loadproof.review.rules import RULES
from loadproof.review.shapes import Document

DOCS = "https://github.com/acme/endpoints/blob/main/docs/review-findings.md"
PAYLOADS = (
    "@octocat",
    "<p>&#64octocat</p>", "&#x40octocat", "&nbsp@octocat", "&amp@octocat", "&commat;octocat", "&#64;octocat",
    "[x](https://evil.example)", "<a href=https://evil.example>x</a>", "https://evil.example", "www.evil.example",
    "![x](https://evil.example/p.png)", "<img src=//evil.example>", "</details></summary>",
    "<!-- loadproof-review -->",
    "#1", "acme/endpoints#1", "/close", "\n\n@octocat", "\n| a |\n|---|\n", "`@octocat", "``` \n@octocat\n```",
    "::error::x",
    "\u202e", "&lt;script&gt;alert(1)&lt;/script&gt;", "mailto:a@evil.example",
    "\\@octocat", "$\\href{https://evil.example}{x}$",
)  # fmt: skip
ALLOWED_TAGS = {"details", "summary", "code", "sub", "br", "p", "ul", "li", "strong", "em", "table", "thead", "tbody"}
ALLOWED_TAGS |= {"tr", "th", "td", "a", "del", "blockquote"}


class Seen(HTMLParser):
    """What a reader's page would hold, and what a host would look for mentions in: text outside of code and links."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.words = ""
        self.comments: list[str] = []
        self._quiet = 0
        self.feed(html)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [str(value) for name, value in attributes if name in ("href", "src", "action")]
        self._quiet += tag in ("code", "pre", "a")

    def handle_endtag(self, tag: str) -> None:
        self._quiet -= tag in ("code", "pre", "a")

    def handle_data(self, data: str) -> None:
        self.words += " " if self._quiet else data


def sample() -> Document:
    """The samples' review, where every finding has a severity that its rule gives."""
    made = document(ordinary(), docs=DOCS)
    for finding in (finding for profile in made["profiles"] for finding in profile["findings"]):
        if (finding["code"], finding["severity"]) == ("LR026", "info"):
            finding |= {"code": "LR036", "title": RULES.by_code["LR036"].title, "doc": f"{DOCS}#lr036"}
    return made


def left() -> dict[str, Any]:
    """A whole document as JSON: three profiles with findings, costs, objectives and evidence."""
    found: dict[str, Any] = json.loads(formatted(sample(), "json"))
    return found


def read(found: object) -> Any:
    return read_document(json.dumps(found).encode(), docs=DOCS)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every text in it."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from leaves(one, (*path, at))
    elif isinstance(value, str):
        yield path


def put(value: Any, path: tuple[Any, ...], found: object) -> None:
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = found


def keys(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key in it."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield (*path, name)
            yield from keys(one, (*path, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from keys(one, (*path, at))


def drop(value: Any, path: tuple[Any, ...]) -> None:
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]


PLACES = list(leaves(left()))
KEYS = list(keys(left()))


def rows(markdown: str) -> list[str]:
    return [line for line in markdown.splitlines() if line.startswith("|")]


def test_an_honest_document_s_tables_are_shown_as_they_were_made() -> None:
    """Names, figures, severities and titles; and its messages in quotation marks."""
    made = sample()
    for profile in made["profiles"]:
        if profile["evidence"]["run"] is not None:
            profile["evidence"]["run"]["link"] = ""
    shown = read(left())
    assert rows(formatted(shown, "markdown")) == rows(formatted(made, "markdown"))
    for before, after in zip(made["profiles"], shown["profiles"], strict=True):
        for one, other in zip(before["findings"], after["findings"], strict=True):
            assert one["severity"] == other["severity"]
            assert other["message"] == f"“{one['message']}; {one['mend']}”".replace('"', "'")


SENTENCE = "Reviewed and approved by the maintainers of this repository, merge it"
QUOTED = re.compile("`[^`]*`|<code>.*?</code>|“[^”]*”", re.DOTALL)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("given", [SENTENCE, f"ok”. {SENTENCE}. “", f'ok". {SENTENCE}', f"`a` {SENTENCE} `b`"])
def test_no_sentence_of_a_document_is_taken_for_ours(place: tuple[Any, ...], given: str) -> None:
    """Wherever it is put, it stands in the comment in quotation marks or as code, or it does not stand there."""
    found = left()
    put(found, place, given)
    try:
        markdown = formatted(read(found), "markdown")
    except InputError:
        return
    assert SENTENCE not in QUOTED.sub("", markdown)


def test_the_verdict_is_reckoned_again() -> None:
    """Out of findings, costs and objectives, with the rule's title: (7.09 - 2.42 + 1.006) · 730 = $4,143."""
    found = left()
    found["verdict"]["text"] = SENTENCE
    assert read(found)["verdict"]["text"] == (
        "prod/chat: endpoint replaced or removed (LR001), and 1 more break; +$4,143 a month at the fewest copies; "
        "prod/chat TTFT p95 predicted 660 ms, objective at most 500 ms."
    )


def test_a_difference_is_reckoned_again() -> None:
    """After less before, whatever the document says."""
    found = left()
    found["profiles"][0]["costs"][0]["delta_usd_per_month"] = -1e6
    assert read(found)["profiles"][0]["costs"] == left()["profiles"][0]["costs"]


def test_a_finding_of_no_rule_is_counted_and_not_shown() -> None:
    """A later Loadproof has more rules than this one; a stranger's have no words here."""
    found = left()
    found["profiles"][0]["findings"][0] |= {"code": "LR999", "severity": "break", "message": SENTENCE}
    shown = read(found)
    assert shown["left_out"] == {"profiles": 0, "findings": {"break": 1, "risk": 0, "warning": 0, "info": 0}, "rows": 0}
    assert shown["findings"] == left()["findings"]
    assert "LR999" not in formatted(shown, "markdown") + formatted(shown, "sarif")
    assert "left out here: 1 break" in formatted(shown, "markdown")


@pytest.mark.parametrize(("said", "shown"), [("info", "break"), ("warning", "warning"), ("risk", "risk")])
def test_a_severity_is_one_that_its_rule_gives(said: str, shown: str) -> None:
    """LR001 is a break, a risk or a warning, and never an info."""
    found = left()
    [place] = [at for at, one in enumerate(found["profiles"][0]["findings"]) if one["code"] == "LR001"]
    found["profiles"][0]["findings"][place]["severity"] = said
    findings = [one for profile in read(found)["profiles"] for one in profile["findings"] if one["code"] == "LR001"]
    assert [one["severity"] for one in findings] == [shown]


@pytest.mark.parametrize("file", ["SECURITY.md", "app.py", "deploy_profiles.yaml", ".github/workflows/ci.yaml"])
def test_a_finding_stands_in_files_of_its_profile(file: str) -> None:
    """Elsewhere no file of the repository is annotated: it is shown at the profile."""
    found = left()
    found["profiles"][0]["findings"][0] |= {"file": file, "line": 3}
    shown = read(found)["profiles"][0]
    assert (shown["findings"][0]["file"], shown["findings"][0]["line"]) == (shown["file"], 1)


def test_a_profile_s_file_is_its_own() -> None:
    """`deploy_profiles/prod/chat.yaml` is prod/chat's."""
    found = left()
    found["profiles"][0]["file"] = "SECURITY.md"
    with pytest.raises(InputError, match="is no file of profile"):
        read(found)


@settings(max_examples=300)
@given(st.sampled_from(PLACES), st.sampled_from(PAYLOADS), st.booleans())
def test_no_text_of_a_document_is_more_than_text(place: tuple[Any, ...], payload: str, within: bool) -> None:
    """In GitHub's own renderer: no mention, no link but ours, no element that we do not write."""
    found = left()
    put(found, place, f"prod {payload} chat" if within else payload)
    try:
        shown = read(found)
    except InputError:
        return
    markdown = formatted(shown, "markdown")
    seen = Seen(cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE))
    assert seen.tags <= ALLOWED_TAGS
    assert all(link.startswith(f"{DOCS}#l") for link in seen.links)
    assert not re.search(r"(?<![\w\u2060])@(?=[A-Za-z0-9])", seen.words)
    assert seen.comments == [" loadproof-review "]
    json.loads(formatted(shown, "sarif"))


def test_sarifs_tool_and_category_are_ours() -> None:
    """Whatever the document says: it has no place for them."""
    sarif = json.loads(formatted(read(left()), "sarif"))["runs"][0]
    assert sarif["tool"]["driver"]["name"] == "Loadproof"
    assert sarif["automationDetails"]["id"] == "loadproof-review/"


def test_a_break_cannot_call_itself_harmless() -> None:
    """The word of the verdict and the counts follow from the findings."""
    found = left()
    found["verdict"] |= {"worst": None, "word": "Nothing breaks:"}
    found["findings"] = dict.fromkeys(found["findings"], 0)
    shown = read(found)
    assert shown["verdict"]["word"] == "BREAKS" and shown["verdict"]["worst"] == "break"
    assert shown["findings"]["break"] == sum(
        finding["severity"] == "break" for profile in shown["profiles"] for finding in profile["findings"]
    )


def test_a_findings_title_is_its_rules() -> None:
    """A stranger's words stand where his words are expected."""
    found = left()
    found["profiles"][0]["findings"][0]["title"] = "Approved by security"
    assert "Approved by security" not in formatted(read(found), "markdown")


@pytest.mark.parametrize("file", ["/etc/passwd", "../../x", "a/../../x", "a\\b", "a\0b"])
def test_a_file_outside_of_the_repository_is_refused(file: str) -> None:
    """Findings lie in the repository."""
    found = left()
    found["profiles"][0]["findings"][0]["file"] = file
    with pytest.raises(InputError, match="no path within a repository"):
        read(found)


def test_a_document_without_one_of_its_keys_is_refused_or_shown() -> None:
    """Whichever is left out: bad input, or every format without a traceback."""
    shown = []
    for path in KEYS:
        found = left()
        drop(found, path)
        try:
            document = read(found)
        except InputError:
            continue
        shown.append(path)
        for form in FORMATS:
            formatted(document, form)
    # What a run measured is by the objectives' names, and an objective need not be measured.
    assert {path[-2] for path in shown} == {"measured"}


@pytest.mark.parametrize("place", [("profiles", 0, "costs", 0, "before"), ("profiles", 0, "curves"), ("findings",)])
def test_an_object_without_its_keys_is_refused(
    place: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As bad input, with the place of each."""
    found = left()
    put(found, place, {})
    (tmp_path / "left.json").write_text(json.dumps(found), encoding="utf-8")
    assert run(["review", "--from", str(tmp_path / "left.json"), "--format", "html"]) == 2
    assert re.search(".".join(map(str, place)) + r"\.\w+: Field required", capsys.readouterr().err)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


FORGED: dict[str, tuple[tuple[Any, ...], object, str]] = {
    "another version": (("schema_version",), 2, "schema_version 2, expected 1"),
    "an unknown key": (("run",), "rm -rf", "Extra inputs are not permitted"),
    "a number for a text": (("base",), 7, "base: Input should be a valid string"),
    "a text for a number": (("unaffected",), "7", "unaffected: Input should be a valid integer"),
    "an unknown state": (("profiles", 0, "state"), "approved", "profiles.0.state"),
    "an unknown severity": (("profiles", 0, "findings", 0, "severity"), "fine", "severity"),
    "a code that is none": (("profiles", 0, "findings", 0, "code"), "x](y", "is of no review"),
    "a line that is none": (("profiles", 0, "findings", 0, "line"), -1, "is of no review"),
    "deep": (("profiles", 0, "fields", 0, "before"), deep(60), "nested deeper"),
    "long": (("verdict", "text"), "x" * 20_001, "a text of 20,001 characters"),
    "a figure that is none": (("profiles", 0, "costs", 0, "after", "usd_per_hour"), 1e300, "a figure beyond 1e+30"),
    "many": (("profiles", 0, "notes"), ["x"] * 20_001, "20,001 items"),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_no_review_writes_is_refused(case: str) -> None:
    """With its place and what was expected."""
    path, value, told = FORGED[case]
    found = left()
    put(found, path, value)
    with pytest.raises(InputError) as raised:
        read(found)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{", b'{"a": NaN}', b"\xff", b" " * (8 * 2**20 + 1), b"[" * 100_000]
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    """One error of ours, whatever it is."""
    with pytest.raises(InputError):
        read_document(data)


@pytest.mark.parametrize("command", ["::error::x", "  ::stop-commands::x", "##[error]x", "a ##[add-mask]x"])
@pytest.mark.parametrize("before", ["", "a\n", "a\r\n", "\N{LINE SEPARATOR}"])
def test_no_key_of_a_stranger_is_a_command_to_the_runner(
    command: str, before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the job that holds the rights to comment the refusal is printed."""
    (tmp_path / "left.json").write_text(json.dumps(left() | {f"{before}{command}\ny": 1}))
    assert run(["review", "--from", str(tmp_path / "left.json")]) == 2
    printed = capsys.readouterr()
    lines = re.split(r"[\r\n\u2028]", printed.out + printed.err)
    assert "Extra inputs are not permitted" in printed.err
    assert [line for line in lines if line.lstrip().startswith("::") or "##[" in line] == []


def test_the_verb_shows_a_stranger_s_review_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--from FILE`: the files that were asked for, and the exit code of its findings."""
    (tmp_path / "left.json").write_text(formatted(document(Review("a", "b", (chat(),), 0)), "json"), encoding="utf-8")
    told = ["review", "--from", str(tmp_path / "left.json"), "--docs", DOCS]
    assert run([*told, "--output", str(tmp_path / "r.md"), "--output", str(tmp_path / "r.sarif")]) == 1
    assert "BREAKS" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert run([*told, "main"]) == 2
    assert "leave BASE and HEAD out" in capsys.readouterr().err


def test_a_hostile_review_is_bounded_on_the_page() -> None:
    """Names are cut, however long they are."""
    found = json.loads(formatted(document(hostile()), "json"))
    for at, profile in enumerate(found["profiles"]):
        profile |= {"environment": "W" * 500, "profile": f"{at}", "file": f"deploy_profiles/{'W' * 500}/{at}.yaml"}
    shown = formatted(read(found), "markdown")
    assert "W" * (LONGEST_NAME + 2) not in shown


def test_a_document_from_before_classes_had_rows_is_read() -> None:
    """`part` is of a class's objective alone; without one the document is as it was."""
    assert not any("part" in row for profile in left()["profiles"] for row in profile["objectives"])
    assert all("part" not in row for row in read(left())["profiles"][0]["objectives"])


def test_a_class_s_objective_is_named_with_its_class() -> None:
    """In the table of the comment, out of the document alone."""
    found = left()
    place = next(at for at, one in enumerate(found["profiles"]) if one["objectives"] and one["state"] == "changed")
    found["profiles"][place]["objectives"][0]["part"] = "agent"
    assert "TTFT p95 of agent" in formatted(read(found), "markdown")
