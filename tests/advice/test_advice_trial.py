"""The twin has the last word on settings: what the closed form likes and the twin does not is not proposed."""

from __future__ import annotations

from typing import Any

import pytest

from loadproof.advice.settings import advise
from loadproof.advice.trial import replay
from loadproof.capacity import predict_level
from loadproof.capacity.workload import planned_deployment
from loadproof.profiles.checks import errors_of
from loadproof.profiles.schema import Profile


def tgi(prompt: int, answer: int, at: int, **settings: Any) -> Profile:
    """Llama 3.1 8B on one L40S."""
    found = Profile.model_validate(
        {
            "name": "trial",
            "model": {
                "id": "meta-llama/Llama-3.1-8B-Instruct",
                "source": {"type": "s3", "s3_uri": "s3://example-models/llama/", "accept_eula": True},
            },
            "container": {
                "family": "tgi",
                "settings": {
                    "tensor_parallel_degree": 1,
                    "max_input_tokens": 3072,
                    "max_total_tokens": 4096,
                    "max_batch_prefill_tokens": 4096,
                    **settings,
                },
            },
            "endpoint": {"instance_type": "ml.g6e.2xlarge", "min_instances": 1, "max_instances": 1},
            "copies": {"min": 1, "max": 1, "memory_mib_per_copy": 32768},
            "objectives": {"at_concurrency": at, "ttft_p95_ms": 2000},
            "workload": {"input_tokens": prompt, "output_tokens": answer},
            "benchmark": {"concurrency": (at,), "requests_per_level": 256},
        }
    )
    assert errors_of(found) == []
    return found


def ratio_of(profile: Profile) -> str | None:
    return next((row.proposed for row in advise(profile) if row.setting.endswith("waiting_served_ratio")), None)


def test_a_setting_that_only_the_closed_form_likes_is_not_proposed() -> None:
    """16 prompts of 2,048 tokens: at 0.2 TTFT doubles in the twin, for 3% more tokens."""
    profile = tgi(2048, 256, 16)
    before, after = replay(profile, 16), replay(tgi(2048, 256, 16, waiting_served_ratio=0.2), 16)
    assert before.ttft_ms is not None
    assert after.ttft_ms is not None
    assert after.ttft_ms > 1.5 * before.ttft_ms
    assert ratio_of(profile) is None


def test_a_setting_that_both_like_is_proposed() -> None:
    """64 prompts of 512 tokens wait for a third of the batch to end; at 0.1 the twin, too, serves 5% more tokens."""
    profile = tgi(512, 128, 64)
    assert ratio_of(profile) == "0.1"
    before, after = replay(profile, 64), replay(tgi(512, 128, 64, waiting_served_ratio=0.1), 64)
    assert before.output_tokens_per_s is not None
    assert after.output_tokens_per_s is not None
    assert after.output_tokens_per_s > 1.05 * before.output_tokens_per_s


def test_one_request_after_another_takes_as_long_as_the_closed_form_says() -> None:
    """No batch, no queue: twin and closed form have nothing to disagree about."""
    profile = tgi(512, 128, 1)
    level = predict_level(planned_deployment(profile), 512, 128, 1)
    run = replay(profile, 1)
    assert level is not None
    assert run.refused == 0
    assert run.ttft_ms == pytest.approx(level.ttft_ms, rel=0.01)
    assert run.e2e_ms == pytest.approx(level.e2e_ms, rel=0.01)
    assert run.e2e_p90_ms == pytest.approx(level.e2e_ms, rel=0.02)


def test_refusals_are_counted() -> None:
    """The server admits 4 of 8."""
    assert replay(tgi(512, 128, 8, max_concurrent_requests=8), 8).refused == 0
    assert replay(tgi(512, 128, 8, max_concurrent_requests=4), 8).refused > 0
