"""docs/accuracy-gpu.md: a real vLLM on an H100 beside what the planner had said."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import vllm_gpu  # noqa: E402
import vllm_gpu_page  # noqa: E402
import vllm_gpu_sessions  # noqa: E402
import vllm_gpu_sessions_page  # noqa: E402


def in_six_digits(text: str) -> object:
    return json.loads(text, parse_float=lambda number: f"{float(number):.6g}")


def page() -> str:
    return vllm_gpu_page.page()


def test_the_page_is_what_its_figures_make() -> None:
    assert vllm_gpu_page.PAGE.read_text(encoding="utf-8") == page(), "stale; run scripts/vllm_gpu.py report"


def test_a_level_outside_its_range_is_bold() -> None:
    """512 prompt tokens, 1 in flight: a first token after 42 ms said, 27 measured; 157 tokens/s said, 153 measured."""
    assert "| 512 | 128 | 1 | 153, *157* (+2%), " in page()
    assert " | 27, *42* (**+56%**), " in page()


@pytest.mark.parametrize("case", vllm_gpu.measured_cases(), ids=lambda case: case.name)
def test_what_the_planner_says_now_is_what_it_says(case: vllm_gpu.Case) -> None:
    """To six digits: from Python 3.12 `sum` keeps what rounding lost."""
    now, stored = (json.dumps(said) for said in (vllm_gpu.predicted(case), case.read("now")))
    assert in_six_digits(now) == in_six_digits(stored), "stale; run scripts/vllm_gpu.py now, calibrate and report"


def test_an_invalid_run_is_named_and_counts_nowhere() -> None:
    assert "Not in the table: 128 prompt and 512 answer tokens at 256 in flight" in page()
    assert "| 128 | 512 | 256 |" not in page()


def test_a_level_that_the_calibration_saw_is_no_prediction() -> None:
    """Seven levels of the first load are left, of four figures each."""
    calibrated = page().partition("calibrated, levels not seen")[2]
    assert "of 28 figures" in calibrated.splitlines()[2]


def test_what_the_twin_says_now_of_conversations_is_what_it_says() -> None:
    """Of the smallest two levels, to six digits."""
    levels = tuple(vllm_gpu_sessions.LEVELS[name] for name in ("4-0-all", "16-0-all"))
    now, stored = vllm_gpu_sessions.predicted(levels), vllm_gpu_sessions.read("now")
    for which in ("as shipped", "calibrated"):
        kept = [one for one in stored[which] if one["held"] in (4, 16)]
        said = sorted(now[which], key=lambda one: -one["held"])
        assert in_six_digits(json.dumps(said)) == in_six_digits(json.dumps(kept)), "stale; run its `now`"


def test_what_was_found_is_what_was_not_computed() -> None:
    """70 to 90 of 100 prompt tokens computed: 20% found, whatever the lookups say."""
    row = {"computed_tokens": [70, 90], "prompt_tokens": 100, "found_of_lookups": 0.9}
    assert vllm_gpu_sessions_page.found_of(row) == pytest.approx(0.2)


def test_a_share_outside_its_bar_is_bold() -> None:
    """TTFT p50 of 128 held: 693 ms measured, 411 said by the calibrated twin, 15% allowed."""
    assert "693, *533* (**-23%**), 411 (**-41%**)" in page()


def test_every_letter_is_a_token_of_its_own() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(vllm_gpu_sessions.letter_tokenizer(300)))
    answer = tokenizer.decode([120, 299, 7, 299])
    assert tokenizer.encode(f"user: hi {answer}").ids[-4:] == [120, 299, 7, 299]
    assert len(tokenizer.encode("user: hi").ids) == 8
