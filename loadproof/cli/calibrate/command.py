"""`loadproof calibrate`: the planner's parameters from one's own measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loadproof.bench.imports.levels import day as day_of
from loadproof.capacity.calibration import fit, fit_document
from loadproof.cli.calibrate.files import sources_of, write_calibration
from loadproof.cli.calibrate.levels import loads_of, observed
from loadproof.cli.calibrate.suggest import SuggestOptions, show_suggestion
from loadproof.cli.calibrate.text import as_json, render
from loadproof.cli.options import TextOrJson, grouped
from loadproof.cli.printing import print_parts, tables_on
from loadproof.cli.profile_names import option
from loadproof.errors import ExitCode, InputError
from loadproof.profiles.calibrating import is_calibration
from loadproof.simulation.replay import ttft_factor
from loadproof.terminal import Terminal


@grouped
def calibrate(
    measured: Annotated[
        list[Path] | None,
        typer.Argument(help="run folders, CSV, or exports of AIPerf, guidellm, vLLM bench, llmeter, FMBench"),
    ] = None,
    *,
    wanted: SuggestOptions,
    profile: Annotated[
        Path | None, option("what was measured, where the files do not say: model, server, instance type")
    ] = None,
    output: Annotated[Path, typer.Option(help="file to write; a profile names it under `calibration`")] = Path(
        "calibration.yaml"
    ),
    concurrency: Annotated[str | None, typer.Option(help="only these levels: 1,2,4 (default: all)")] = None,
    hardware: Annotated[
        str | None,
        typer.Option(help="name of what served instead of the instance type's accelerator (a CPU): fitted as well"),
    ] = None,
    date: Annotated[str | None, typer.Option(help="of the measurements, 2026-11-21; default: as the files say")] = None,
    format: TextOrJson = "text",
) -> int:
    """Refit the planner to measured levels.

    Server and fabric parameters, with the shipped ones as priors, written down.

    All levels must be of one server and one accelerator. Shows the planner's error at each level before and after.

    With --suggest PROFILE: which few levels to measure, for the narrowest ranges in so many minutes. Exit 1 where none
    would become narrower.
    """
    wanted.check(measured, {"--profile": profile, "--concurrency": concurrency, "--hardware": hardware, "--date": date})
    if wanted.suggest is not None:
        return show_suggestion(wanted, format)
    assert measured
    if not is_calibration(output):
        raise InputError(f"--output {output}: expected calibration.yaml or a name ending in .calibration.yaml")
    if date is not None and day_of(date) != date:
        raise InputError(f"--date {date}: expected a day like 2026-11-21")
    levels, left_out = observed(measured, profile, concurrency)
    with Terminal(stderr=True).status(f"fitting to {len(levels)} levels, and without some of them in turn"):
        observations = [level.observation for level in levels]
        found = fit(observations, hardware=hardware, loads=loads_of(profile), played=ttft_factor)
    day = date or max((level.date for level in levels if level.date), default=None)
    simulated = any(level.simulated for level in levels)
    document = fit_document(found, sources_of(levels), day, simulated=simulated)
    write_calibration(output, document)
    if format == "json":
        print(as_json(found, document, left_out))
    else:
        print_parts(render(found, document, left_out, output), tables_on(120))
    return ExitCode.OK
