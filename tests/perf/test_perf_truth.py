"""The truth server keeps its schedule and its log; the page of figures shows a miss as a miss."""

from __future__ import annotations

import asyncio
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts")]

import performance  # noqa: E402
import truth_server  # noqa: E402

from loadproof.invocation import GenerationRequest, HttpTransport, Invocation, Invoker, codec_for  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the truth server is built by cc")


@needs_compiler
def test_the_log_is_of_what_was_sent_when(tmp_path: Path) -> None:
    """Three chat requests of 4 tokens on one connection, TTFT 20 ms and ITL 10 ms: what arrives left just before."""
    pieces = truth_server.chat_pieces(4)
    program = truth_server.build(tmp_path)
    with truth_server.running(program, tmp_path, pieces, ttft_ms=20, gap_ms=10) as server:

        async def main() -> list[Invocation]:
            url = f"http://127.0.0.1:{server.port}/v1/chat/completions"
            invoker = Invoker(HttpTransport(url), codec_for("openai-chat", model="m"))
            found = [await invoker.invoke(GenerationRequest("hello", 4)) for _ in range(3)]
            await invoker.close()
            return found

        found = asyncio.run(main())
        truth = server.stop()
    assert [(one.outcome.kind, one.output_tokens) for one in found] == [("ok", 4)] * 3
    assert truth.sent_ns.shape == (3, 4)
    assert (truth.ttft_ms() >= 20).all() and (truth.gaps_ms().reshape(3, 3).sum(axis=1) > 9).all()
    for one, sent_ns in zip(found, truth.sent_ns, strict=True):
        lateness_ms = [(arrived - sent) / 1e6 for arrived, sent in zip(one.arrival_ns, sent_ns, strict=True)]
        assert min(lateness_ms) > -0.1  # the two clocks of a stamp are read a moment apart
        assert max(lateness_ms) < 100


def test_a_goal_that_is_missed_says_so() -> None:
    """5 ms where 2 were the goal is no, 1 is yes, and a figure that was not taken is no row."""
    goal = performance.Goal("256 streams", "TTFT", 2.0, "ms", "ttft_p99_error_ms")
    assert performance.goal_row(goal, {"256 streams": {"ttft_p99_error_ms": 5.0}}).endswith("| 5.00 ms | **no** |")
    assert performance.goal_row(goal, {"256 streams": {"ttft_p99_error_ms": 1.0}}).endswith("| 1.00 ms | yes |")
    assert performance.goal_row(goal, {}) == ""


def test_an_error_is_a_distance() -> None:
    """Reporting 3 ms too little is as wrong as 3 ms too much."""
    figures = {"ttft_p99_ms": 47.0, "truth_ttft_p99_ms": 50.0, "itl_p99_ms": 21.0, "truth_itl_p99_ms": 20.0}
    errors = performance.with_errors(figures)
    assert (errors["ttft_p99_error_ms"], errors["itl_p99_error_ms"]) == (3.0, 1.0)


def test_the_page_counts_its_misses_and_says_what_had_priority() -> None:
    """One case, with goals for CPU (missed), TTFT and ITL (met)."""
    metrics = ("ttft", "itl", "truth_ttft", "truth_itl")
    names = [f"{metric}_{at}_ms" for metric in metrics for at in ("p50", "p99")]
    names += ["share_of_possible_rate", "cpu_s_per_100k_tokens", "start_up_cpu_s", "rss_mb", "lag_p99_ms"]
    one = dict.fromkeys([*names, "load_average", "valid"], 1.0)
    found = {"256 streams": performance.with_errors(one) | {"cpu_s_per_100k_tokens": 3.5}}
    text = performance.page(found, Namespace(plain=True))
    assert "2 of 3 met." in text
    assert "nothing had priority" in text
    assert "| 256 streams | CPU per 100,000 streamed tokens | ≤ 3 s | 3.50 s | **no** |" in text
