"""Closed forms of runs: the sum, its inverse and the kinks, against adding up one by one."""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.capacity import StepTimes, batch_limits, deployment_from_container
from loadproof.profiles import Family
from loadproof.simulation.runs import DecodeTimes, affine_prefix, steps_to_reach, sum_ms

firsts, growths = st.floats(0.01, 100), st.one_of(st.just(0.0), st.floats(1e-9, 10))


def test_the_sum_of_a_run_by_hand() -> None:
    """3 + 5 + 7 + 9 = 24; reached within four steps, 15 within three, 3 within one, and anything takes one."""
    assert sum_ms(4, 3.0, 2.0) == 24.0
    assert [steps_to_reach(ms, 3.0, 2.0) for ms in (24.0, 24.1, 15.0, 3.0, -1.0)] == [4, 5, 3, 1, 1]


@given(firsts, growths, st.integers(1, 100_000))
def test_a_run_reaches_its_own_sum_in_its_own_steps(first_ms: float, growth_ms: float, steps: int) -> None:
    """Exactly the target takes `steps`; half a step less still does, a little more takes one more."""
    target_ms = sum_ms(steps, first_ms, growth_ms)
    assert steps_to_reach(target_ms, first_ms, growth_ms) == steps
    assert steps_to_reach(target_ms - first_ms / 2, first_ms, growth_ms) == steps
    assert steps_to_reach(target_ms + first_ms / 2, first_ms, growth_ms) == steps + 1


@given(
    st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 2)), min_size=1, max_size=4),
    st.integers(1, 3000),
)
def test_a_maximum_of_lines_is_summed_to_the_last_digits(lines: list[tuple[float, float]], steps: int) -> None:
    """Piece after piece, within 1e-11 of adding up, in at most twice log2(steps) + 1 pieces for each line."""

    def duration_ms(step: int) -> float:
        return max(at_0 + slope * step for at_0, slope in lines)

    total_ms, done, pieces = 0.0, 0, 0
    while done < steps:
        count, first_ms, growth_ms = affine_prefix(lambda step, done=done: duration_ms(done + step), steps - done)
        assert 1 <= count <= steps - done
        total_ms += sum_ms(count, first_ms, growth_ms)
        done, pieces = done + count, pieces + 1
    assert total_ms == pytest.approx(fsum(map(duration_ms, range(steps))), rel=1e-11)
    assert pieces <= len(lines) * 2 * (steps.bit_length() + 1)


@pytest.mark.parametrize("family", ["tgi", "vllm"])
@pytest.mark.parametrize("model", ["meta-llama/Llama-2-7b-hf", "mistralai/Mixtral-8x7B-v0.1"])
def test_the_step_model_is_one_line_in_its_context(family: Family, model: str) -> None:
    """For every batch size a run of 200 decode steps is one piece, and equals 200 steps of the planner's model."""
    made = deployment_from_container(
        family=family,
        version="1",
        variables={},
        model_id=model,
        architecture=None,
        instance_type="ml.p4d.24xlarge",
        accelerators_per_copy=8,
        copies=1,
    )
    times = StepTimes(made)
    runs = DecodeTimes(times, batch_limits(made).kv_token_capacity or 0)
    for batch in (1, 2, 7, 64, 256):
        steps, first_ms, growth_ms = runs.run(batch, 300 * batch, 200)
        assert steps == 200
        one_by_one = fsum(times.decode_ms(batch, 300 * batch + batch * step) for step in range(200))
        assert sum_ms(steps, first_ms, growth_ms) == pytest.approx(one_by_one, rel=1e-9)
