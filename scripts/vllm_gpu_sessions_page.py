"""The part of docs/accuracy-gpu.md about conversations: what scripts/vllm_gpu_sessions.py measured and foretold."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Final

from vllm_gpu_sessions import ANSWER, BLOCK_TOKENS, CONVERSATIONS_A_SLOT, LEVELS, TURNS, Json, Level, read

BARS: Final = {"found": 0.03, "ttft_p50_ms": 0.15, "ttft_p95_ms": 0.25}  # points, and shares of what was measured
HEADINGS: Final = {
    "found": "found",
    "ttft_p50_ms": "TTFT p50 ms",
    "ttft_p95_ms": "TTFT p95 ms",
    "tpot_p50_ms": "TPOT p50 ms",
    "output_tokens_per_s": "tokens/s",
}


def section() -> str:
    """Markdown, from measured.json and now.json."""
    measured, now = read("measured"), read("now")
    by_which = {which: list(_misses(measured, now[which])) for which in ("calibrated", "as shipped")}
    missed = {which: f"{len(misses)} of {len(BARS) * len(LEVELS)}" for which, misses in by_which.items()}
    lookups = " and ".join(f"{one['found_of_lookups']:.1%}" for one in _small(measured))
    computed = " and ".join(_found_range(one) for one in _small(measured))
    room = measured["kv_cache_tokens"]["all"]
    crowd, few = Level(128), Level(4)
    return f"""\
## Conversations over the cache of prompts, Llama 3.1 8B in 16 bits on an H100

{measured["conditions"]["gpu"]}. The same server with its cache of prompts
({room:,} tokens, or as many as a row says): conversations of {TURNS} turns in chat messages, 512 tokens and then 256 a
turn and a chat template's, answers of {ANSWER}, each turn with all before it, {CONVERSATIONS_A_SLOT} conversations a
slot. A token is a letter, so that an answer is read back as the tokens that it was made of. Foretold before the machine
was started (`predicted.json` in scripts/real_server/gpu/llama-3-1-8b-sessions); calibrated by the same two levels of
single requests as above, which were measured a day earlier. Nothing of the twin was changed by what was found here.

**Bars: found within {100 * BARS["found"]:.0f} points, TTFT p50 within {BARS["ttft_p50_ms"]:.0%}, p95 within
{BARS["ttft_p95_ms"]:.0%}. Calibrated, missed by {missed["calibrated"]}:
{"; ".join(by_which["calibrated"])}.
As shipped, by {missed["as shipped"]}: {"; ".join(by_which["as shipped"])}.**

Measured, *as shipped*, calibrated; **bold** is outside its bar. The last column is the median of what the client itself
took before it sent, which is in TTFT.

{_table(measured, now)}

64 held without thought were measured twice, and the row is the mean: {_twice(measured)}.
Single requests as the calibration's were measured again before each of the two: {_singles(measured)}.
**So much differs between two starts of one server**; every other row was measured once.

**What was found.** Where the cache has room for all, the twin has it to a tenth of a point. In the small cache
`vllm:prefix_cache_hits` over `vllm:prefix_cache_queries` came to {lookups} (with and without thought),
which is not the share of prompts: this vLLM counts a request that waits for memory again in every step
([its issue 43736](https://github.com/vllm-project/vllm/issues/43736),
[mended in July 2026](https://github.com/vllm-project/vllm/pull/48860)). The share in the table is by the prompt tokens
that the server computed, as its log has them every ten seconds: {computed},
as far as where a run begins and ends can be told. Why the second is less than the twin says was not found.

**Where TTFT is missed.** Answers of one length end together, and {crowd.held} readers without thought send together.
In the twin their conversations stay in the groups that were prefilled together, one group after another; here they were
one wave. Held back for any time between 50 and 300 ms, so that they are one there, too, it says 490 to 530 ms instead
of {_said(now["calibrated"], crowd)["ttft_p50_ms"]:,.0f}. {_value(measured, crowd, "client_p50_ms"):,.0f} ms were the
client's, which made each turn when it was due, counted by the tokenizer; it makes them before a level begins now, and
nothing was measured again. What is left of the {_value(measured, crowd, "ttft_p50_ms"):,.0f} ms is probably the
server's before its scheduler: the first six prompts of a wave, about 40 ms of work, had their first tokens 320 ms after
they were sent. The twin's front end takes the same time however many come at once and however long a conversation is,
which is a guess at the {_value(measured, few, "ttft_p50_ms"):,.0f} ms of {few.held} held, too.
"""


def _rows(measured: Json, level: Level) -> list[Json]:
    return [one for one in measured["levels"] if (one["held"], one["think_s"], one["blocks"]) == _key(level)]


def _key(level: Level) -> tuple[int, float, int | None]:
    return level.held, level.think_s, level.blocks


def _value(measured: Json, level: Level, name: str) -> float:
    """The mean of its runs."""
    rows = _rows(measured, level)
    return mean(found_of(one) if name == "found" else one[name] for one in rows)


def found_of(row: Json) -> float:
    """The share of prompt tokens that were found: by what the server computed where requests waited for memory."""
    if "computed_tokens" not in row:
        return float(row.get("found", row.get("found_of_lookups")))
    return 1 - mean(row["computed_tokens"]) / float(row["prompt_tokens"])


def _found_range(row: Json) -> str:
    low, high = (1 - tokens / row["prompt_tokens"] for tokens in reversed(row["computed_tokens"]))
    return f"{low:.1%}" if low == high else f"{low:.1%} to {high:.1%}"


def _small(measured: Json) -> list[Json]:
    return [one for one in measured["levels"] if one["blocks"]]


def _said(rows: list[Json], level: Level) -> Json:
    (row,) = [one for one in rows if (one["held"], one["think_s"], one["blocks"]) == _key(level)]
    return row


def _off(said: float, value: float, name: str) -> float:
    return said - value if name == "found" else said / value - 1


def _misses(measured: Json, said: list[Json]) -> Iterator[str]:
    for level in LEVELS.values():
        for name, bar in BARS.items():
            if abs(_off(_said(said, level)[name], _value(measured, level, name), name)) > bar:
                yield f"{HEADINGS[name].removesuffix(' ms')} of {_words(level)}"


def _words(level: Level) -> str:
    think = f", {level.think_s:g} ± {level.think_stddev_s:g} s of thought" if level.think_s else ""
    cache = f", cache of {level.blocks * BLOCK_TOKENS:,}" if level.blocks else ""
    return f"{level.held} held{think}{cache}"


def _table(measured: Json, now: Json) -> str:
    lines = [
        f"| conversations | {' | '.join(HEADINGS.values())} | client's ms |",
        "|---|" + "---|" * (len(HEADINGS) + 1),
    ]
    for level in sorted(LEVELS.values(), key=lambda one: (one.blocks is not None, one.held, one.think_s)):
        cells = []
        for name in HEADINGS:
            value = _value(measured, level, name)
            shipped, calibrated = (_said(now[which], level)[name] for which in ("as shipped", "calibrated"))
            cells.append(
                f"{_number(value, name)}, *{_number(shipped, name)}* {_share(shipped, value, name)}, "
                f"{_number(calibrated, name)} {_share(calibrated, value, name)}"
            )
        client_ms = _value(measured, level, "client_p50_ms")
        lines.append(f"| {_words(level)} | {' | '.join(cells)} | {client_ms:,.0f} |")
    return "\n".join(lines)


def _number(value: float, name: str) -> str:
    return f"{value:.1%}" if name == "found" else f"{value:,.{1 if name == 'tpot_p50_ms' else 0}f}"


def _share(said: float, value: float, name: str) -> str:
    off = _off(said, value, name)
    text = f"{round(100 * off, 1) + 0.0:+.1f}" if name == "found" else f"{off:+.0%}"
    return f"(**{text}**)" if abs(off) > BARS.get(name, 1.0) else f"({text})"


def _twice(measured: Json) -> str:
    rows = _rows(measured, Level(64))
    return "TTFT p50 " + " and ".join(f"{one['ttft_p50_ms']:,.0f}" for one in rows) + " ms"


def _singles(measured: Json) -> str:
    concurrencies = sorted({one["concurrency"] for one in measured["single"]})
    return "; ".join(
        f"{number} in flight, mean TTFT in ms, "
        + " and ".join(f"{one['ttft_ms']:.0f}" for one in measured["single"] if one["concurrency"] == number)
        for number in concurrencies
    )
