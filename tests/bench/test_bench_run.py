"""Whole runs against a small server of our own: what is sent, what is counted, what is judged."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_recompute import differences, recompute

from loadproof.bench.connect import parse_target
from loadproof.bench.job import new_folder, resume_benchmark, run_benchmark
from loadproof.bench.judging import RunResult, shown_again
from loadproof.bench.live.lines import Line, Progress
from loadproof.bench.measure.records import read_records
from loadproof.bench.objectives import parse_objective
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.wire.payloads import Protocol

pytestmark = pytest.mark.usefixtures("patient")


def spec_for(endpoint: FakeEndpoint, **changes: object) -> BenchmarkSpec:
    spec = BenchmarkSpec(
        target=parse_target("sagemaker://demo/demo-main", "tgi", streaming=True, endpoint_url=endpoint.url),
        workload=WorkloadSpec(fixed_tokens(16), fixed_tokens(6)),
        concurrency=(1, 3),
        requests_per_level=6,
        warmup_requests=2,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def quiet(line: Line) -> None:
    """No display."""


def run(endpoint: FakeEndpoint, folder: Path, **changes: object) -> RunResult:
    return run_benchmark(spec_for(endpoint, **changes), quiet, folder)


def level(result: RunResult, concurrency: int) -> dict:
    return next(row for row in result.summary.levels if row.concurrency == concurrency)


def test_a_run_from_first_request_to_report(tmp_path: Path) -> None:
    """2 levels of 6 requests and 2 warm-ups each: 16 requests sent, 12 counted, five files, PASS, exit 0."""
    with serving(FakeEndpoint()) as endpoint:
        result = run(endpoint, tmp_path, objectives=(parse_objective("requests_per_s_min=0.1"),))
    assert len(endpoint.served) == 16
    assert [row.requests for row in result.summary.levels] == [6, 6]
    assert {path.name for path in tmp_path.iterdir()} == {
        "plan.json", "requests.jsonl", "summary.json", "evidence.json", "report.html",
    }  # fmt: skip
    assert result.summary.verdict.outcome == "PASS" and result.exit_code is ExitCode.OK
    assert level(result, 1).token_source == "server"
    assert level(result, 1).input_token_source == "server"


def test_every_prompt_is_sent_once(tmp_path: Path) -> None:
    """A server that caches prefixes never sees the same prompt again, warm-up included."""
    with serving(FakeEndpoint()) as endpoint:
        run(endpoint, tmp_path)
    prompts = [served.prompt for served in endpoint.served]
    assert len(set(prompts)) == len(prompts) == 16
    assert {len(prompt.split()) for prompt in prompts} == {16}


def test_latencies_agree_with_the_servers_own_log(tmp_path: Path) -> None:
    """What is reported lies above what the server saw, by no more than a crowded machine's scheduling."""
    with serving(FakeEndpoint(ttft_s=0.1, itl_s=0.05)) as endpoint:
        result = run(endpoint, tmp_path, concurrency=(2,), requests_per_level=4, warmup_requests=0)
    first_ms = sorted((served.token_ns[0] - served.received_ns) / 1e6 for served in endpoint.served)
    assert first_ms[0] <= level(result, 2).ttft_ms.p50 <= first_ms[-1] + 80
    gaps_ms = sorted((b - a) / 1e6 for one in endpoint.served for a, b in pairwise(one.token_ns))
    assert level(result, 2).itl_ms.p50 == pytest.approx(gaps_ms[len(gaps_ms) // 2], abs=25)


def test_an_independent_recomputation_gives_the_same_figures(tmp_path: Path) -> None:
    """Code that shares nothing with the product reads requests.jsonl and arrives at summary.json, errors included."""
    broken = {5: "cut", 11: "refuse"}
    bounds = tuple(map(parse_objective, ("ttft_p95_ms=20", "itl_p90_ms=3", "tpot_p50_ms=100", "e2e_p99_ms=1000")))
    with serving(FakeEndpoint(fault_of=broken.get, tokens_per_event=2)) as endpoint:
        run(endpoint, tmp_path, concurrency=(1, 2, 4), objectives=bounds, usd_per_hour=1.5)
    ours = sorted(json.loads((tmp_path / "summary.json").read_bytes())["levels"], key=lambda row: row["concurrency"])
    again = recompute(tmp_path)
    found = [one for mine, theirs in zip(ours, again, strict=True) for one in differences(mine, theirs)]
    assert found == []
    assert sum(row["errors"] for row in ours) == 2
    assert all(row["phases"]["queue_ms"]["p50"] is not None for row in again)


@pytest.mark.parametrize(("protocol", "source"), [("lmi", "chunks"), ("tgi", "server"), ("openai", "server")])
def test_every_protocol_is_counted_by_its_best_source(tmp_path: Path, protocol: Protocol, source: str) -> None:
    """TGI and OpenAI servers count their own tokens; LMI's count is one too high, so its chunks are counted."""
    with serving(FakeEndpoint(protocol=protocol)) as endpoint:
        target = parse_target("sagemaker://demo", protocol, streaming=True, endpoint_url=endpoint.url)
        result = run(endpoint, tmp_path, target=target, concurrency=(2,))
    row = level(result, 2)
    assert (row.errors, row.token_source) == (0, source)
    assert row.output_tokens_per_s == pytest.approx(6 * row.requests_per_s)


def test_an_openai_server_is_reached_at_its_usual_path(tmp_path: Path) -> None:
    """http://host:port means /v1/completions, with the model name the server wants; no AWS framing or signature."""
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        target = parse_target(endpoint.url, "openai", streaming=True, model="tiny")
        result = run(endpoint, tmp_path, target=target, concurrency=(1,))
    assert {(served.path, served.model) for served in endpoint.served} == {("/v1/completions", "tiny")}
    assert level(result, 1).errors == 0 and level(result, 1).input_token_source == "server"


def test_a_truncated_stream_is_one_error(tmp_path: Path) -> None:
    """The stream of request 3 ends in order but without its end marker: one error, 5 of 6 in the latencies, FAIL."""
    with serving(FakeEndpoint(fault_of={3: "cut"}.get)) as endpoint:
        result = run(endpoint, tmp_path, concurrency=(1,), warmup_requests=0)
    row = level(result, 1)
    assert (row.requests, row.errors, row.errors_by_kind) == (6, 1, {"truncated": 1})
    assert result.summary.verdict.outcome == "FAIL" and result.exit_code is ExitCode.MISSED
    assert "1 of 6 requests failed" in result.summary.verdict.reasons[0]


def test_a_stall_ends_as_a_timeout(tmp_path: Path) -> None:
    """A request that gets no byte within its 0.3 s is an error of kind timeout, and the others go on."""
    with serving(FakeEndpoint(fault_of={1: "stall"}.get)) as endpoint:
        result = run(
            endpoint, tmp_path, concurrency=(2,), requests_per_level=4, warmup_requests=0, request_timeout_s=0.3
        )
    assert level(result, 2).errors_by_kind == {"timeout": 1}
    assert level(result, 2).requests == 4


def test_a_unary_run_has_no_first_token(tmp_path: Path) -> None:
    """Without streaming TTFT, ITL and TPOT are no data; E2E and the server's token count remain."""
    with serving(FakeEndpoint()) as endpoint:
        spec = spec_for(endpoint, concurrency=(1,))
        result = run_benchmark(replace(spec, target=replace(spec.target, streaming=False)), quiet, tmp_path)
    row = level(result, 1)
    assert row.ttft_ms.p50 is row.itl_ms.p50 is row.tpot_ms.p50 is None
    assert row.e2e_ms.p50 > 10 and row.output_tokens_per_s > 0


def test_concurrency_is_what_the_server_sees(tmp_path: Path) -> None:
    """With 3 slots and equal requests, 3 are in flight most of the time and never more."""
    with serving(FakeEndpoint(ttft_s=0.03)) as endpoint:
        run(endpoint, tmp_path, concurrency=(3,), requests_per_level=12, warmup_requests=0)
    changes = [(served.received_ns, 1) for served in endpoint.served]
    changes += [(served.token_ns[-1], -1) for served in endpoint.served]
    in_flight = most = 0
    for _, change in sorted(changes):
        in_flight += change
        most = max(most, in_flight)
    assert most == 3


def test_a_resumed_run_sends_only_what_is_missing(tmp_path: Path) -> None:
    """Take 3 finished lines and tear a 4th: the resumed run sends 3 of level one and 6 of level two, once each."""
    with serving(FakeEndpoint()) as endpoint:
        run(endpoint, tmp_path, warmup_requests=0)
        lines = (tmp_path / "requests.jsonl").read_bytes().splitlines(keepends=True)
        (tmp_path / "requests.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:40])
        (tmp_path / "summary.json").unlink()
        before = len(endpoint.served)
        result = resume_benchmark(tmp_path, quiet)
    assert len(endpoint.served) - before == 9
    assert [row.requests for row in result.summary.levels] == [6, 6]
    assert result.summary.conditions.sessions == 2 and result.summary.conditions.torn_lines == 1
    assert {record.session for record in read_records(tmp_path / "requests.jsonl").records} == {0, 1}
    prompts = [served.prompt for served in endpoint.served]
    assert len(set(prompts)) == len(prompts), "a prompt sent before the crash may be cached by now"


def test_resuming_a_finished_run_sends_nothing(tmp_path: Path) -> None:
    """It only judges again, the endpoint long gone, and comes to the same figures; no session is added."""
    with serving(FakeEndpoint()) as endpoint:
        first = run(endpoint, tmp_path)
        sent = len(endpoint.served)
    again = resume_benchmark(tmp_path, quiet)
    assert len(endpoint.served) == sent
    assert again.summary == first.summary


def test_a_run_is_not_resumed_as_another(tmp_path: Path) -> None:
    """Other levels would mix two experiments in one folder; a moved endpoint URL is the same experiment."""
    with serving(FakeEndpoint()) as endpoint:
        run(endpoint, tmp_path)
        with pytest.raises(InputError, match="planned with another concurrency"):
            resume_benchmark(tmp_path, quiet, spec_for(endpoint, concurrency=(1, 2)))
        with serving(FakeEndpoint()) as moved:
            assert resume_benchmark(tmp_path, quiet, spec_for(moved)).exit_code is ExitCode.NOT_JUDGED


def test_runs_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    """The second and third are numbered; none is refused and none is written over."""
    names = [new_folder(tmp_path, "20261121-101500-chat").name for _ in range(3)]
    assert names == ["20261121-101500-chat", "20261121-101500-chat-2", "20261121-101500-chat-3"]


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Two runs in one folder would be judged as one."""
    (tmp_path / "notes.txt").write_text("mine")
    with serving(FakeEndpoint()) as endpoint, pytest.raises(InputError, match=r"not empty.*--resume"):
        run(endpoint, tmp_path)
    assert not endpoint.served


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [("missing", "Endpoint demo of account 123456789012 not found"), ("no_capacity", "has no capacity.*wakes it")],
)
def test_an_endpoint_that_is_not_there_could_not_run(tmp_path: Path, fault: str, complaint: str) -> None:
    """Nothing was measured, so there is no verdict: exit 3, and the folder is free for the next try."""
    with (
        serving(FakeEndpoint(fault_of=lambda number: fault)) as endpoint,
        pytest.raises(CouldNotRunError, match=complaint),
    ):
        run(endpoint, tmp_path / "out")
    assert len(endpoint.served) == 2, "the warm-up was enough to know"
    assert not (tmp_path / "out").exists()


def test_an_endpoint_that_resets_every_request_fails_by_its_errors(tmp_path: Path) -> None:
    """Somebody was there, so that is a result: FAIL, exit 1, with every request on record."""
    with serving(FakeEndpoint(fault_of=lambda number: "reset")) as endpoint:
        result = run(endpoint, tmp_path / "out", concurrency=(2,))
    assert (result.summary.verdict.outcome, result.exit_code) == ("FAIL", 1)
    assert level(result, 2).errors_by_kind == {"connection": 6}
    assert (tmp_path / "out" / "report.html").exists()


def test_records_of_a_run_that_got_nowhere_are_kept(tmp_path: Path) -> None:
    """No warm-up, and no capacity for any measured request: exit 3, but the records stay and can be judged."""
    with (
        serving(FakeEndpoint(fault_of=lambda number: "no_capacity")) as endpoint,
        pytest.raises(CouldNotRunError, match="no capacity"),
    ):
        run(endpoint, tmp_path / "out", concurrency=(2,), warmup_requests=0)
    read = shown_again(tmp_path / "out")
    assert read.summary.levels[0].errors == 6 and read.summary.verdict.outcome == "FAIL"


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    """Each phase of each level reports itself complete, in order."""
    seen: list[Line] = []
    with serving(FakeEndpoint()) as endpoint:
        run_benchmark(spec_for(endpoint), seen.append, tmp_path)
    ends = [(line.load, line.phase) for line in seen if isinstance(line, Progress) and line.done == line.total]
    assert ends == [(f"{slots} in flight", phase) for slots in (1, 3) for phase in ("warmup", "measured")]


def test_only_the_load_is_scheduled_first(tmp_path: Path) -> None:
    """While requests are under way the process ranks at least as high as before, and afterwards as before."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    during: set[int] = set()
    with serving(FakeEndpoint()) as endpoint:
        spec = spec_for(endpoint, concurrency=(1,))
        run_benchmark(spec, lambda progress: during.add(os.getpriority(os.PRIO_PROCESS, 0)), tmp_path)
    assert during and max(during) <= before
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
