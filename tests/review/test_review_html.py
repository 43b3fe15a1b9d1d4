"""The page: everything in it, nothing foreign that is markup, nothing that is fetched."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from review_samples import HOSTILE, chat, comment_only, empty, hostile, long, only_good, ordinary, with_text

from loadproof import catalog
from loadproof.review.document import document
from loadproof.review.formats.html import as_html
from loadproof.review.model import Review


class Seen(HTMLParser):
    """Elements with the names of their attributes, and the text outside of styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.texts: list[str] = []
        self._style = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._style = tag == "style"
        if tag != "code":  # how many words of a message are code is the message's to say
            self.elements.append(" ".join([tag, *(name for name, _ in attrs)]))

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(review: Review) -> Seen:
    return Seen(as_html(document(review)))


@pytest.fixture(scope="module")
def harmless() -> list[str]:
    """The elements of the same page about a profile called x."""
    return page(with_text("x")).elements


FOREIGN = st.lists(
    st.one_of(
        st.sampled_from(["<b>", "</td>", '"', "'", "&lt;", "{{ 7*7 }}", "{%", "`", "\n", "\ud800", "-->"]), st.text()
    ),
    min_size=1,
    max_size=8,
).map("".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FOREIGN.filter(bool))
def test_no_element_arises_from_what_a_profile_holds(harmless: list[str], text: str) -> None:
    """One by one those of the harmless twin, attributes too."""
    assert page(with_text(text)).elements == harmless


def test_hostile_text_is_shown_as_text(harmless: list[str]) -> None:
    """Character for character; what cannot be seen is spelled out."""
    seen = page(hostile())
    assert seen.elements == harmless
    assert "<script>alert(1)</script>" in seen.text
    assert "\\u202egnp.exe" in "".join(seen.text.split())
    assert "\u202e" not in as_html(document(hostile())) and HOSTILE not in as_html(document(hostile()))


@pytest.mark.parametrize("sample", [ordinary, hostile, empty])
def test_it_fetches_nothing_and_runs_nothing(sample: object) -> None:
    """No script, no address but those of namespaces and text; the policy forbids the rest."""
    written = as_html(document(sample()))  # type: ignore[operator]
    seen = Seen(written)
    assert not [one for one in seen.elements if one.split()[0] in ("script", "link", "img", "iframe", "object", "form")]
    assert not [one for one in seen.elements if re.search(r" (src|on\w+|srcset|action)\b", one)]
    assert "default-src 'none'" in written
    assert "url(" not in written and "@import" not in written


def priced(source: str) -> Review:
    one = ordinary()
    return replace(one, profiles=tuple(replace(profile, price_source=source) for profile in one.profiles))


def test_the_source_of_a_price_can_be_followed() -> None:
    """The catalog's own address is a link; any other, or more of one, is text."""
    source = catalog.instance("ml.g5.2xlarge").price_source
    [address] = re.findall(r"https://[^ ]+", source)
    assert f'; <a href="{address}" rel="noreferrer">{address}</a> (' in as_html(document(priced(f"x; {source}")))
    for forged in ("https://evil.example/", f"{address}/evil", f"{address}@evil.example", f"http{address[5:]}"):
        written = as_html(document(priced(f"x; {forged} (y)")))
        assert forged in written and "noreferrer" not in written


def test_the_verdict_stands_above_the_table_and_details_below() -> None:
    """In the order in which a reviewer reads."""
    text = page(ordinary()).text
    parts = [
        "BREAKS",
        "endpoint prod-chat is replaced by prod-chat-g5 (LR001)",
        "What changes",
        "Safe way",
        "Resources",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_both_curves_are_drawn_and_called_predicted() -> None:
    """Six levels a side and a latency, in two sizes; no figure of them is called measured."""
    written = as_html(document(Review("a", "b", (chat(),), 0)))
    assert written.count("in flight: TTFT") == 2 * 6 * 2
    assert "before: 32 in flight: TTFT 348 ms at 407 tokens/s, predicted" in written
    assert 'Latency against throughput, <span class="predicted">predicted</span>' in written


def test_curves_that_are_alike_are_drawn_once() -> None:
    """One line says that both sides are the same."""
    seen = page(only_good())
    assert "before and after, alike" in seen.text


def test_nothing_changed_needs_no_picture() -> None:
    """Neither does a review without profiles."""
    assert 'class="panel' not in as_html(document(comment_only()))
    assert "Nothing changes" in page(empty()).text


def test_many_profiles_are_folded_but_those_with_findings() -> None:
    """Up to six are open."""
    quiet = only_good().profiles * 7
    assert as_html(document(Review("a", "b", quiet, 0))).count("<details open>") == 0
    assert as_html(document(Review("a", "b", quiet[:6], 0))).count("<details open>") == 6
    assert as_html(document(Review("a", "b", long().profiles[:7], 0))).count("<details open>") == 7


def test_a_code_is_a_link_only_where_its_page_has_an_address() -> None:
    """A path would lead nowhere from a page that is an artifact."""
    assert 'href="docs' not in as_html(document(ordinary()))
    there = as_html(document(ordinary(), docs="https://docs.example/review-findings/"))
    assert '<a href="https://docs.example/review-findings/#lr001">LR001</a>' in there
    assert "javascript:" not in as_html(document(ordinary(), docs="javascript:alert(1)//"))
