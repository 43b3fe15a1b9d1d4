"""The review in a terminal: within its width, with or without colours, and never steered by what it shows."""

from __future__ import annotations

import re

import pytest
from review_samples import chat, hostile, long, only_good, ordinary, refused, with_text
from rich.cells import cell_len

from loadproof.review.document import document
from loadproof.review.formats.text import as_text
from loadproof.review.model import Review
from loadproof.review.wording import other_traffic

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [40, 72, 100, 160])
@pytest.mark.parametrize("sample", [ordinary, hostile])
def test_no_line_is_wider_than_the_terminal(sample: object, width: int) -> None:
    """In columns, as a terminal counts them."""
    written = as_text(document(sample()), width=width)  # type: ignore[operator]
    assert max(map(cell_len, written.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_no_word_is_cut(width: int) -> None:
    """Each that stands in a narrow review stands in a wide one; an address too, which is wider than the terminal."""
    source = "seen 2026; https://example.com/" + "x" * 80 + " (a list)"
    shown = document(ordinary())
    for profile in shown["profiles"]:
        profile["price_source"] = source
    narrow, wide = (as_text(shown, width=columns) for columns in (width, 400))
    rules = {word for word in narrow.split() if set(word) <= {"─"}}
    assert {word for word in set(narrow.split()) - set(wide.split()) - rules if not word.endswith(":")} == set()


def test_the_verdict_is_the_first_line() -> None:
    """Mark, word, sentence."""
    first = as_text(document(only_good()), width=200).splitlines()[0]
    assert first == (
        "✓ Nothing breaks: 1 profile changed; cost unchanged at the fewest copies, +$5,840 a month at the most; "
        "objectives predicted to hold."
    )


def test_a_finding_says_place_what_and_the_safe_way() -> None:
    """In four lines."""
    lines = as_text(document(ordinary()), width=200).splitlines()
    at = lines.index("  ▲ risk LR010 endpoint.instance_type, deploy_profiles/prod/chat.yaml:7")
    assert lines[at + 1 : at + 4] == [
        "    the instance type changes from `ml.g6e.2xlarge` to `ml.g5.12xlarge` while scaling holds 2 copies or more: "
        "the update starts from `copies.min`",
        "    safe way: raise `copies.min` to what runs now before the update, and lower it afterwards",
        "    seen in: `EndpointConfig3F1` ProductionVariants/0/InstanceType",
    ]


@pytest.mark.parametrize("width", [60, 120])
def test_a_terminal_that_knows_only_ascii_gets_nothing_else(width: int) -> None:
    """Marks become x, !, ?, -; foreign letters their numbers."""
    written = as_text(document(hostile()), width=width, ascii_only=True)
    assert written.isascii()
    assert as_text(document(ordinary()), width=width, ascii_only=True).startswith("x BREAKS prod/chat: ")
    assert "\\xe9" in as_text(document(with_text("é")), width=width, ascii_only=True)


def test_what_it_shows_steers_no_terminal() -> None:
    """Escape sequences and direction characters of a profile are spelled out."""
    written = as_text(document(with_text("\x1b[2J\x1b]8;;https://e\x07 \u202e")), width=160)
    assert "\x1b" not in written and "\x07" not in written and "\u202e" not in written
    assert "\\u001b[2J" in written


def test_colours_are_the_only_sequences() -> None:
    """And only where they are asked for."""
    coloured = as_text(document(ordinary()), coloured=True)
    assert COLOUR.search(coloured)
    assert COLOUR.sub("", coloured) == as_text(document(ordinary()))


def test_square_brackets_are_text() -> None:
    """Rich reads `[red]` as markup: a profile's are shown."""
    assert "[bold red]x[/]" in as_text(document(with_text("[bold red]x[/]")), width=200)


def test_new_and_refused_profiles_have_no_figures_to_compare() -> None:
    """A refused head has no objectives and no cost; below the verdict its problem is said once."""
    written = as_text(document(Review("a", "b", (refused(),), 0)))
    assert "cost a month  " not in written and "objective  " not in written
    assert written.count("expected 0..4, found 6") == 2


def test_long_tables_are_cut_and_say_so() -> None:
    """80 fields: 50 and how many more."""
    written = as_text(document(Review("a", "b", long().profiles[:1], 0)))
    assert "VARIABLE_49 " in written and "VARIABLE_50 " not in written
    assert "  and 30 more" in written


def test_measured_evidence_says_whether_it_still_holds() -> None:
    """A stale run names what changed since."""
    written = as_text(document(Review("a", "b", (chat(),), 0)), width=250)
    assert (
        "Run 20261102T081500Z-chat of 2026-11-02T08:15:00Z: PASS, claimed. It is stale: since then "
        "endpoint.instance_type, container.settings.tensor_parallel_degree changed." in written
    )


def test_evidence_of_other_traffic_says_so() -> None:
    """A changed workload is other traffic; whatever else changed is not."""
    assert other_traffic(["workload.input_tokens.mean"]) == " It was driven with other traffic than is expected now."
    assert other_traffic(["workload"]) != ""
    assert other_traffic(["copies.max", "workloads"]) == ""


def test_beyond_a_bound_profiles_are_counted() -> None:
    """The worst are shown: they come first."""
    shown = document(ordinary())
    [first, *_] = shown["profiles"]
    shown["profiles"] = [{**first, "profile": f"p{at}"} for at in range(203)]
    written = as_text(shown)
    assert "prod/p199" in written and "prod/p200" not in written
    found = 3 * len(first["findings"])
    assert f"And 3 more profiles with {found} findings, none worse than these; all are in" in written
