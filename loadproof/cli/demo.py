"""`loadproof demo`: the main job end to end on this machine, with nothing left running."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from loadproof.errors import CouldNotRunError, ExitCode, InputError

REPOSITORY = Path(__file__).resolve().parents[2]


def demo(
    environment: Annotated[str, typer.Option(help="Folder of deploy_profiles to deploy and benchmark.")] = "dev",
    backend: Annotated[
        str | None, typer.Option(help="Base URL of a real model server to stand behind every component.")
    ] = None,
    requests_per_level: Annotated[
        int | None, typer.Option(min=1, help="Requests at each concurrency.  [default: what each profile says]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the runs.  [default: runs/ of the repository]")] = None,
) -> int:
    """Local cloud up, check, plan, cdk deploy, benchmark every profile, verdicts, reports, down."""
    from loadproof.profiles import profile_files

    console = Console(highlight=False)
    profiles = profile_files(REPOSITORY / "deploy_profiles", environment)
    if not profiles:
        raise InputError(f"deploy_profiles/{environment} holds no profile; use a folder that does")
    cdk = REPOSITORY / "node_modules" / ".bin" / "cdk"
    if not cdk.exists():
        raise CouldNotRunError("the CDK CLI is not installed; run `make setup` in the repository")
    runs = (out or REPOSITORY / "runs").resolve() / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    runs.mkdir(parents=True)

    with _interrupted_by_terminate(), _steps(console, runs) as steps:
        options = ["--requests-per-level", str(requests_per_level)] if requests_per_level else []
        return steps.main_job(environment, profiles, cdk, backend, options)


class _Steps:
    """The job's steps, each with a heading, its commands' output in the log, and the time it took."""

    def __init__(self, console: Console, runs: Path) -> None:
        self.console = console
        self.runs = runs
        self.log = runs / "demo.log"
        self.started_s = time.monotonic()
        self.environment: dict[str, str] = dict(os.environ)

    def main_job(
        self, environment: str, profiles: Sequence[Path], cdk: Path, backend: str | None, bench_options: Sequence[str]
    ) -> int:
        """Run every step; returns the worst exit code of the benchmarks."""
        from emulator.local import running

        loadproof = [sys.executable, "-m", "loadproof"]
        folder = REPOSITORY / "deploy_profiles" / environment
        self.heading("check", "every profile of the environment, strictly")
        self.show([*loadproof, "check", str(folder)])
        self.heading("plan", "what each endpoint will do and cost, predicted")
        for profile in profiles:
            self.show([*loadproof, "plan", str(profile)], allowed=(ExitCode.OK, ExitCode.MISSED))

        self.heading("local cloud", "AWS on loopback")
        with running(f"demo-{secrets.token_hex(4)}", backend=backend) as cloud:
            self.environment.update(cloud.environment())
            self.environment["CDK_OUTDIR"] = str(self.runs / "cdk.out")
            self.environment["NODE_NO_WARNINGS"] = "1"
            self.console.print(f"{cloud.endpoint_url} (log: {cloud.log_file})", soft_wrap=True)
            self.heading("cdk deploy", "by the real CDK CLI; its output is in the log")
            context = ["-c", f"env={environment}", "--no-notices"]
            self.quietly([str(cdk), "bootstrap", f"aws://{cloud.account}/{cloud.region}", *context])
            self.quietly([str(cdk), "deploy", "--all", "--require-approval", "never", *context])
            outcomes = {}
            for profile in profiles:
                self.heading(f"bench {profile.stem}", "load through the SageMaker runtime protocol")
                outcomes[profile.stem] = self.show(
                    [*loadproof, "bench", str(profile), "--out", str(self.runs / profile.stem), *bench_options],
                    allowed=tuple(ExitCode),
                )
            self.heading("down", "the local cloud and everything in it")
        return self.summary(outcomes)

    def summary(self, outcomes: Mapping[str, int]) -> int:
        self.console.print()
        for name, code in outcomes.items():
            report = self.runs / name / "report.html"
            where = report if report.exists() else "no report"
            self.console.print(f"{self._outcome(name, code):13} {name:24} {where}", soft_wrap=True)
        self.console.print(f"Took {time.monotonic() - self.started_s:.0f} s. Open a report in a browser.")
        return max(outcomes.values())

    def _outcome(self, name: str, code: int) -> str:
        try:
            outcome = json.loads((self.runs / name / "summary.json").read_text(encoding="utf-8"))["verdict"]["outcome"]
        except (OSError, ValueError, KeyError, TypeError):
            return f"exit code {code}"
        return str(outcome)

    def heading(self, title: str, what: str) -> None:
        elapsed_s = time.monotonic() - self.started_s
        self.console.print(f"\n[bold]{title}[/bold] · {what} [dim]({elapsed_s:.0f} s)[/dim]")

    def show(self, command: Sequence[str], allowed: Sequence[int] = (ExitCode.OK,)) -> int:
        """Run a command on the terminal itself."""
        return self._finish(subprocess.run(command, env=self.environment, check=False).returncode, command, allowed)

    def quietly(self, command: Sequence[str]) -> int:
        """Run a command with its output in the log and its last line beside a spinner."""
        with self.log.open("a", encoding="utf-8") as log, self.console.status("starts") as status:
            process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    log.write(line)
                    if line.strip():
                        status.update(line.strip()[:100])
                code = process.wait()
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        if code:
            self.console.print(
                "".join(self.log.read_text(encoding="utf-8").splitlines(keepends=True)[-30:]), markup=False
            )
        return self._finish(code, command, (ExitCode.OK,))

    def _finish(self, code: int, command: Sequence[str], allowed: Sequence[int]) -> int:
        if code == ExitCode.INTERRUPTED or code < 0:
            raise KeyboardInterrupt
        if code not in allowed:
            shown = " ".join([Path(command[0]).name, *command[1:]])
            raise CouldNotRunError(f"`{shown}` ended with exit code {code}; log: {self.log}")
        return code


@contextmanager
def _steps(console: Console, runs: Path) -> Iterator[_Steps]:
    """The steps, with the assembly of the CDK removed at the end and an empty run folder not left behind."""
    try:
        yield _Steps(console, runs)
    finally:
        shutil.rmtree(runs / "cdk.out", ignore_errors=True)
        if not any(runs.iterdir()):
            runs.rmdir()


@contextmanager
def _interrupted_by_terminate() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that the local cloud goes down with it."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
