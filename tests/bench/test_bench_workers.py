"""Several processes share one load: the same requests as one would send, and none silently absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from bench_fakes import FakeEndpoint, serving

from loadproof.bench.connect import parse_target
from loadproof.bench.job import resume_benchmark, run_benchmark
from loadproof.bench.live.lines import Line
from loadproof.bench.measure.records import MISSING, read_records
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.errors import CouldNotRunError, ExitCode
from loadproof.loads import Load

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="workers need socket pairs"),
    pytest.mark.usefixtures("patient"),
]


def spec_for(endpoint: FakeEndpoint, *loads: Load, workers: int = 2) -> BenchmarkSpec:
    """At its own address: no process that observes copies runs beside the workers, and none of them loads an SDK."""
    return BenchmarkSpec(
        target=parse_target(f"{endpoint.url}/invocations", "tgi", streaming=True),
        workload=WorkloadSpec(fixed_tokens(16), fixed_tokens(6)),
        concurrency=(1,),
        requests_per_level=6,
        warmup_requests=2,
        loads=loads,
        workers=workers,
    )


def quiet(line: Line) -> None:
    """No display."""


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "loadproof.bench.load.worker" in " ".join(one.cmdline())]


def test_two_workers_send_what_one_would_have(tmp_path: Path) -> None:
    """The same prompts in a closed and an open level, each request recorded once; nobody is left when it ends."""
    prompts = {}
    for workers in (1, 2):
        folder = tmp_path / str(workers) / "run"
        folder.parent.mkdir()
        with serving(FakeEndpoint()) as endpoint:
            loads = (Load(concurrency=3, requests=7), Load("constant", requests_per_s=40, requests=9))
            result = run_benchmark(spec_for(endpoint, *loads, workers=workers), quiet, folder)
        salted = [served.prompt.split()[4:] for served in endpoint.served]  # the first four words are the run's own
        prompts[workers] = sorted(salted)
        assert [row.requests for row in result.summary.levels] == [7, 9]
        assert result.summary.verdict.outcome == "NOT JUDGED"
        records = read_records(folder / "requests.jsonl").records
        assert set(Counter((one.phase, one.level, one.index) for one in records).values()) == {1}
    assert prompts[1] == prompts[2] and len(prompts[1]) == 7 + 9 + 2 * 2
    assert children() == []


def test_an_open_schedule_is_kept_across_workers(tmp_path: Path) -> None:
    """20 requests, one every 20 ms, from three processes: each intended at its own due time of the one schedule."""
    with serving(FakeEndpoint()) as endpoint:
        load = Load("constant", requests_per_s=50, requests=20)
        run_benchmark(spec_for(endpoint, load, workers=3), quiet, tmp_path)
    records = [one for one in read_records(tmp_path / "requests.jsonl").records if one.phase == "measured"]
    intended_ns = [one.intended_ns for one in sorted(records, key=lambda one: one.index)]
    assert [round((late - intended_ns[0]) / 1e6) for late in intended_ns] == [20 * index for index in range(20)]


def kill_one_after(requests: int, endpoint: FakeEndpoint) -> threading.Thread:
    def kill() -> None:
        while len(endpoint.served) < requests:
            time.sleep(0.005)
        os.kill(children()[0].pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_a_killed_workers_share_is_missing_and_resume_completes_it(tmp_path: Path) -> None:
    """Of 60 requests those of the killed worker that have no answer are recorded as missing: INVALID, then whole."""
    with serving(FakeEndpoint(ttft_s=0.05)) as endpoint:
        spec = spec_for(endpoint, Load(concurrency=4, requests=60))
        killer = kill_one_after(20, endpoint)
        result = run_benchmark(spec, quiet, tmp_path)
        killer.join()
        records = [one for one in read_records(tmp_path / "requests.jsonl").records if one.phase == "measured"]
        missing = [one for one in records if one.outcome == MISSING]
        resumed = resume_benchmark(tmp_path, quiet)
    assert sorted(one.index for one in records) == list(range(60))
    assert 0 < len(missing) <= 30
    assert len({one.index % 2 for one in missing}) == 1  # one worker's share: every second request
    assert "was killed by SIGKILL" in (missing[0].error_message or "")
    (level,) = result.summary.levels
    assert (level.missing, level.requests, level.valid) == (len(missing), 60 - len(missing), False)
    assert result.summary.verdict.outcome == "INVALID"
    assert resumed.summary.levels[0].requests == 60
    assert resumed.summary.levels[0].valid and resumed.summary.verdict.outcome == "NOT JUDGED"


def test_a_timed_level_knows_what_a_killed_worker_had_in_flight(tmp_path: Path) -> None:
    """Two of four slots were the killed worker's: two requests are missing, and the level counts for nothing."""
    with serving(FakeEndpoint(ttft_s=0.05)) as endpoint:
        spec = spec_for(endpoint, Load(concurrency=4, duration_s=1.0))
        killer = kill_one_after(12, endpoint)
        result = run_benchmark(spec, quiet, tmp_path)
        killer.join()
    assert result.summary.levels[0].missing == 2
    assert result.summary.verdict.outcome == "INVALID"


def test_an_endpoint_that_is_not_there_is_told_by_workers_too(tmp_path: Path) -> None:
    """No connection: could not run, with the reason, and no worker is left."""
    nowhere = FakeEndpoint(port=9)
    with pytest.raises(CouldNotRunError, match="cannot be reached"):
        run_benchmark(spec_for(nowhere, Load(concurrency=2, requests=4)), quiet, tmp_path / "run")
    assert children() == []


def test_ctrl_c_ends_workers_and_run_within_three_seconds(tmp_path: Path) -> None:
    """The endpoint stalls; what was in flight is unfinished, the summary says interrupted, nobody is left."""
    with serving(FakeEndpoint(fault_of=lambda number: "stall" if number >= 8 else None)) as endpoint:
        asked_s = 0.0

        def interrupt() -> None:
            nonlocal asked_s
            while len(endpoint.served) < 12:
                time.sleep(0.005)
            asked_s = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        result = run_benchmark(spec_for(endpoint, Load(concurrency=4, requests=40)), quiet, tmp_path)
        assert time.monotonic() - asked_s < 3.0
        thread.join()
    assert result.exit_code is ExitCode.INTERRUPTED
    assert result.summary.levels[0].unfinished == 4
    assert children() == []


def test_workers_end_with_a_killed_run_and_resume_completes_it(tmp_path: Path) -> None:
    """kill -9 of the run itself: its two workers are gone within seconds, and what they had sent is kept."""
    with serving(FakeEndpoint(ttft_s=0.05)) as endpoint:
        words = f"--target sagemaker://demo --protocol tgi --endpoint-url {endpoint.url} --workers 2"
        words += f" --concurrency 4 --requests-per-level 40 --warmup 0 --out {tmp_path / 'run'}"
        code = "from loadproof.cli.main import main; main()"
        parent = psutil.Popen([sys.executable, "-c", code, "bench", *words.split()], stderr=subprocess.DEVNULL)
        while len(endpoint.served) < 12:
            time.sleep(0.01)
        workers = [one for one in parent.children() if "loadproof.bench.load.worker" in one.cmdline()]
        parent.kill()
        parent.wait(60)
        gone, left = psutil.wait_procs(workers, timeout=60)
        assert (len(gone), left) == (2, [])
        kept = len(read_records(tmp_path / "run" / "requests.jsonl").records)
        resumed = resume_benchmark(tmp_path / "run", quiet)
    assert 0 < kept < 40
    assert resumed.summary.levels[0].requests == 40
