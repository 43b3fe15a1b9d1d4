"""How pages say things: numbers with sensible digits, names in words, untrusted text made harmless to look at."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from markupsafe import Markup, escape

from loadproof.untrusted import with_escapes

NO_DATA = "–"
LONGEST_TEXT = 240  # characters of untrusted text shown before it is cut; a name needs no more to be recognised

SHORT = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E"}
TITLES: Final = {
    "ttft": "Time to first token (TTFT)",
    "tpot": "Time per output token (TPOT)",
    "e2e": "End-to-end latency (E2E)",
}
_RATES = {
    "output_tokens_per_s_min": ("Output tokens per second", "tokens/s"),
    "requests_per_s_min": ("Requests per second", "requests/s"),
}
_ERROR_RATE: Final = "error_rate_max"
ADDRESS: Final = re.compile(r"(https://[\w./@%+-]+)", re.ASCII)
_LATENCY: Final = re.compile(r"(ttft|itl|tpot|e2e)_(p50|p90|p95|p99)_ms")


def number(value: float | None) -> str:
    """Three significant digits, thousands separated, never exponents for figures people read: `1,234`, `0.0123`."""
    if value is None:
        return NO_DATA
    size = abs(value)
    if size >= 99.95 or value == int(value):
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995:
        return f"{value:.2f}"
    return f"{value:.3g}"


def usd(value: float | None) -> str:
    """`$1,312`; cents below ten dollars."""
    if value is None:
        return "unknown"
    size = abs(value)
    text = f"${size:,.2f}" if 0 < size < 9.995 else f"${size:,.0f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 else text


def counted(count: int, word: str, many: str = "") -> str:
    """`1 copy`, `2,000 copies`: `many` is the word for several, where it is not the word with an s."""
    return f"{count:,} {word if count == 1 else many or f'{word}s'}"


def latency_of(name: str) -> tuple[str, str] | None:
    """(`ttft`, `p95`) of `ttft_p95_ms`; None for objectives on anything but a latency."""
    found = _LATENCY.fullmatch(name)
    return (found[1], found[2]) if found else None


def objective_title(name: str, part: str = "") -> str:
    """`TTFT p95`, `TTFT p95 of agent` where it is a class's; an objective that is not known keeps its own name."""
    if part:
        return f"{objective_title(name)} of {visible(part, 40)}"
    latency = latency_of(name)
    if latency:
        return f"{SHORT[latency[0]]} {latency[1]}"
    if name == _ERROR_RATE:
        return "Error rate"
    return _RATES[name][0] if name in _RATES else visible(name, 40)


def objective_value(name: str, value: float | None) -> str:
    """The value with its unit: `412 ms`, `0.8 %`, `1,250 tokens/s`."""
    if value is None:
        return NO_DATA
    if latency_of(name):
        return f"{number(value)} ms"
    if name == _ERROR_RATE:
        return f"{number(100 * value)} %"
    return f"{number(value)} {_RATES[name][1]}" if name in _RATES else number(value)


def bound_text(name: str, comparison: str, bound: float) -> str:
    """`≤ 500 ms`."""
    return f"{'≥' if comparison == '>=' else '≤'} {objective_value(name, bound)}"


def on_a_bar(room: float = 1.1, **marks: float) -> dict[str, float] | None:
    """Where figures stand on a bar of 0..100 that is `room` times as long as the largest; None where all are 0."""
    longest = room * max(marks.values())
    return {name: round(100 * max(0.0, value) / longest, 2) for name, value in marks.items()} if longest > 0 else None


def joined(words: Iterable[object], last: str) -> str:
    """`1`, `1 or 2`, `1, 2 or 4`, with the word `last` before the last one."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def visible(value: object, longest: int = LONGEST_TEXT) -> str:
    r"""Untrusted text with control and direction characters spelled out (`\\u202e`) and its tail cut.

    Escaping for HTML is the template's work; this keeps text from reordering or hiding what stands beside it, and
    keeps lone surrogates, which no encoding can write, out of the file.
    """
    text = value if isinstance(value, str) else str(value)
    shown = with_escapes(text[:longest])
    return shown if len(text) <= longest else f"{shown}… ({len(text):,} characters)"


def linked(text: str, addresses: Collection[str], longest: int = LONGEST_TEXT) -> Markup:
    """The text as `visible` has it, with those `addresses` as links that stand in it whole; escaped.

    The text may be anybody's, so `addresses` must not be: whatever else looks like one stays text.
    """
    parts = ADDRESS.split(visible(text, longest))
    return Markup("").join(
        Markup('<a href="{0}" rel="noreferrer">{0}</a>').format(part) if part in addresses else part for part in parts
    )


def code_in_html(text: str) -> Markup:
    """A sentence, escaped, with what stands between backticks as code."""
    shown = str(escape(visible(text, 1_000)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", shown))
