"""The demo's steps: a line each on the terminal, everything that commands say in a log."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from rich.markup import escape

from loadproof.cli.demo.children import child, finished
from loadproof.errors import CouldNotRunError, ExitCode
from loadproof.localcloud.local import LocalCloud, running
from loadproof.profiles import load_environment, load_profile
from loadproof.terminal import Terminal

LOADPROOF: Final = (sys.executable, "-m", "loadproof")
UNPROVEN: Final = ("INVALID", "INCONCLUSIVE")  # the machine was too busy for an answer: asked once more
QUIET_CORES: Final = 0.5  # idle, of the last second
QUIET_WITHIN_S: Final = 15.0


class Proven(NamedTuple):
    """What a benchmark ended with; `why` is the verdict's first sentence."""

    name: str
    outcome: str
    why: str
    report: Path


def _as_started() -> str:
    """The command as this one was: after `make demo` in a checkout no path has it."""
    started = Path(sys.argv[0])
    here = started.name == "loadproof" and shutil.which("loadproof") is None
    return os.path.relpath(started) if here else "loadproof"


def _beside(repository: Path) -> str:
    """A folder for a repository of one's own: not inside this one."""
    return os.path.relpath(repository.resolve().parent / "my-endpoints")


class Steps:
    """One demo: each step begins with a line and its time."""

    def __init__(self, console: Terminal, repository: Path, runs: Path, requests_per_level: int | None) -> None:
        self.console = console
        self.repository = repository
        self.runs = runs
        self.log = runs / "demo.log"
        self.started_s = time.monotonic()
        self.environment: dict[str, str] = dict(os.environ)
        self._requests = ["--requests-per-level", str(requests_per_level)] if requests_per_level else []

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s

    def checked(self, environment: str) -> bool:
        """True where every profile of the environment is right; else its mistakes were shown."""
        self.heading("check", f"every profile of {environment}")
        with child([*LOADPROOF, "check", str(self._profiles(environment))], self.environment) as process:
            code = process.wait()
        return finished(code, ["loadproof", "check"], (ExitCode.OK, ExitCode.BAD_INPUT)) == ExitCode.OK

    def main_job(self, environment: str, profiles: Sequence[Path], backend: str | None) -> None:
        """Deploys and proves the first, then the others. Raises CouldNotRunError for a step that does not work."""
        first, *others = profiles
        proven: list[Proven] = []
        self.heading("local cloud", "AWS on loopback")
        with self.cloud(environment, backend) as cloud:
            cdk = str(self.repository / "node_modules" / ".bin" / "cdk")
            self.quietly([cdk, "bootstrap", f"aws://{cloud.account}/{cloud.region}", "--no-notices"], self.runs)
            self.deploy(cdk, environment, [first])
            # The first verdict stands within a minute and a half: the level that is judged, and no other.
            proven.append(self.proven(first, ["--concurrency", str(load_profile(first).objectives.at_concurrency)]))
            if others:
                self.deploy(cdk, environment, others)
            proven += [self.proven(profile, []) for profile in others]
            self.heading("down", "the local cloud and everything in it")
        self.summary(proven, backend)

    def deploy(self, cdk: str, environment: str, profiles: Sequence[Path]) -> None:
        names = ",".join(profile.stem for profile in profiles)
        self.heading("cdk deploy", f"{names}, by the real CDK CLI")
        # An assembly of its own: the CDK CLI locks the repository's cdk.out against another one.
        chosen = ["-c", f"env={environment}", "-c", f"profile={names}", "--output", str(self.runs / "cdk.out")]
        self.quietly([cdk, "deploy", "--all", "--require-approval", "never", "--no-notices", *chosen], self.repository)

    def proven(self, profile: Path, levels: Sequence[str]) -> Proven:
        """Benchmarks a deployed profile; what this machine was too busy to tell is measured once more."""
        self.heading(f"bench {profile.stem}", "load by SageMaker's protocol, judged by its objectives")
        found = self.benchmarked(profile, profile.stem, levels)
        if found.outcome in UNPROVEN:
            self.say(f"{found.outcome}: {found.why}")
            self.say("measured once more, when the machine is quieter, at the objectives' level alone")
            self.await_quiet()
            at = str(load_profile(profile).objectives.at_concurrency)
            found = self.benchmarked(profile, f"{profile.stem}-again", ["--concurrency", at])
        self.say(f"{found.outcome}: {found.report}")
        return found

    def benchmarked(self, profile: Path, name: str, levels: Sequence[str]) -> Proven:
        out = self.runs / name
        command = [*LOADPROOF, "bench", str(profile), "--out", str(out), *levels, *self._requests]
        self.quietly(command, self.repository, allowed=tuple(ExitCode))
        try:
            verdict = json.loads((out / "summary.json").read_text(encoding="utf-8"))["verdict"]
            return Proven(profile.stem, verdict["outcome"], next(iter(verdict["reasons"]), ""), out / "report.html")
        except (OSError, ValueError, KeyError) as error:
            raise CouldNotRunError(f"the benchmark of {name} left no verdict ({error}); log: {self.log}") from None

    def await_quiet(self) -> None:
        """Until half a core was idle for a second, or not much longer."""
        until_s = self.elapsed_s + QUIET_WITHIN_S
        while self.elapsed_s < until_s:
            before_s, at_s = _busy_s(), time.monotonic()
            time.sleep(1)
            busy = (_busy_s() - before_s) / (time.monotonic() - at_s)
            if (os.cpu_count() or 1) - busy >= QUIET_CORES:
                return

    def summary(self, proven: Sequence[Proven], backend: str | None) -> None:
        """What happened, and what to open: ten lines for two endpoints."""
        self.say(f"\nDeployed, driven, judged and taken down in {self.elapsed_s:.0f} s; nothing is left running.")
        for one in proven:
            self.say(f"{one.outcome}  {one.name}: {one.why}")
        whose = f"of {backend}" if backend else "the twin's: simulated, as the planner predicts them"
        self.say(f"Latencies are {whose}. Open:")
        for one in proven:
            self.say(f"  {one.report}")
        self.say(f"Logs: {self.runs}. Next: {_as_started()} init {_beside(self.repository)}")
        if _has_desktop():
            webbrowser.open(proven[0].report.as_uri())

    @contextmanager
    def cloud(self, environment: str, backend: str | None) -> Iterator[LocalCloud]:
        """A local cloud of this demo's own, where the environment says; its log ends up beside the runs."""
        where = load_environment(self.repository / "deploy_profiles" / environment)
        name = f"demo-{secrets.token_hex(4)}"
        with running(name, backend=backend, account=where.account, region=where.region) as cloud:
            self.environment.update(cloud.environment())
            self.environment["NODE_NO_WARNINGS"] = "1"
            try:
                yield cloud
            finally:
                shutil.move(cloud.log_file, self.runs / "local-cloud.log")
                cloud.log_file.with_suffix(".lock").unlink(missing_ok=True)

    def heading(self, title: str, what: str) -> None:
        line = f"[bold]{escape(title)}[/bold] · {escape(what)} [dim]({self.elapsed_s:.0f} s)[/dim]"
        self.console.print(line, soft_wrap=not self.console.is_terminal)

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)

    def quietly(self, command: Sequence[str], folder: Path, allowed: Sequence[int] = (ExitCode.OK,)) -> int:
        """Run a command there with its output in the log, its last line beside a spinner."""
        with (
            self.log.open("a", encoding="utf-8") as log,
            self.console.status("starts") as status,
            child(command, self.environment, cwd=folder, stdout=subprocess.PIPE) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                if said := line.strip():
                    status.update(escape(said[:100]))
            code = process.wait()
        if code not in allowed:
            self.say("\n".join(self.log.read_text(encoding="utf-8").splitlines()[-30:]))
        return finished(code, command, allowed, f"; log: {self.log}")

    def _profiles(self, environment: str) -> Path:
        return self.repository / "deploy_profiles" / environment


def _busy_s() -> float:
    """CPU seconds of all that ran on this machine so far; of this process alone where that is not told."""
    try:
        user, nice, system, *_ = Path("/proc/stat").read_text(encoding="ascii").split()[1:5]
    except OSError:
        return time.process_time()
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def _has_desktop() -> bool:
    """Somebody looks at this terminal, on a machine that can show a page."""
    shows = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shows and sys.stdout.isatty() and not os.environ.get("SSH_CONNECTION")
