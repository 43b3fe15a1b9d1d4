"""`loadproof demo`: the main job end to end on this machine, with nothing left running."""

from __future__ import annotations

import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from loadproof.bench.job import new_folder
from loadproof.cli.demo.children import interrupted_by_signals
from loadproof.cli.demo.steps import Steps
from loadproof.cli.profile_names import complete_environment
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.profiles import profile_files
from loadproof.profiles.folders import default_folder
from loadproof.terminal import Terminal

NO_REPOSITORY = (
    "the demo deploys the profiles of a repository, and there is none here or above; write one, and run it there: "
    "loadproof init endpoints --defaults && cd endpoints && make setup && .venv/bin/loadproof demo"
)


def demo(
    environment: Annotated[
        str,
        typer.Option(help="Folder of deploy_profiles to deploy and benchmark.", autocompletion=complete_environment),
    ] = "dev",
    backend: Annotated[
        str | None, typer.Option(help="Base URL of a real model server to stand behind every component.")
    ] = None,
    requests_per_level: Annotated[
        int | None, typer.Option(min=1, help="Requests at each concurrency.  [default: what each profile says]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the runs.  [default: runs/ of the repository]")] = None,
) -> int:
    """Deploy, drive, judge and take down, on this machine.

    A first endpoint is deployed and judged at its objectives' level, then the others with all their levels.

    Exit 0 when all of it worked, whatever the verdicts; 2 for profiles with mistakes; 3 when a step did not work.
    """
    if find_spec("aws_cdk") is None or find_spec("moto") is None:
        raise CouldNotRunError("the demo needs two extras; install them: pip install 'loadproof[cdk,local]'")
    repository = _repository()
    profiles = profile_files(repository / "deploy_profiles", environment)
    if not profiles:
        raise InputError(f"deploy_profiles/{environment} holds no profile; use a folder that does")
    if not (repository / "node_modules" / ".bin" / "cdk").exists():
        raise CouldNotRunError(f"the CDK CLI is not installed; run `make setup` in {repository}")
    runs = new_folder((out or repository / "runs").resolve(), f"demo-{time.strftime('%Y%m%d-%H%M%S')}")
    steps = Steps(Terminal(highlight=False), repository, runs, requests_per_level)
    try:
        with interrupted_by_signals():
            if not steps.checked(environment):
                return ExitCode.BAD_INPUT
            steps.main_job(environment, profiles, backend)
    except KeyboardInterrupt:
        steps.say(f"\nInterrupted after {steps.elapsed_s:.0f} s; nothing is left running.")
        raise
    finally:
        shutil.rmtree(runs / "cdk.out", ignore_errors=True)
        if not any(runs.iterdir()):
            runs.rmdir()
    return ExitCode.OK


def _repository() -> Path:
    """The one around this folder, else the one that this package runs from. Raises InputError."""
    try:
        found = default_folder().resolve().parent
    except InputError:
        raise InputError(NO_REPOSITORY) from None
    if not (found / "cdk.json").is_file():
        raise InputError(f"{found} has deploy_profiles but no app to deploy them (cdk.json); {NO_REPOSITORY}")
    return found
