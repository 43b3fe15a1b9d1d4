"""The twin under recorded traffic, which a learned workload is held against."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadproof.bench.learn.closeness import twins_of
from loadproof.bench.learn.reading import read_recorded
from loadproof.profiles import load_profile

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
