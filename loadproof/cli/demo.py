"""`loadproof demo`: the main job end to end on this machine, with nothing left running."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.markup import escape

from loadproof.bench.job import new_folder
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.localcloud.local import LocalCloud, running
from loadproof.profiles import profile_files
from loadproof.terminal import Terminal

REPOSITORY = Path(__file__).resolve().parents[2]
CDK_MILESTONES = ("⏳", "✅", "❌", "✨")  # how the CDK CLI begins the lines that tell how far it is
PR_SET_PDEATHSIG = 1  # linux/prctl.h
INTERRUPT_PATIENCE_S = 10.0


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
    """Deploy, drive, judge and take down, on this machine."""
    if not (REPOSITORY / "deploy_profiles").is_dir():
        raise InputError(
            "the demo deploys example profiles of Loadproof's repository, which an installed package does not hold; "
            "clone the repository, run `make setup` and then `loadproof demo` there"
        )
    profiles = profile_files(REPOSITORY / "deploy_profiles", environment)
    if not profiles:
        raise InputError(f"deploy_profiles/{environment} holds no profile; use a folder that does")
    cdk = REPOSITORY / "node_modules" / ".bin" / "cdk"
    if not cdk.exists():
        raise CouldNotRunError("the CDK CLI is not installed; run `make setup` in the repository")
    runs = new_folder((out or REPOSITORY / "runs").resolve(), f"demo-{time.strftime('%Y%m%d-%H%M%S')}")
    steps = _Steps(Terminal(highlight=False), runs)
    options = ["--requests-per-level", str(requests_per_level)] if requests_per_level else []
    try:
        with _interrupted_by_signals():
            return steps.main_job(environment, profiles, cdk, backend, options)
    except KeyboardInterrupt:
        steps.say(f"\nInterrupted after {steps.elapsed_s:.0f} s; nothing is left running.")
        raise
    finally:
        shutil.rmtree(runs / "cdk.out", ignore_errors=True)
        if not any(runs.iterdir()):
            runs.rmdir()


class _Steps:
    """The job's steps, each with a heading, its commands' output on the terminal or in the log, and the time."""

    def __init__(self, console: Terminal, runs: Path) -> None:
        self.console = console
        self.runs = runs
        self.log = runs / "demo.log"
        self.started_s = time.monotonic()
        self.environment: dict[str, str] = dict(os.environ)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s

    def main_job(
        self, environment: str, profiles: Sequence[Path], cdk: Path, backend: str | None, bench_options: Sequence[str]
    ) -> int:
        """Run every step; returns the worst exit code of the benchmarks, or that of a check that found mistakes."""
        loadproof = [sys.executable, "-m", "loadproof"]
        folder = REPOSITORY / "deploy_profiles" / environment
        self.heading("check", "every profile of the environment, strictly")
        if self.show([*loadproof, "check", str(folder)], allowed=(ExitCode.OK, ExitCode.BAD_INPUT)):
            return ExitCode.BAD_INPUT
        for profile in profiles:
            self.heading(f"plan {profile.stem}", "what it will do and cost, predicted")
            self.show([*loadproof, "plan", str(profile)], allowed=(ExitCode.OK, ExitCode.MISSED))

        self.heading("local cloud", "AWS on loopback")
        with self.cloud(backend) as cloud:
            self.heading("cdk deploy", "by the real CDK CLI; its output is in the log")
            # An assembly of its own: the CDK CLI locks the repository's cdk.out against another one.
            context = ["-c", f"env={environment}", "--no-notices", "--output", str(self.runs / "cdk.out")]
            # Where there is an app, `cdk bootstrap` would synthesize it.
            self.quietly([str(cdk), "bootstrap", f"aws://{cloud.account}/{cloud.region}", "--no-notices"], self.runs)
            self.quietly([str(cdk), "deploy", "--all", "--require-approval", "never", *context], REPOSITORY)
            outcomes = {}
            for profile in profiles:
                self.heading(f"bench {profile.stem}", "load through the SageMaker runtime protocol")
                outcomes[profile.stem] = self.show(
                    [*loadproof, "bench", str(profile), "--out", str(self.runs / profile.stem), *bench_options],
                    allowed=tuple(ExitCode),
                )
            self.heading("down", "the local cloud and everything in it")
        return self.summary(outcomes)

    @contextmanager
    def cloud(self, backend: str | None) -> Iterator[LocalCloud]:
        """A local cloud of this demo's own, whose log ends up beside the runs."""
        with running(f"demo-{secrets.token_hex(4)}", backend=backend) as cloud:
            self.environment.update(cloud.environment())
            self.environment["NODE_NO_WARNINGS"] = "1"
            self.say(cloud.endpoint_url)
            try:
                yield cloud
            finally:
                shutil.move(cloud.log_file, self.runs / "local-cloud.log")
                cloud.log_file.with_suffix(".lock").unlink(missing_ok=True)

    def summary(self, outcomes: Mapping[str, int]) -> int:
        self.say("")
        for name, code in outcomes.items():
            report = self.runs / name / "report.html"
            where = report if report.exists() else "no report"
            self.say(f"{self._outcome(name, code):13} {name:24} {where}")
        self.say(f"Took {self.elapsed_s:.0f} s. Open a report in a browser; logs are in {self.runs}")
        return max(outcomes.values())

    def _outcome(self, name: str, code: int) -> str:
        try:
            outcome = json.loads((self.runs / name / "summary.json").read_text(encoding="utf-8"))["verdict"]["outcome"]
        except (OSError, ValueError, KeyError, TypeError):
            return f"exit code {code}"
        return str(outcome)

    def heading(self, title: str, what: str) -> None:
        self.console.print(f"\n[bold]{title}[/bold] · {what} [dim]({self.elapsed_s:.0f} s)[/dim]")

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)

    def show(self, command: Sequence[str], allowed: Sequence[int] = (ExitCode.OK,)) -> int:
        """Run a command on the terminal itself."""
        with _child(command, self.environment) as process:
            code = process.wait()
        return _finished(code, command, allowed)

    def quietly(self, command: Sequence[str], folder: Path) -> int:
        """Run a command there with its output in the log: milestones are shown, and its last line beside a spinner."""
        with (
            self.log.open("a", encoding="utf-8") as log,
            self.console.status("starts") as status,
            _child(command, self.environment, cwd=folder, stdout=subprocess.PIPE) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                if said := line.strip():
                    status.update(escape(said[:100]))
                    if said.startswith(CDK_MILESTONES):
                        self.say(said)
            code = process.wait()
        if code:
            self.say("\n".join(self.log.read_text(encoding="utf-8").splitlines()[-30:]))
        return _finished(code, command, (ExitCode.OK,), f"; log: {self.log}")


def _end_with_parent() -> Callable[[], None]:
    """What a child does before it starts: ask the kernel to end it when the demo is gone, `kill -9` included.

    Without it the CDK CLI would go on calling a local cloud that has ended, until its own retries are spent.
    """
    prctl = ctypes.CDLL(None).prctl  # looked up here: a child between fork and exec should do no more than call it
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _child(command: Sequence[str], environment: Mapping[str, str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command in a process group of its own: an interruption reaches all of it once, and its end is waited for."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT if "stdout" in options else None,
        text=True,
        encoding="utf-8",
        errors="replace",
        process_group=0,
        preexec_fn=_end_with_parent() if sys.platform == "linux" else None,  # noqa: PLW1509  the only way to die with the parent
        **options,
    )
    try:
        yield process
    except BaseException:
        try:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGINT)  # a benchmark still writes its summary and report
                process.wait(INTERRUPT_PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise


def _finished(code: int, command: Sequence[str], allowed: Sequence[int], hint: str = "") -> int:
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in allowed:
        shown = " ".join([Path(command[0]).name, *command[1:]])
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise CouldNotRunError(f"`{shown}` {how}{hint}")
    return code


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does, so that the local cloud goes down with it."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}  # nohup's is left alone
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
