"""The comment: what it says, how it is shortened, and that nothing foreign in it is ever more than text.

Rendered by cmark-gfm, which GitHub itself renders with, and by markdown-it, another reading of the same grammar.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import zip_longest

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from review_samples import HOSTILE, comment_only, empty, hostile, long, only_good, ordinary, with_text

from loadproof import catalog
from loadproof.review.document import document
from loadproof.review.formats.escaping import LONGEST_PROSE, code, linked, prose
from loadproof.review.formats.html import as_html
from loadproof.review.formats.markdown import LONGEST_BYTES, MARKER, as_markdown
from loadproof.review.model import Review
from loadproof.untrusted import with_escapes

JOINER = "\N{WORD JOINER}"
FRAGMENTS = (
    *("`", "``", "```", "~~~", "|", "\\", "\\|", "*", "**", "_", "[a](https://e.example)", "![i](x)", "[a]: /x", "<b>"),
    *(
        "</details>",
        "</summary>",
        "<!-- x",
        "-->",
        "&lt;",
        "&#60;",
        "\n",
        "\n\n",
        "\r",
        "# T",
        "- a",
        "1. a",
        "> q",
        "---",
    ),
    *(
        "@octocat",
        "@org/team",
        "#12",
        "!12",
        "GH-12",
        "éGH-12",
        "日GH-12",
        "_GH-12",
        "[vulnerability:12]",
        "[feature_flag:12]",
        "*iteration:12",
        "a/b#12",
        "CVE-2024-1",
        ":octocat:",
        ":+1:",
        ":100:",
        "$x$",
        "$$",
    ),
    *(
        "https://e.example",
        "www.e.example",
        "WWW",
        "HTTP://e.example",
        "ftp://e.example",
        "x+y://e",
        "//evil.example",
        "///evil.example",
        "me@e.example",
        "me@-e.example",
        "me@.e.example",
        "mailto:a@b.c",
    ),
    *(
        "\u202e",
        "\u200b",
        "\u2066",
        "\x00",
        "\x1b[31m",
        "\ud800",
        "\ufeff",
        "\t",
        " ",
        "a",
        "0",
        "é",
        "🚀",
        "~~s~~",
        "^",
        "=",
    ),
)
# Fragments more often than not: what is dangerous is rare among arbitrary characters.
FOREIGN = st.one_of(
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3)), min_size=1, max_size=12).map("".join),
    st.text(min_size=1, max_size=30),
).filter(bool)


class Seen(HTMLParser):
    """Elements with their attributes in order, and the text that hosts look through for mentions and references."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.outside_code: list[str] = []
        self._code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("code", "pre")
        self.outside_code += ["\N{OBJECT REPLACEMENT CHARACTER}"] * self._code  # texts on either side of it are two
        # How many words of a message are code is the message's to say.
        if tag != "code":
            self.elements.append(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")
        if tag != "code":
            self.elements.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.elements.append(f"comment {data}")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.outside_code.append(data)


def as_github_shows(markdown: str) -> str:
    page: str = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)
    return page


def as_markdown_it_shows(markdown: str) -> str:
    page: str = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    return page


def comment(text: str) -> str:
    return as_markdown(document(with_text(text)))


def words(page: str) -> str:
    """What a reader sees, without the joiners that no one sees."""
    return html.unescape(re.sub(r"<[^>]*>", "", page)).replace(JOINER, "")


@pytest.fixture(scope="module")
def harmless() -> dict[str, list[str]]:
    """The elements of the same comment about a profile called x."""
    return {show.__name__: Seen(show(comment("x"))).elements for show in (as_github_shows, as_markdown_it_shows)}


@pytest.mark.parametrize(
    ("of", "said"),
    [(ordinary, "both sides synthesized but for 1 refused profile"), (only_good, "both sides synthesized, nothing")],
)
def test_a_refused_head_is_not_called_synthesized(of: Callable[[], Review], said: str) -> None:
    shown = document(of())
    assert said in as_markdown(shown) and said in as_html(shown)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FOREIGN)
def test_no_element_arises_from_what_a_profile_holds(harmless: dict[str, list[str]], text: str) -> None:
    """Links, images, tables, rows, cells, lists, headings, HTML, comments: those of the harmless twin, one by one."""
    written = comment(text)
    for show in (as_github_shows, as_markdown_it_shows):
        found = Seen(show(written)).elements
        differing = [pair for pair in zip_longest(found, harmless[show.__name__]) if pair[0] != pair[1]]
        assert not differing[:3], show.__name__


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FOREIGN)
@example("WWW")
def test_nobody_is_mentioned_and_nothing_referred_to(text: str) -> None:
    """Hosts look through text outside of code once it is rendered: no escape of Markdown is left there to help."""
    shown = "".join(Seen(as_github_shows(comment(text))).outside_code)
    assert not re.search(r"@\w", shown)
    assert not re.search(r"[#!]\d", shown)
    assert not re.search(r"(?<![A-Za-z0-9])GH-\d", shown, re.IGNORECASE)
    assert not re.search(r"[\[*][a-z_]+:[^\u2060]", shown, re.IGNORECASE)
    assert not re.search(r"//\w", shown)
    assert not re.search(r":[a-z+-][\w+-]*:|:100:|:1234:", shown, re.IGNORECASE)
    assert not re.search(r"\b(?:https?|ftp)://|\bwww\.|\bmailto:\w", shown, re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "parted"),
    [
        *(("éGH-12", "éGH-|12"), ("日GH-12", "日GH-|12"), ("_GH-12", "_GH-|12")),
        *((f"[{kind}:12]", f"[{kind}:|12]") for kind in ("vulnerability", "feature_flag", "work_item", "cadence")),
        *(("[issue:12]", "[issue:|12]"), ("*iteration:12", "*iteration:|12")),
        *(("//evil.example", "/|/evil.example"), ("https://evil.example", "https:|/|/evil.example")),
        ("s3://acme-models/x", "s3://acme-models/x"),
    ],
)
def test_what_hosts_recognise_is_parted(text: str, parted: str) -> None:
    """A word joiner stands where the bar is. https://docs.gitlab.com/user/markdown/#gitlab-specific-references; a
    link of linkify-it may begin with `//` (https://github.com/markdown-it/linkify-it)."""
    assert "".join(Seen(as_github_shows(prose(text))).outside_code).strip() == parted.replace("|", "\N{WORD JOINER}")


@settings(max_examples=200, deadline=None)
@given(FOREIGN)
def test_a_sentence_is_shown_character_for_character(text: str) -> None:
    """But for line breaks, which become spaces, backticks, which mark code, and what cannot be seen, spelled out."""
    expected = with_escapes(re.sub(r"[ \r\n]*[\r\n][ \r\n]*", " ", text)).replace("`", "")
    shown = words(as_github_shows(f"a {prose(text)} z")).replace("`", "")
    assert " ".join(shown.split()) == " ".join(f"a {expected} z".split())


@settings(max_examples=200, deadline=None)
@given(FOREIGN.filter(str.strip))
def test_a_name_is_shown_character_for_character(text: str) -> None:
    """Backticks, bars and backslashes too, in a table and out of one."""
    one_line = with_escapes(re.sub(r"[ \r\n]*[\r\n][ \r\n]*", " ", text))
    expected = " ".join(f"a {one_line} z".split())
    assert " ".join(words(as_github_shows(f"a {code(text)} z")).split()) == expected
    table = f"| h | i |\n|---|---|\n| a {code(text, in_cell=True)} z | 2 |"
    cell = as_github_shows(table).split("<tbody>")[1].split("<td>")[1]
    assert " ".join(words(cell.removesuffix("\n")).split()) == expected


def test_the_hostile_sample_gives_only_text(harmless: dict[str, list[str]]) -> None:
    """Every kind of attack at once, as GitHub shows it."""
    assert Seen(as_github_shows(comment(HOSTILE))).elements == harmless["as_github_shows"]
    assert "\u202e" not in comment(HOSTILE) and "\u200b" not in comment(HOSTILE)


def test_identifiers_in_sentences_can_be_copied() -> None:
    """Times, places in files and S3 addresses hold nothing that a host recognises, so nothing parts them."""
    for text in ("2026-11-02T08:15:00Z", "prod/chat.yaml:14:9", "s3://bucket/key", "ml.g5.12xlarge", "ttft_p95_ms"):
        assert JOINER not in prose(text)


def test_the_marker_is_first() -> None:
    """A bot finds its own comment by the first line; the verdict follows."""
    lines = as_markdown(document(ordinary())).splitlines()
    assert lines[0] == MARKER == "<!-- loadproof-review -->"
    assert lines[1].startswith("✗ **BREAKS** prod/chat: endpoint prod-chat is replaced by prod-chat-g5 (LR001)")


def test_a_row_says_what_changes_what_it_costs_and_what_was_found() -> None:
    """Three fields with their values, the rest counted; amounts escaped, as hosts read $…$ as mathematics."""
    row = next(line for line in as_markdown(document(ordinary())).splitlines() if line.startswith("| `prod/chat`"))
    assert [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in row.split(" | ")[1:]] == [
        "`endpoint.instance_type` `ml.g6e.2xlarge` → `ml.g5.12xlarge`"
        "<br>`container.settings.tensor_parallel_degree` `1` → `4`<br>`scaling.policies[0].target` `6` → `8`"
        "<br>2 more fields<br>resources: 2 replaced, 1 removed, 2 updated",
        r"\$1,767 → \$5,176<br>**+\$3,409**",
        "✗ 1 missed, ≈ 1 in doubt, ✓ 1 met<br>TTFT p95 660 ms, bound ≤ 500 ms",
        "✗ 1 break, ▲ 2 risks, ○ 1 info<br>Endpoint replaced or removed (LR001) |",
    ]


def test_what_the_table_leaves_out_is_folded() -> None:
    """One summary a profile, every finding with its safe way, before and after of each figure."""
    seen = as_github_shows(as_markdown(document(ordinary())))
    assert seen.count("<details>") == seen.count("</details>") == 4
    for words_ in (
        "Safe way:",
        "Seen in:",
        "508 to 859 ms",
        "AWS::SageMaker::InferenceComponent",
        "441 ms",
        "It is stale",
    ):
        assert words_ in html.unescape(seen).replace("\N{NO-BREAK SPACE}", " ")


def test_a_code_is_a_link_only_where_its_page_has_an_address() -> None:
    """A path would lead nowhere from a comment."""
    assert "[LR001](" not in as_markdown(document(ordinary()))
    there = as_markdown(document(ordinary(), docs="https://docs.example/review-findings/"))
    assert "**✗ break [LR001](https://docs.example/review-findings/#lr001)**" in there
    assert "](" not in as_markdown(document(ordinary(), docs="javascript:alert(1)//"))


def test_nothing_changed_is_said_in_one_line() -> None:
    """Without a table where no profile is affected."""
    assert "|" not in as_markdown(document(empty()))
    assert "✓ **Nothing changes** in what is deployed by prod/summaries." in as_markdown(document(comment_only()))
    assert "<details>" not in as_markdown(document(comment_only()))


def test_a_long_review_fits_a_comment() -> None:
    """60 profiles with 80 fields each: verdict, all rows and all breaks stay, what goes is said."""
    written = as_markdown(document(long()))
    assert LONGEST_BYTES - 2_000 < len(written.encode()) <= LONGEST_BYTES
    assert written.count("\n| `prod/chat-") == 60
    assert written.count("**✗ break LR001**") == 60
    assert "> **Shortened to fit a comment.** Left out: " in written
    assert "60 info findings" in written and "60 resources tables" in written


@pytest.mark.parametrize("longest_bytes", [1_500, 4_000, 20_000])
def test_however_short_it_stays_whole(longest_bytes: int) -> None:
    """Verdict and last line stay, every fold that opens closes."""
    written = as_markdown(document(long()), longest_bytes=longest_bytes)
    assert len(written.encode()) <= longest_bytes
    assert written.startswith(f"{MARKER}\n✗ **BREAKS**")
    assert written.count("<details>") == written.count("</details>")
    assert written.rstrip().endswith("</sub>")


def test_a_hostile_review_is_shortened_too() -> None:
    """A long name cannot push the verdict out: each untrusted text has a limit of its own."""
    written = comment("`" * 100_000)
    assert len(written.encode()) <= LONGEST_BYTES
    assert MARKER in written and len(prose("w" * 100_000)) == LONGEST_PROSE


@pytest.mark.parametrize("sample", [ordinary, only_good, hostile])
def test_no_line_ends_in_a_space(sample: object) -> None:
    """Two of them would be a line break, and editors remove them."""
    lines = as_markdown(document(sample())).splitlines()  # type: ignore[operator]
    assert [line for line in lines if line != line.rstrip(" ")] == []


@pytest.mark.parametrize("text", [
    "see 5808eefb3f8534c56f8267bac900569eb310000a", "5808eef", "012345deadbee", "é1234567", "ſ1234567", "7654321",
    "a" * 41,
])  # fmt: skip
def test_a_commit_is_no_link(text: str) -> None:
    """Hosts link seven to forty digits that stand alone, whatever is before them."""
    shown = prose(text)
    assert re.search(r"(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", shown) is None
    assert shown.replace("\N{WORD JOINER}", "") == text


def test_figures_of_ours_stay_whole() -> None:
    assert prose("1,234,567 tokens in 123456 ms") == "1,234,567 tokens in 123456 ms"


@pytest.mark.parametrize("blank", ["\u3164", "\u2800", "\ufe0f", "\u034f", "\U000e0041"])
def test_what_has_no_shape_is_spelled_out(blank: str) -> None:
    assert blank not in prose(f"a{blank}b")


def links(markdown: str) -> list[str]:
    return re.findall(r'href="([^"]*)"', cmarkgfm.github_flavored_markdown_to_html(markdown))


def test_the_source_of_a_price_can_be_followed() -> None:
    """Every address that the catalog names for prices is one link, to that address, whatever stands around it."""
    assert len(catalog.price_addresses()) >= 5
    for row in catalog.instances().values():
        wanted = [
            one for one in catalog.price_addresses() if re.search(rf"{re.escape(one)}(?![\w./@%+-])", row.price_source)
        ]
        assert links(f"Prices: {linked(row.price_source, catalog.price_addresses())}.") == wanted
        assert bool(wanted) == bool(row.price_source)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=6).map("".join))
def test_nothing_else_becomes_a_link(foreign: str) -> None:
    """Around the catalog's address, and in its stead."""
    address = min(catalog.price_addresses())
    assert set(links(f"Prices: {linked(f'{foreign} {address} {foreign}', {address})}.")) <= {address}
    assert links(f"Prices: {linked(foreign, {address})}.") == []
