"""`loadproof calibrate --suggest`: the levels to measure, what they should do to the ranges, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from loadproof.capacity.outlook import ObjectiveOutlook
from loadproof.capacity.suggestion import MOST_LEVELS, Suggestion, suggest
from loadproof.cli.options import Format
from loadproof.cli.printing import print_json, print_parts, tables_on
from loadproof.cli.profile_names import option
from loadproof.errors import ExitCode, InputError
from loadproof.pages.wording import counted
from loadproof.profiles import load_profile

_DEFAULT_MINUTES, _DEFAULT_LEVELS = 15.0, 2


@dataclass(frozen=True, slots=True)
class SuggestOptions:
    """What to measure, instead of what was."""

    HEADING: ClassVar = "Which levels to measure"

    suggest: Annotated[
        Path | None, option("profile whose ranges shall become narrow: says which levels to measure, measures nothing")
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option(help=f"of --suggest: most minutes of load, predicted (default: {_DEFAULT_MINUTES:g})"),
    ] = None
    levels: Annotated[
        int | None,
        typer.Option(help=f"of --suggest: most levels, 1 to {MOST_LEVELS} (default: {_DEFAULT_LEVELS})"),
    ] = None

    def check(self, measured: list[Path] | None, of_measured: Mapping[str, object]) -> None:
        """Raises InputError where files or options of theirs and --suggest are given together, or neither."""
        if self.suggest is not None and measured:
            raise InputError(
                f"--suggest says what to measure, found {measured[0]} that was measured too; leave one of them out"
            )
        given = [name for name, value in of_measured.items() if value is not None]
        if self.suggest is not None and given:
            raise InputError(f"{given[0]} goes with measured files, found --suggest; leave one of them out")
        if self.suggest is not None:
            return
        if self.minutes is not None or self.levels is not None:
            raise InputError("--minutes and --levels go with --suggest; add it, or leave them out")
        if not measured:
            raise InputError("give measured files, for example runs/RUN, or --suggest PROFILE for what to measure")


def show_suggestion(options: SuggestOptions, format: Format) -> int:
    """Print it; exit 1 where no ranges would become narrower."""
    assert options.suggest is not None
    found = suggest(
        load_profile(options.suggest),
        minutes=_DEFAULT_MINUTES if options.minutes is None else options.minutes,
        levels=_DEFAULT_LEVELS if options.levels is None else options.levels,
    )
    if format == "json":
        print_json(_document(found, options.suggest))
    else:
        print_parts(_render(found, options.suggest), tables_on(120))
    return ExitCode.OK if found.expected.curve < found.now.curve else ExitCode.MISSED


def commands(found: Suggestion, profile: Path) -> tuple[str, str]:
    """(the benchmark, the calibration) as they are typed."""
    out = f"runs/suggested-{profile.stem}"
    loads = ",".join(str(level.concurrency) for level in found.levels)
    bench = ["loadproof", "bench", str(profile), "--concurrency", loads, "--at-concurrency", str(found.at_concurrency)]
    bench += ["--requests-per-level", str(found.requests_per_level), "--out", out]
    calibrate = ["loadproof", "calibrate", out, "--profile", str(profile), "--output", str(_calibration_of(profile))]
    return shlex.join(bench), shlex.join(calibrate)


def _calibration_of(profile: Path) -> Path:
    return profile.with_name(f"{profile.stem}.calibration.yaml")


def _document(found: Suggestion, profile: Path) -> dict[str, object]:
    bench, calibrate = commands(found, profile)
    return {
        "schema_version": 1,
        "profile": str(profile),
        "predicted": asdict(found),
        "bench": bench,
        "calibrate": calibrate,
    }


def _render(found: Suggestion, profile: Path) -> Iterator[RenderableType]:
    bench, calibrate = commands(found, profile)
    minutes = f"{found.minutes:.1f} minutes of load; all predicted"
    yield escape(f"{profile}: {counted(len(found.levels), 'level')} to measure, {minutes}")
    yield ""
    yield _levels_table(found)
    yield ""
    yield _ranges_table(found)
    now, expected = (
        f"{1 + widths.band:.2f}, TTFT {1 + widths.ttft_band:.2f}" for widths in (found.now, found.expected)
    )
    yield f"Bands      throughput and latency within a factor of {now} (grade {found.grade}); expected {expected}"
    sets = counted(found.designs, "set")
    yield f"Chosen     of {sets} of levels that fit the minutes, the shortest of those within 5% of the least doubt"
    yield "Expected   where the endpoint behaves as the planner's form says; what the run shows beyond that widens them"
    if found.at_concurrency != found.objectives_at:
        yield (
            f"Judged at  {found.at_concurrency:,} in flight, not the objectives' {found.objectives_at:,}: the run's "
            "exit code is no verdict on the profile"
        )
    if found.expected.curve >= found.now.curve:
        yield "Measure?   no: in these minutes nothing narrows the ranges; give more --minutes or more --levels"
    yield ""
    yield escape(bench)
    yield escape(calibrate)
    yield escape(f"then, in {profile}:  calibration: {_calibration_of(profile).name}")


def _levels_table(found: Suggestion) -> Table:
    table = Table(title="Levels", title_justify="left", show_edge=False)
    for name in ("in flight", "requests", "minutes"):
        table.add_column(name, justify="right")
    for level in found.levels:
        table.add_row(f"{level.concurrency:,}", f"{level.requests:,}", f"{level.minutes:.1f}")
    return table


def _ranges_table(found: Suggestion) -> Table:
    table = Table(title="Ranges, and their widths as a share of the figure", title_justify="left", show_edge=False)
    table.add_column("objective")
    for name in ("predicted", "now", "width", "expected", "width"):
        table.add_column(name, justify="right")
    for row in found.objectives:
        if row.now.name != "error_rate_max" and row.now.predicted is not None:
            value = f"{row.now.predicted:,.0f}"
            table.add_row(row.now.name, value, *_range(row.now), *_range(row.expected))
        elif row.now.part:  # the formula, by which levels are chosen, knows no classes
            table.add_row(row.now.label, *["–"] * 5)
    loads = ", ".join(map(str, found.curve))
    table.add_row(
        escape(f"mean over the curve ({loads})"), "", "", f"{found.now.curve:.0%}", "", f"{found.expected.curve:.0%}"
    )
    return table


def _range(row: ObjectiveOutlook) -> tuple[str, str]:
    assert row.low is not None
    assert row.high is not None
    width = (row.high - row.low) / row.predicted if row.predicted else None
    return f"{row.low:,.0f} – {row.high:,.0f}", "–" if width is None else f"{width:.0%}"
