"""`loadproof import`: what another load generator measured, as a run that can be judged, shown and compared."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from loadproof.bench.from_profile import objectives_of
from loadproof.bench.imports.run import ImportRequest, import_run
from loadproof.bench.job import new_folder
from loadproof.bench.objectives import parse_objective
from loadproof.bench.output.console import print_result
from loadproof.bench.plan import run_id_of
from loadproof.cli.profile_names import option
from loadproof.errors import InputError
from loadproof.profiles import load_profile
from loadproof.terminal import Terminal


def import_results(
    source: Annotated[
        list[Path],
        typer.Argument(help="files or folders of AIPerf, guidellm, vLLM bench, llmeter or FMBench; a level each"),
    ],
    run: Annotated[Path | None, typer.Option("--as", help="new folder for the run; default runs/<run-id>")] = None,
    profile: Annotated[Path | None, option("profile whose objectives to judge by")] = None,
    objective: Annotated[
        list[str] | None, typer.Option(help="bound to judge by, repeatable: ttft_p95_ms=500; before the profile's")
    ] = None,
    at_concurrency: Annotated[
        int | None, typer.Option(min=1, help="level the objectives must hold at (default: the profile's, the highest)")
    ] = None,
    max_error_rate: Annotated[float, typer.Option(min=0, max=1, help="share of all requests that may fail")] = 0.0,
) -> int:
    """Turn another program's results into a run.

    Summary and report, requests too where the files hold them.

    Exit code: 0 PASS · 1 FAIL or INCONCLUSIVE, also where the files do not say enough · 2 not readable ·
    4 NOT JUDGED: no objectives.
    """
    bounds = {}
    if profile is not None:
        loaded = load_profile(profile)
        bounds = {one.name: one for one in objectives_of(loaded)}
        at_concurrency = at_concurrency or loaded.objectives.at_concurrency
    bounds |= {one.name: one for one in map(parse_objective, objective or ())}
    now_ns = time.time_ns()
    run_id = run_id_of(now_ns, source[0].stem)
    if run is not None and run.exists() and (not run.is_dir() or any(run.iterdir())):
        raise InputError(f"--as {run}: not empty; give a new folder")
    for path in source:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    folder = new_folder(Path("runs"), run_id) if run is None else run
    request = ImportRequest(
        tuple(source), folder, folder.name, now_ns, tuple(bounds.values()), at_concurrency, max_error_rate
    )
    try:
        result = import_run(request)
    except InputError:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise
    print_result(result, Terminal(highlight=False))
    return int(result.exit_code)
