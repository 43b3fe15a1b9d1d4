"""How the page says numbers, objectives and foreign text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.report import wording


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.01234, "0.0123"),
        (1.0, "1"),
        (1.239, "1.24"),
        (9.999, "10.0"),
        (42.06, "42.1"),
        (99.97, "100"),
        (1234.4, "1,234"),
        (-7.126, "-7.13"),
    ],
)
def test_numbers_show_three_digits_and_no_data_a_dash(value: float | None, shown: str) -> None:
    """Three significant digits below 100, whole numbers above, thousands separated; no data is never 0."""
    assert wording.number(value) == shown


@pytest.mark.parametrize(
    ("name", "value", "title", "shown"),
    [
        ("ttft_p95_ms", 412.3, "TTFT p95", "412 ms"),
        ("tpot_p99_ms", 21.46, "TPOT p99", "21.5 ms"),
        ("error_rate_max", 0.0125, "Error rate", "1.25 %"),
        ("output_tokens_per_s_min", 1250.0, "Output tokens per second", "1,250 tokens/s"),
        ("requests_per_s_min", None, "Requests per second", "–"),
        ("of_another_version", 3.0, "of_another_version", "3"),
    ],
)
def test_objectives_are_said_in_words_with_units(name: str, value: float | None, title: str, shown: str) -> None:
    """An objective's name becomes words and its value gets its unit; unknown ones keep their own name."""
    assert (wording.objective_title(name), wording.objective_value(name, value)) == (title, shown)


def test_a_bound_an_interval_and_a_margin_read_without_sign_conventions() -> None:
    """≤ for at most, ≥ for at least; `inside` and `outside` instead of plus and minus."""
    most = Judgement("ttft_p95_ms", "<=", 500, None, 390.2, 431, None, "PASS")
    least = Judgement("requests_per_s_min", ">=", 2, None, None, None, None, "FAIL")
    assert wording.bound(most) == "≤ 500 ms"
    assert wording.bound(least) == "≥ 2 requests/s"
    assert wording.interval(most) == "390 to 431 ms"
    assert wording.interval(least) == "–"
    assert [wording.margin(value) for value in (0.176, -0.025, None)] == ["18 % inside", "2.5 % outside", "–"]


def test_direction_and_control_characters_are_spelled_out() -> None:
    """A right-to-left override, a line separator and a lone surrogate become visible; letters stay letters."""
    assert wording.visible("né\u202eexe.\u2028\x00\ud800") == "né\\u202eexe.\\u2028\\u0000\\ud800"


def test_long_text_is_cut_and_says_so() -> None:
    """10,000 characters show their first 240 and the count."""
    assert wording.visible("W" * 10_000) == "W" * 240 + "… (10,000 characters)"


@given(st.text(st.characters(), max_size=400))
def test_visible_text_can_always_be_written_and_never_reorders(text: str) -> None:
    """Whatever comes in, what goes out encodes as UTF-8 and holds no control or format character."""
    shown = wording.visible(text)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert not [character for character in shown if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
