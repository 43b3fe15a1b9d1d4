"""Where worthless proofs, starved servers and wasted machines begin: a value on either side of each bound (LP384 on).

Qwen3-8B on an L40S: 16.4 GB of weights at 864 GB/s are 19.0 ms a step; 512 tokens at 362 TFLOP/s are 21.4 ms. Of
each token alone, without tables of embeddings, at least 6.95 billion parameters are read: 16.1 ms, and 4.12 s for 256.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_profiles_nonsense import codes

TRACKED: dict[str, Any] = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8}
MORE: dict[str, Any] = {"copies": {"min": 1, "max": 4}, "endpoint__max_instances": 4}
LORA: dict[str, Any] = {"enable_lora": True, "max_lora_rank": 256, "max_model_len": 8192}
BEDROCK: dict[str, Any] = {
    "backend": "bedrock",
    "model": {"id": "amazon.nova-lite-v1:0"},
    "container": None,
    "endpoint": None,
    "bedrock": {"inference_profile": "us", "max_concurrency": 8},
}


def at(**bounds: float) -> dict[str, Any]:
    return {"objectives": {"at_concurrency": 4, **bounds}}


def scaled(**policy: Any) -> dict[str, Any]:
    return {**MORE, "scaling": {"policies": [{**TRACKED, **policy}]}}


@pytest.mark.parametrize(
    ("code", "well", "nonsense"),
    [
        # 20 · (19.0 ms and a little for caches and prompts): 400 ms at the least.
        ("LP384", at(tpot_p95_ms=380), at(tpot_p95_ms=500)),
        # 4 prompts of 21 ms and a step are 0.11 s, twentyfold 2.3 s: but 5 s are noticed.
        ("LP384", at(ttft_p95_ms=5_000), at(ttft_p95_ms=5_001)),
        # 256 tokens of 19 ms are 4.9 s, twentyfold 97 s and more.
        ("LP384", at(e2e_p95_ms=97_000), at(e2e_p95_ms=115_000)),
        ("LP345", at(tpot_p95_ms=1_000), at(tpot_p95_ms=1_001)),
        # 4 levels of 32 requests at 1, 2, 4 and 8 at once, of 4.12 s each: 1.875 · 4.12 s · 11,186 are a day.
        ("LP385", {"benchmark": {"duration_s": 21_600}}, {"benchmark": {"duration_s": 21_601}}),
        ("LP385", {"benchmark": {"requests_per_level": 11_000}}, {"benchmark": {"requests_per_level": 11_300}}),
        ("LP248", {"benchmark__requests_at_objectives": 100_000}, {"benchmark__requests_at_objectives": 100_001}),
        ("LP344", {"benchmark__warmup_requests": 100}, {"benchmark__warmup_requests": 101}),
        ("LP343", {"benchmark__drain_s": 1_200}, {"benchmark__drain_s": 1_201}),
        # 0.5 s and 255 gaps of 40 ms are 10.7 s, and half of that 5.35.
        (
            "LP266",
            {**at(ttft_p95_ms=500, tpot_p95_ms=40), "benchmark__request_timeout_s": 6},
            {**at(ttft_p95_ms=500, tpot_p95_ms=40), "benchmark__request_timeout_s": 5},
        ),
        (
            "LP346",
            {**at(ttft_p95_ms=500, tpot_p95_ms=40), "buffer": {"invocation_timeout_s": 6}},
            {**at(ttft_p95_ms=500, tpot_p95_ms=40), "buffer": {"invocation_timeout_s": 5}},
        ),
        ("LP364", {"buffer": {"idle_timeout_s": 5}}, {"buffer": {"idle_timeout_s": 4}}),
        ("LP364", {"buffer": {"max_attempts": 2}}, {"buffer": {"max_attempts": 1}}),
        ("LP364", {"buffer": {"lease_s": 300}}, {"buffer": {"lease_s": 301}}),
        ("LP364", {"buffer": {"invocation_timeout_s": 30}}, {"buffer": {"invocation_timeout_s": 30, "lease_s": 61}}),
        # 3,600 s · 4 at once / 4.12 s an answer are 3,497.
        (
            "LP353",
            {**scaled(metric="backlog_per_copy", target=3_480), "buffer": {}},
            {**scaled(metric="backlog_per_copy", target=3_510), "buffer": {}},
        ),
        (
            "LP285",
            {**scaled(metric="backlog_per_copy", target=1), "buffer": {}},
            {**scaled(metric="backlog_per_copy", target=0.9), "buffer": {}},
        ),
        ("LP285", scaled(target=2), scaled(target=1.9)),
        # 4 at once within 10 s each are 24 a minute.
        (
            "LP285",
            scaled(metric="invocations_per_copy", target=2.4),
            scaled(metric="invocations_per_copy", target=2.3),
        ),
        # 2,000 at once of 4.12 s each are 29,150 a minute.
        (
            "LP342",
            scaled(metric="invocations_per_copy", target=29_000),
            scaled(metric="invocations_per_copy", target=29_300),
        ),
        (
            "LP349",
            scaled(scale_in_cooldown_s=0, scale_out_cooldown_s=10),
            scaled(scale_in_cooldown_s=0, scale_out_cooldown_s=0),
        ),
        ("LP348", {**scaled(), "endpoint__max_instances": 16}, {**scaled(), "endpoint__max_instances": 17}),
        ("LP386", {**scaled(), "endpoint__min_instances": 3}, {**scaled(), "endpoint__min_instances": 4}),
        # 62,259 of 65,536 MiB.
        ("LP310", {"copies__memory_mib_per_copy": 62_000}, {"copies__memory_mib_per_copy": 63_000}),
        ("LP310", {"copies__cpus_per_copy": 7}, {"copies__cpus_per_copy": 8}),
        # 75,776 · 36 · 256 · 2 bytes are 1.4 GB each, and 31 GB are left.
        (
            "LP355",
            {"container__settings": {**LORA, "max_loras": 22}},
            {"container__settings": {**LORA, "max_loras": 23}},
        ),
        # 2 · 12,288 · 2 bytes a token.
        (
            "LP355",
            {"container__settings__max_num_batched_tokens": 600_000},
            {"container__settings__max_num_batched_tokens": 650_000},
        ),
        (
            "LP389",
            {"container__environment": {"SM_VLLM_CPU_OFFLOAD_GB": "15"}},
            {"container__environment": {"SM_VLLM_CPU_OFFLOAD_GB": "16"}},
        ),
        (  # 48 blocks of 16 are 768 tokens: 512 and 256
            "LP389",
            {"container__environment": {"SM_VLLM_NUM_GPU_BLOCKS_OVERRIDE": "48"}},
            {"container__environment": {"SM_VLLM_NUM_GPU_BLOCKS_OVERRIDE": "47"}},
        ),
    ],
)
def test_either_side_of_the_bound(tmp_path: Path, code: str, well: dict[str, Any], nonsense: dict[str, Any]) -> None:
    assert code not in codes(tmp_path, **well)
    assert code in codes(tmp_path, **nonsense)


@pytest.mark.parametrize(("cron", "told"), [("cron(0 20 ? * FRI *)", False), ("cron(0 3 1 1 ? *)", True)])
def test_a_minimum_that_is_lowered_once_a_year(tmp_path: Path, cron: str, told: bool) -> None:
    """It is raised on every working day."""
    up = {"type": "scheduled", "name": "up", "schedule": "cron(0 8 ? * MON-FRI *)", "min_copies": 3}
    down = {"type": "scheduled", "name": "down", "schedule": cron, "min_copies": 1}
    assert ("LP273" in codes(tmp_path, **MORE, scaling={"policies": [TRACKED, up, down]})) is told


@pytest.mark.parametrize(("first", "told"), [("ml.g6e.4xlarge", False), ("ml.p5.48xlarge", True)])
def test_a_pool_that_costs_many_times_the_next(tmp_path: Path, first: str, told: bool) -> None:
    named = enumerate((first, "ml.g6e.2xlarge"), start=1)
    pools = [{"instance_type": name, "priority": priority} for priority, name in named]
    copies = {"copies": {"min": 1, "max": 4}, "scaling": {"policies": [TRACKED]}}
    assert ("LP386" in codes(tmp_path, **copies, endpoint={"instance_pools": pools, "max_instances": 4})) is told


@pytest.mark.parametrize(
    ("name", "told"),
    [("results", False), ("loadproof-dev-chat-results", False), ("loadproof-dev-chat-requests", True)],
)
def test_callbacks_into_the_buffers_own_queues(tmp_path: Path, name: str, told: bool) -> None:
    callback = f"arn:aws:sqs:us-east-1:123456789012:{name}"
    assert ("LP247" in codes(tmp_path, buffer={"callbacks": [callback]})) is told


def test_what_a_queued_or_open_load_may_wait(tmp_path: Path) -> None:
    """A minute in a buffer's queue, or with more requests than there is room for, is no slip."""
    assert "LP384" not in codes(tmp_path, **at(e2e_p95_ms=119_000), buffer={})
    rate = {"benchmark": {"rate": [1, 2]}, "workload__arrivals": {"process": "poisson", "requests_per_s": 1}}
    assert "LP384" not in codes(tmp_path, **at(e2e_p95_ms=119_000), **rate)
