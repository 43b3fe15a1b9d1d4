"""A run folder judged: summary, evidence and page out of what was planned and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadproof.bench.document import FILE_NAME as SUMMARY_FILE
from loadproof.bench.document import Summary, read_summary
from loadproof.bench.evidence.document import write_evidence
from loadproof.bench.evidence.names import SIGNATURE as SIGNATURE_FILE
from loadproof.bench.load.sweep import why_never_ran
from loadproof.bench.measure.hash_tree import TreeHead
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import read_records, tree_of
from loadproof.bench.measure.scaling import read_observed
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import read_plan, write_json
from loadproof.bench.report import render_report
from loadproof.bench.report.timeline import Moments, moments_of
from loadproof.bench.summary import build_summary
from loadproof.errors import CouldNotRunError, ExitCode, InputError

_EXIT_CODES = {
    "PASS": ExitCode.OK,
    "FAIL": ExitCode.MISSED,
    "INCONCLUSIVE": ExitCode.MISSED,  # what was not shown to hold must not open a gate
    "INVALID": ExitCode.COULD_NOT_RUN,
    "NOT JUDGED": ExitCode.NOT_JUDGED,
}


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that has a summary. `report` is None when the page could not be written; `report_problem` says why."""

    folder: Path
    summary: Summary
    report: Path | None
    report_problem: str | None
    exit_code: ExitCode


def judge_run(folder: Path, *, interrupted: bool = False, sent: TreeHead | None = None) -> RunResult:
    """Write summary.json and report.html of what a run folder holds. Raises CouldNotRunError if nothing got through.

    `sent`: what the client itself kept of its requests; a file that holds others is refused: CouldNotRunError.
    """
    plan = read_plan(folder)
    file = read_records(folder / RECORDS_FILE)
    if sent is not None and tree_of(folder / RECORDS_FILE).head != sent:
        raise CouldNotRunError(
            f"{folder / RECORDS_FILE}: holds other requests than this client wrote: something changed it while the run "
            "went; benchmark again"
        )
    reason = None if interrupted else why_never_ran(file.records)
    if reason:
        raise CouldNotRunError(f"no request got through: {reason}")
    summary = build_summary(plan, file, interrupted=interrupted, observed=read_observed(folder))
    moments = moments_of(file.records)
    del file  # the page needs no more of it, and writing takes memory of its own
    write_json(folder / SUMMARY_FILE, summary)
    (folder / SIGNATURE_FILE).unlink(missing_ok=True)  # what was signed is no more
    write_evidence(folder, plan, summary)
    return _rendered(folder, summary, interrupted, moments)


def shown_again(folder: Path) -> RunResult:
    """A judged run as it stands, its page rendered anew; nothing else is written. Raises InputError without one.

    A run that was cut off before it was judged is judged by what there is of it.
    """
    planned = (folder / PLAN_FILE).exists()
    if planned and not (folder / SUMMARY_FILE).exists():
        return judge_run(folder, interrupted=True)
    summary = read_summary(folder)
    interrupted = summary.conditions.interrupted
    # Lines may have come since it was judged: the observer's last ones, or those of a resumed session that was killed.
    if planned and (interrupted or len(read_plan(folder).sessions_utc) > summary.conditions.sessions):
        return judge_run(folder, interrupted=True)
    return _rendered(folder, summary, interrupted)


def _rendered(folder: Path, summary: Summary, interrupted: bool, moments: Sequence[Moments] | None = None) -> RunResult:
    """The page is a view of files already written: if it fails, the verdict still stands."""
    code = ExitCode.INTERRUPTED if interrupted else _EXIT_CODES[summary.verdict.outcome]
    try:
        return RunResult(folder, summary, render_report(folder, summary, moments), None, code)
    except (OSError, InputError) as error:
        return RunResult(folder, summary, None, str(error), code)
