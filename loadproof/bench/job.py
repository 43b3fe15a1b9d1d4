"""One benchmark run from spec to verdict: the function behind `loadproof bench`, and behind any other driver."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loadproof.bench.connect import open_invoker
from loadproof.bench.live.lines import OnLine
from loadproof.bench.load.process import heard_signals, loop_factory, raised_priority, refuse_few_descriptors
from loadproof.bench.load.sweep import Sweep, anything_left
from loadproof.bench.load.workers import Crew
from loadproof.bench.measure.hash_tree import TreeHead
from loadproof.bench.measure.observer import FILE_NAME as OBSERVED_FILE
from loadproof.bench.measure.observer import observing
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import RecordWriter, each_record, read_records
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import RunPlan, new_plan, planned_in_full, read_plan, run_id_of, write_plan
from loadproof.bench.spec import BenchmarkSpec
from loadproof.bench.workload.files import refuse_changed
from loadproof.errors import CouldNotRunError, InputError, mend_of
from loadproof.invocation import Invoker

if TYPE_CHECKING:
    from loadproof.bench.judging import RunResult


def run_benchmark(
    spec: BenchmarkSpec, on_line: OnLine, folder: Path | None = None, *, observe: bool = False
) -> RunResult:
    """Run `spec` into `folder` (None: `runs/<run-id>`), which must be new or empty.

    `observe`: a process of its own records the target's copies, scaling activities and metrics beside the load.

    Ctrl-C ends it with what there is (exit code 130). Raises InputError for a folder in use, CouldNotRunError when the
    endpoint cannot be reached or lets no request through; nothing measured, the folder is as it was found.
    """
    refuse_few_descriptors()
    invoker = open_invoker(spec.target, spec.request_timeout_s)
    now_ns = time.time_ns()
    folder, run_id = claimed(folder, run_id_of(now_ns, run_name(spec)))
    try:
        plan = new_plan(spec, run_id, now_ns, machine_conditions())
        return _run_session(folder, plan, invoker, on_line, observe)
    except (CouldNotRunError, InputError):
        release(folder)
        raise


def resume_benchmark(
    folder: Path, on_line: OnLine, expected: BenchmarkSpec | None = None, *, observe: bool = False
) -> RunResult:
    """Send what an earlier run into `folder` did not finish, and judge the whole. Raises as `run_benchmark` does.

    `expected`, where given, must be what that run was planned to be; only its endpoint URL may have moved. Where all
    was sent, the endpoint is not asked for.
    """
    plan = planned_in_full(read_plan(folder))
    if expected is not None:
        plan = replace(plan, spec=_moved(plan.spec, expected, folder))
    if not anything_left(plan, read_records(folder / RECORDS_FILE).records):
        return _judged(folder)
    refuse_changed(plan.spec)
    refuse_few_descriptors()
    plan = plan.resumed(time.time_ns())
    invoker = open_invoker(plan.spec.target, plan.spec.request_timeout_s)
    return _run_session(folder, plan, invoker, on_line, observe)


def _run_session(folder: Path, plan: RunPlan, invoker: Invoker, on_line: OnLine, observe: bool) -> RunResult:
    try:
        stopped, sent = _load(folder, plan, invoker, on_line, observe)
        return _judged(folder, interrupted=stopped, sent=sent)
    except OSError as error:  # the endpoint's own faults are outcomes; what is left is the disk
        raise CouldNotRunError(
            f"{folder}: cannot be written ({error.strerror}){mend_of(error)}; mend that, then go on with "
            f"--resume {folder}"
        ) from error


def _judged(folder: Path, *, interrupted: bool = False, sent: TreeHead | None = None) -> RunResult:
    from loadproof.bench.judging import judge_run  # noqa: PLC0415  a sender comes up without numpy

    return judge_run(folder, interrupted=interrupted, sent=sent)


def _load(folder: Path, plan: RunPlan, invoker: Invoker, on_line: OnLine, observe: bool) -> tuple[bool, TreeHead]:
    """Send what is left of the plan; True if it was stopped, and what names the requests."""
    # Times of every session count from the run's first zero, so that later sessions lie after earlier ones.
    zero_ns = time.perf_counter_ns() - (time.time_ns() - plan.zero_unix_ns)
    write_plan(folder, plan)
    records = read_records(folder / RECORDS_FILE).records
    watched = observing(folder, plan.spec.target) if observe else nullcontext(lambda: None)
    workers, address = plan.spec.workers, plan.spec.target.endpoint
    with watched as ask_observer, RecordWriter(folder / RECORDS_FILE) as writer:
        save = partial(write_plan, folder)
        sender = Crew(folder, workers, zero_ns, address) if workers > 1 else invoker
        sweep = Sweep(plan, sender, writer.append, save, on_line, zero_ns, records)
        with raised_priority(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_drive(sweep, sender, ask_observer))
    return sweep.runner.stopped, writer.head


async def _drive(sweep: Sweep, sender: Invoker | Crew, ask_observer: Callable[[], None]) -> None:
    def stop() -> None:
        ask_observer()  # now: its last words and those of the requests in flight take their time side by side
        sweep.runner.stop()

    with heard_signals(stop):
        try:
            await sweep.run()
        finally:
            await sender.close()


def _moved(planned: BenchmarkSpec, expected: BenchmarkSpec, folder: Path) -> BenchmarkSpec:
    """The planned spec at the expected endpoint URL, with what plans leave out of an address.

    Raises InputError naming every part that differs."""
    target = replace(planned.target, endpoint_url=expected.target.endpoint_url)
    if target.told.endpoint == expected.target.told.endpoint:
        target = replace(target, endpoint=expected.target.endpoint)
    comparable = replace(
        expected,
        workload=replace(expected.workload, salt=planned.workload.salt),
        usd_per_hour=planned.usd_per_hour,
        price=planned.price,
        predicted=planned.predicted,
        files=planned.files,
        target=replace(expected.target, local_cloud=planned.target.local_cloud),
        profile=expected.profile
        and planned.profile
        and replace(expected.profile, file=planned.profile.file, document=planned.profile.document),
    )
    planned = replace(planned, target=target)
    ours, theirs = planned.to_json(), comparable.to_json()
    different = [name for name in ours if ours[name] != theirs[name]]
    if different:
        raise InputError(
            f"{folder}: the run was planned with another {', '.join(different)}; resume it as planned, "
            "or start a new run"
        )
    return planned


def new_folder(runs: Path, run_id: str) -> Path:
    """`runs/<run-id>`, numbered from 2 when other runs of that name began in the same second."""
    number, folder = 1, runs / run_id
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = runs / f"{run_id}-{number}"
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({error.strerror}); give another --out") from None


def claimed(folder: Path | None, run_id: str) -> tuple[Path, str]:
    """The new or empty folder of a run, and the run's id: `runs/<run-id>` where none was named. Raises InputError."""
    if folder is None:
        folder = new_folder(Path("runs"), run_id)
        run_id = folder.name
    claim(folder)
    return folder, run_id


def claim(folder: Path) -> None:
    """Make it the new or empty folder of a run. Raises InputError where it cannot be that."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = any(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be used as a folder ({error.strerror}); give another --out") from None
    if in_use:
        raise InputError(f"{folder}: not empty; give a new folder, or continue the run in it with --resume {folder}")


def release(folder: Path) -> None:
    """Take back what a run that measured nothing wrote, so that the same command can be tried again."""
    if any(record.phase == "measured" for record in each_record(folder / RECORDS_FILE)):
        return
    for name in (PLAN_FILE, RECORDS_FILE, OBSERVED_FILE):
        (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def run_name(spec: BenchmarkSpec) -> str:
    """What a run's id calls it by: its profile, else its target."""
    if spec.profile:
        return spec.profile.name
    if spec.target.kind == "openai":
        return urlsplit(spec.target.endpoint).netloc
    return spec.target.component or spec.target.endpoint


def machine_conditions() -> dict[str, object]:
    """The machine and versions a run was made with: whatever may explain a difference between two runs."""
    try:
        loadproof = version("loadproof")
    except PackageNotFoundError:
        loadproof = "unknown"
    return {
        "loadproof": loadproof,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu_count": os.cpu_count(),
        "event_loop": "asyncio" if loop_factory() is None else "uvloop",
    }
