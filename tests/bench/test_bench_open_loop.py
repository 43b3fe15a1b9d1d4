"""Whole runs by rate and by time against a small server of our own: what is due is sent, and counted from then."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_recompute import differences, recompute
from bench_virtual import VirtualRun, VirtualServer

from loadproof.bench.connect import parse_target
from loadproof.bench.document import as_json
from loadproof.bench.job import resume_benchmark, run_benchmark
from loadproof.bench.judging import RunResult, judge_run
from loadproof.bench.live import meter
from loadproof.bench.live.lines import Line, Progress
from loadproof.bench.measure.records import read_records
from loadproof.bench.objectives import parse_objective
from loadproof.bench.plan import read_plan, write_plan
from loadproof.bench.search.planned import next_planned
from loadproof.bench.search.probes import Probe
from loadproof.bench.spec import BenchmarkSpec, Search, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.arrivals import schedule_of
from loadproof.errors import InputError
from loadproof.loads import Load

pytestmark = pytest.mark.usefixtures("patient")


def spec_for(endpoint: FakeEndpoint, *loads: Load, **changes: object) -> BenchmarkSpec:
    spec = BenchmarkSpec(
        target=parse_target("sagemaker://demo/demo-main", "tgi", streaming=True, endpoint_url=endpoint.url),
        workload=WorkloadSpec(fixed_tokens(8), fixed_tokens(3)),
        concurrency=(1,),
        requests_per_level=6,
        warmup_requests=2,
        loads=loads,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def quiet(line: Line) -> None:
    """No display."""


def run(endpoint: FakeEndpoint, folder: Path, *loads: Load, **changes: object) -> RunResult:
    return run_benchmark(spec_for(endpoint, *loads, **changes), quiet, folder)


def measured(folder: Path, level: int = 0) -> list:
    records = read_records(folder / "requests.jsonl").records
    return sorted(
        (r for r in records if r.phase == "measured" and r.level == level), key=lambda r: (r.session, r.index)
    )


def test_requests_leave_as_planned_whatever_the_endpoint_does(tmp_path: Path) -> None:
    """40 Poisson arrivals in about 0.8 s at a server that takes 0.3 s: intended at the schedule's times, to the ns."""
    load = Load("poisson", requests_per_s=50, requests=40)
    with serving(FakeEndpoint(ttft_s=0.3)) as endpoint:
        result = run(endpoint, tmp_path, load)
    offsets = [record.intended_ns for record in measured(tmp_path)]
    due_ns = schedule_of(load, 0, 0).due_ns
    assert [later - earlier for earlier, later in pairwise(offsets)] == [
        later - earlier for earlier, later in pairwise(due_ns)
    ]
    (level,) = result.summary.levels
    assert level.requests == 40 and level.load == "poisson 50 requests/s"
    assert level.planned.requests_per_s == 50 and level.mean_in_flight > 5
    assert result.summary.verdict.at_load == "poisson 50 requests/s"
    page = (tmp_path / "report.html").read_text()
    assert ">At <bdi>poisson 50 requests/s</bdi></h2>" in page and "poisson 50 requests/s, judged here" in page


def test_an_open_loop_agrees_with_the_servers_log_and_with_a_recomputation(tmp_path: Path) -> None:
    """60 requests, ten a second more than a server of one slot can begin, two tokens a chunk, one refused and one cut:
    each first token is where the server's own clock has it, counted from the due time; gaps are the log's, one for each
    chunk; and code that shares nothing with the product arrives at the same figures, goodput and errors included."""
    bounds = tuple(map(parse_objective, ("ttft_p95_ms=120", "itl_p90_ms=40", "e2e_p99_ms=900")))
    faults = {12: "refuse", 31: "cut"}
    with serving(FakeEndpoint(alone_s=0.02, itl_s=0.02, tokens_per_event=2, fault_of=faults.get)) as endpoint:
        result = run(
            endpoint,
            tmp_path,
            Load("constant", requests_per_s=60, requests=60),
            workload=WorkloadSpec(fixed_tokens(8), fixed_tokens(8)),
            objectives=bounds,
            warmup_requests=2,
        )
        served = endpoint.served[2:]
    (level,) = result.summary.levels
    assert level.errors_by_kind == {"model_error": 1, "truncated": 1}
    records = measured(tmp_path)
    zero_ns = min(one.received_ns - record.dispatched_ns for one, record in zip(served, records, strict=True))
    whole = [(one, record) for one, record in zip(served, records, strict=True) if record.ok]
    for one, record in whole:
        assert record.first_token_ns is not None
        assert -1e6 < record.first_token_ns - (one.token_ns[0] - zero_ns) < 50e6
    due_ns = [record.intended_ns for record in records]
    assert [later - earlier for earlier, later in pairwise(due_ns)] == pytest.approx([1e9 / 60] * 59, abs=2)
    first_ms = [(one.token_ns[0] - zero_ns - record.intended_ns) / 1e6 for one, record in whole]
    assert max(first_ms) > 150, "the queue grew, and is counted from when each was due"
    assert level.ttft_ms.mean == pytest.approx(sum(first_ms) / len(first_ms), abs=10)
    gaps_ms = [(b - a) / 1e6 for one, _ in whole for a, b in pairwise(sorted(set(one.token_ns)))]
    assert len(gaps_ms) == 3 * len(whole) and level.tokens_per_arrival == pytest.approx(2, abs=0.1)
    assert level.itl_ms.mean == pytest.approx(sum(gaps_ms) / len(gaps_ms), rel=0.1)
    assert 0 < level.goodput_per_s < level.requests_per_s
    assert differences(as_json(level), recompute(tmp_path)[0]) == []


def virtual(folder: Path, server: VirtualServer, *loads: Load, **changes: object) -> VirtualRun:
    """As `run` would, on a clock that jumps."""
    return VirtualRun(folder, spec_for(FakeEndpoint(), *loads, **changes), server)


def test_a_freeze_of_the_endpoint_is_in_every_latency_it_delayed(tmp_path: Path) -> None:
    """A server that stands still for F = 2 s under 40 requests/s gives the p99 that follows from that alone.

    Constant arrivals for 6 s are 240 requests. Those due in the freeze, 80 of them, wait for its end: the one due x
    seconds into it takes F - x plus the service time s. Ranked from 0, p99 is at rank 0.99 * 239 = 236.61, so 2.39
    ranks below the slowest, whose x is 0.01; neighbours are due 25 ms apart, so p99 = F - 0.01 - 2.39 * 0.025 + s =
    1.94025 s. A closed loop would have sent one request a slot in the freeze and reported p99 = s.
    """
    server = VirtualServer(ttft_s=0.01, freezes_at_s=1.49, frozen_s=2)
    load = Load("constant", requests_per_s=40, duration_s=6)
    workload = WorkloadSpec(fixed_tokens(8), fixed_tokens(1))
    (level,) = virtual(tmp_path, server, load, workload=workload, warmup_requests=0).go().summary.levels
    assert (level.requests, level.errors) == (240, 0)
    assert level.ttft_ms.p99 == pytest.approx(1940.25, abs=0.01)
    assert level.ttft_ms.p50 == pytest.approx(10, abs=0.01), "two thirds of the requests met no freeze"


def test_more_than_the_endpoint_can_serve_never_settles(tmp_path: Path) -> None:
    """A server that takes one request at a time, 10 ms each, under 200/s: latency grows, and the level says so."""
    load = Load("poisson", requests_per_s=200, requests=150)
    steady = virtual(tmp_path, VirtualServer(alone_s=0.01), load).go().summary.levels[0].steady_state
    assert (steady.reached, steady.growing) == (False, True)


def test_what_is_unfinished_after_the_drain_is_counted_and_a_lower_bound(tmp_path: Path) -> None:
    """The last two of ten requests hang; 1 s after the last was due they are cut off: unfinished, not dropped."""
    with serving(FakeEndpoint(fault_of=lambda number: "stall" if number >= 10 else None)) as endpoint:
        result = run(
            endpoint,
            tmp_path,
            Load("constant", requests_per_s=50, requests=10),
            drain_s=1.0,
            objectives=(parse_objective("ttft_p50_ms=5000"),),
        )
        sent = len(endpoint.served)
        resume_benchmark(tmp_path, quiet)
        assert len(endpoint.served) == sent, "unfinished is the level's result, not something to send again"
    (level,) = result.summary.levels
    assert (level.requests, level.unfinished, level.errors) == (8, 2, 0)
    assert level.drain.unfinished == 2 and level.drain.e2e_ms_at_least.max >= 1000
    assert result.summary.verdict.outcome == "INCONCLUSIVE"


def test_an_open_level_that_was_cut_short_is_measured_anew(tmp_path: Path) -> None:
    """Of 20 requests 7 were recorded when the run was killed, an hour ago: resumed, all 20 leave again and only those
    count."""
    with serving(FakeEndpoint()) as endpoint:
        run(endpoint, tmp_path, Load("constant", requests_per_s=100, requests=20), Load(concurrency=2, requests=4))
        plan = read_plan(tmp_path)
        levels = tuple(replace(level, ended_utc=None) for level in plan.levels)
        write_plan(tmp_path, replace(plan, levels=levels, zero_unix_ns=plan.zero_unix_ns - 3600 * 10**9))
        lines = (tmp_path / "requests.jsonl").read_bytes().splitlines(keepends=True)
        (tmp_path / "requests.jsonl").write_bytes(b"".join(lines[:9]))  # two are of the warm-up
        before = len(endpoint.served)
        result = resume_benchmark(tmp_path, quiet)
    assert len(endpoint.served) - before == 2 + 20 + 2 + 4
    closed, opened = sorted(result.summary.levels, key=lambda level: level.requests)
    assert (closed.requests, opened.requests) == (4, 20)
    assert {record.session for record in measured(tmp_path)} == {0, 1}
    assert opened.duration_s < 60, "the rest between two sessions is no part of it"


def test_an_open_level_without_data_is_named_by_its_rate(tmp_path: Path) -> None:
    """Stopped in its warm-up, the run says which load it has no data at."""
    with serving(FakeEndpoint()) as endpoint:
        run(endpoint, tmp_path, Load("constant", requests_per_s=100, requests=3))
    (tmp_path / "requests.jsonl").write_bytes(b"")
    reasons = judge_run(tmp_path, interrupted=True).summary.verdict.reasons
    assert "no data at constant 100 requests/s, where the objectives must hold" in reasons


def test_phases_of_several_kinds_follow_one_another(tmp_path: Path) -> None:
    """A closed loop, a timed one and a recorded trace in one run: a level each, with the trace's own lengths."""
    trace = tmp_path / "trace.csv"
    trace.write_text("timestamp_s,input_tokens,output_tokens\n0,5,2\n0.1,9,4\n0.15,7,3\n")
    loads = (Load(concurrency=2, requests=5), Load(concurrency=3, duration_s=0.4), Load("trace", trace=str(trace)))
    with serving(FakeEndpoint()) as endpoint:
        result = run(endpoint, tmp_path / "run", *loads)
    kinds = {level.planned.level: level for level in result.summary.levels}
    assert [kinds[0].requests, kinds[2].requests] == [5, 3] and kinds[1].requests > 6
    sent = [(r.planned_input_tokens, r.planned_output_tokens) for r in measured(tmp_path / "run", 2)]
    assert sent == [(5, 2), (9, 4), (7, 3)]
    assert kinds[2].load == "trace trace.csv"
    last = max(record.intended_ns for record in measured(tmp_path / "run", 1))
    assert last - min(record.intended_ns for record in measured(tmp_path / "run", 1)) < 0.45e9


def test_a_trace_that_changed_is_not_resumed(tmp_path: Path) -> None:
    """Its schedule's hash is in the plan."""
    trace = tmp_path / "trace.csv"
    trace.write_text("timestamp_s,input_tokens,output_tokens\n0,5,2\n0.01,9,4\n")
    with serving(FakeEndpoint()) as endpoint:
        run(endpoint, tmp_path / "run", Load("trace", trace=str(trace)))
        plan = read_plan(tmp_path / "run")
        write_plan(tmp_path / "run", replace(plan, levels=(replace(plan.levels[0], ended_utc=None),)))
        trace.write_text("timestamp_s,input_tokens,output_tokens\n0,5,2\n0.02,9,4\n")
        with pytest.raises(InputError, match=r"not the planned one; has .*trace\.csv changed"):
            resume_benchmark(tmp_path / "run", quiet)


def test_the_highest_rate_is_found_and_the_search_resumes(tmp_path: Path) -> None:
    """One request at a time, 20 ms each, E2E p50 within 60 ms: the limit lies above the 50/s it can serve, by what 25
    requests can queue.

    Cut off after its third level, the search goes on where it was and comes to the same rate.
    """
    search = Search("find_max", Load("constant", requests=25), 8, 128, repeats=2, tolerance=0.5)
    bounds = (parse_objective("e2e_p50_ms=60"),)
    searched = virtual(tmp_path, VirtualServer(alone_s=0.02), search=search, objectives=bounds, warmup_requests=0)
    result = searched.go()
    found = result.summary.search
    assert found.stop.rule == "converged" and 8 <= found.found < 64
    assert found.found < found.bracket.missed <= 1.5 * found.found
    assert len(found.bracket.met_votes) == len(found.bracket.missed_votes) == 2
    assert found.limited_by.objective == "e2e_p50_ms"
    assert result.summary.verdict.at_load == f"constant {found.found:g} requests/s"
    plan = read_plan(tmp_path)
    write_plan(tmp_path, replace(plan, levels=plan.levels[:3]))
    kept = [line for line in (tmp_path / "requests.jsonl").read_bytes().splitlines(True) if b'"level":' in line]
    early = [line for line in kept if any(f'"level":{level},'.encode() in line for level in range(3))]
    (tmp_path / "requests.jsonl").write_bytes(b"".join(early))
    searched.server = VirtualServer(alone_s=0.02)
    again = searched.go()
    assert (again.summary.search.stop.rule, again.summary.search.found) == ("converged", found.found)
    assert len(read_plan(tmp_path).levels) == len(plan.levels)


def test_a_level_that_was_judged_is_not_asked_for_its_records_again(tmp_path: Path) -> None:
    """Two levels of a search, judged once: what comes next is the same without their records as with them."""
    search = Search("find_max", Load("constant", requests=25), 8, 128, tolerance=0.5)
    bounds = (parse_objective("e2e_p50_ms=60"),)
    virtual(tmp_path, VirtualServer(alone_s=0.02), search=search, objectives=bounds, warmup_requests=0).go()
    plan = read_plan(tmp_path)
    plan = replace(plan, levels=plan.levels[:2])
    records = [one for one in read_records(tmp_path / "requests.jsonl").records if one.level < 2]
    judged: dict[int, Probe] = {}
    wanted = next_planned(plan, records, judged)
    assert wanted is not None and list(judged) == [0, 1]
    assert next_planned(plan, (), judged) == wanted


def test_a_finished_search_resumes_without_its_endpoint(tmp_path: Path) -> None:
    """It is over by its own rule. Killed between a level's last record and its end, that level is not sent again."""
    search = Search("sweep", Load(requests=6), 1, 2)
    with serving(FakeEndpoint()) as endpoint:
        first = run(endpoint, tmp_path, search=search, warmup_requests=0)
        sent = len(endpoint.served)
        plan = read_plan(tmp_path)
        write_plan(tmp_path, replace(plan, levels=(plan.levels[0], replace(plan.levels[1], ended_utc=None))))
        resume_benchmark(tmp_path, quiet)
        assert len(endpoint.served) == sent and len(read_plan(tmp_path).levels) == 2
    again = resume_benchmark(tmp_path, quiet)
    assert again.summary.search == first.summary.search


def test_a_first_request_that_hangs_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request ends for a second: progress comes by time, with what is in flight and what waits for a token."""
    monkeypatch.setattr(meter, "TICK_S", 0.3)
    monkeypatch.setattr(meter, "INTERVAL_S", 0.1)
    seen: list[Line] = []
    with serving(FakeEndpoint(fault_of=lambda number: "stall")) as endpoint:
        spec = spec_for(endpoint, concurrency=(2,), requests_per_level=2, warmup_requests=0, request_timeout_s=1.0)
        run_benchmark(spec, seen.append, tmp_path)
    hanging = [line for line in seen if isinstance(line, Progress) and not line.done]
    assert len(hanging) >= 2
    assert (hanging[-1].in_flight, hanging[-1].waiting) == (2, 2) and (hanging[-1].oldest_s or 0) > 0.3
