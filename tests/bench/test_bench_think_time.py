"""Think time of recorded conversations: from the end of an answer to the next turn.

One conversation begins turns at 0, 10 and 25 s whose answers take 2, 3 and 1 s: pauses of 8 and 12 s, a mean of 10 and
a deviation of 2.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loadproof.bench.learn.fitting import fit
from loadproof.bench.learn.reading import read_recorded

TURNS = [(0, 2, 100), (10, 3, 200), (25, 1, 300)]  # begin, seconds of the answer, prompt tokens; answers have 50
BEGAN = datetime(2026, 1, 5, 10, tzinfo=UTC)


def at(second: float) -> str:
    return (BEGAN + timedelta(seconds=second)).isoformat()


def nanoseconds(second: float) -> str:
    return str(round((BEGAN.timestamp() + second) * 1e9))


def span(begin: float, took: float, prompt: int, *, otlp: bool) -> str:
    attributes = {
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.conversation.id": "a",
    }
    if not otlp:
        return json.dumps({"start_time": at(begin), "end_time": at(begin + took), "attributes": attributes})
    named = [
        {"key": key, "value": {"intValue": str(one)} if isinstance(one, int) else {"stringValue": one}}
        for key, one in attributes.items()
    ]
    times = {"startTimeUnixNano": nanoseconds(begin), "endTimeUnixNano": nanoseconds(begin + took)}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**times, "attributes": named}]}]}]})


BURST = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "".join(
    f"{begin},a,{took},GPT-4,{prompt},50,{prompt + 50},Conversation log\n" for begin, took, prompt in TURNS
)
LITELLM = "startTime,endTime,prompt_tokens,completion_tokens,session_id\n" + "".join(
    f"{at(begin)},{at(begin + took)},{prompt},50,a\n" for begin, took, prompt in TURNS
)
AGENT = json.dumps(
    {
        "block_size": 50,
        "requests": [
            {"t": begin, "in": prompt, "out": 50, "hash_ids": [*range(prompt // 50)], "api_time": took}
            for begin, took, prompt in TURNS
        ],
    }
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sdk.jsonl", "\n".join(span(*turn, otlp=False) for turn in TURNS)),
        ("otlp.jsonl", "\n".join(span(*turn, otlp=True) for turn in TURNS)),
        ("burst.csv", BURST),
        ("litellm.csv", LITELLM),
        ("agent.json", AGENT),
    ],
)
def test_pauses_are_from_the_end_of_an_answer(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_recorded([str(tmp_path / name)])
    assert list(found.pauses_s) == pytest.approx([8, 12])
    assert (fit(found).turns, fit(found).think_time_s, fit(found).think_time_stddev_s) == (3, 10, 2)


def test_of_starts_alone_nothing_is_learned(tmp_path: Path) -> None:
    """From one to the next it is 10 and 15 s, answers included."""
    rows = [
        {
            "timestamp": 1000 * begin,
            "input_length": prompt * 10,
            "output_length": 50,
            "hash_ids": [*range(-(-prompt * 10 // 512))],
        }
        for begin, _, prompt in TURNS
    ]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_recorded([str(tmp_path / "m.jsonl")])
    assert (list(found.pauses_s), found.ends_told) == ([10, 15], False)
    assert fit(found).think_time_s is None


def test_a_turn_that_overtakes_the_answer_before_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(BURST.replace("0,a,2,", "0,a,12,", 1))
    assert list(read_recorded([str(tmp_path / "b.csv")]).pauses_s) == [0, 12]
