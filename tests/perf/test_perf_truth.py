"""The truth server keeps its schedule and its log; the page of figures shows a miss as a miss."""

from __future__ import annotations

import asyncio
import shutil
import sys
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


def _pair(peer: float, ours: float) -> performance.Pair:
    """Both with every figure the page shows; the peer's all `peer`, ours all `ours`."""
    metrics = ("ttft", "itl", "truth_ttft", "truth_itl")
    names = [f"{metric}_{at}_ms" for metric in metrics for at in ("p50", "p99")]
    names += ["share_of_possible_rate", "cpu_s_per_100k_tokens", "whole_cpu_s_per_100k_tokens", "start_up_cpu_s"]
    names += ["rss_mb", "load_average", "valid", "ttft_p99_error_ms", "itl_p99_error_ms"]
    return performance.Pair(dict.fromkeys(names, peer), dict.fromkeys(names, ours))


def test_a_goal_that_is_missed_says_so() -> None:
    """Ratios 0.5, 0.7, 0.8 of the peer's CPU: their median misses 0.6 and meets 0.8."""
    cpu, pairs = performance.RATIOS[0], [_pair(10, 5), _pair(10, 8), _pair(10, 7)]
    few, many = performance.Case(64, 0.6), performance.Case(1024, 0.8)
    assert performance.ratio_row(cpu, few, pairs).endswith("| ≤ 0.60 | 0.70 | 0.50 to 0.80 | **no** |")
    assert performance.ratio_row(cpu, many, pairs).endswith("| ≤ 0.80 | 0.70 | 0.50 to 0.80 | yes |")


def test_a_share_of_the_rate_is_asked_of_the_many_only() -> None:
    """At 1,024 streams at least 0.95; at 64 there is no such row."""
    share, pairs = performance.RATIOS[2], [_pair(1, 0.9)]
    assert performance.ratio_row(share, performance.Case(1024, 0.8), pairs).endswith("| 0.90 to 0.90 | **no** |")
    assert performance.ratio_row(share, performance.Case(64, 0.6), pairs) == ""


def test_an_error_is_a_distance() -> None:
    """Reporting 3 ms too little is as wrong as 3 ms too much."""
    figures = {"ttft_p99_ms": 47.0, "truth_ttft_p99_ms": 50.0, "itl_p99_ms": 21.0, "truth_itl_p99_ms": 20.0}
    errors = performance.with_errors(figures)
    assert (errors["ttft_p99_error_ms"], errors["itl_p99_error_ms"]) == (3.0, 1.0)


def test_the_page_counts_its_misses() -> None:
    """Two goals at 64 streams: a ratio of 0.5 meets the one for CPU and misses the one for the error."""
    text = performance.page({"The machine as it is": {performance.Case(64, 0.6): [_pair(2.0, 1.0)]}})
    assert "1 of 2 goals met." in text
    assert "| 64 streams | CPU a token | ≤ 0.60 | 0.50 | 0.50 to 0.50 | yes |" in text
    assert "| 64 streams | error of TTFT p99 | ≤ 0.33 | 0.50 | 0.50 to 0.50 | **no** |" in text
