"""The twin under recorded traffic, which a learned workload is held against."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadproof.bench.learn import closeness
from loadproof.bench.learn.closeness import predicted, twins_of
from loadproof.bench.learn.fitting import spread_s
from loadproof.bench.learn.reading import read_recorded
from loadproof.profiles import Profile, load_profile

VLLM = Path(__file__).parents[2] / "deploy_profiles" / "prod" / "qwen3-32b.yaml"


def test_recorded_traffic_is_played_with_its_blocks(tmp_path: Path) -> None:
    """200 prompts of four blocks, three of them everybody's: all but the first find three quarters of theirs."""
    rows = (
        {"timestamp": 5000 * at, "input_length": 2048, "output_length": 8, "hash_ids": [0, 1, 2, 10 + at]}
        for at in range(200)
    )
    file = tmp_path / "mooncake.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    profile, recorded = load_profile(VLLM), read_recorded([str(file)])
    made = twins_of(profile, profile, recorded).recorded
    assert made is not None
    copies = len(made.routed.requests)  # each has a first one
    assert made.routed.found_share == pytest.approx(0.75 * (200 - copies) / 200)


def test_times_of_whole_seconds_are_no_bursts() -> None:
    """Four in each second came some time in it, as the fit has it; what tells finer gaps is left as it is."""
    spread = spread_s([0.0] * 4 + [1.0] * 4)
    assert [int(at_s) for at_s in spread] == [0] * 4 + [1] * 4
    assert len(set(spread)) == 8
    assert list(spread_s([0.0, 0.0, 0.5])) == [0, 0, 0.5]


def test_a_recorded_system_prompt_is_kept_as_a_learned_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine tenths of each prompt are everybody's: without them both would prefill ten times as much."""
    messages = [{"role": "system", "content": "s" * 7200}, {"role": "user", "content": "q" * 800}]
    answer = {"choices": [], "usage": {"prompt_tokens": 2000, "completion_tokens": 8}}
    sides = (("endpointInput", {"messages": messages}), ("endpointOutput", answer))
    captured = {name: {"data": json.dumps(payload), "encoding": "JSON"} for name, payload in sides}
    lines = (
        {"captureData": captured, "eventMetadata": {"inferenceTime": f"2026-01-05T08:{at:02d}:00Z"}} for at in range(60)
    )
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    profile = load_profile(VLLM)
    monkeypatch.setattr(closeness, "DRAWS", 0)  # the recorded traffic alone is asked about

    def with_workload(**changes: object) -> Profile:
        fixed = {"input_tokens": 2000, "output_tokens": 8, "turns": 1, "classes": (), **changes}
        return profile.model_copy(update={"workload": profile.workload.model_copy(update=fixed)})

    shared_ms, alone_ms = (
        None if one is None else predicted(one, "ttft_p95_ms")
        for one in (
            twins_of(profile, there, read_recorded([str(file)])).recorded
            for there in (with_workload(shared_prefix_tokens=1800), with_workload(shared_prefix_tokens=0))
        )
    )
    assert shared_ms is not None
    assert alone_ms is not None
    assert shared_ms < 0.7 * alone_ms
