"""CPU and wall seconds of `loadproof review` on a repository of 100 profiles: writes docs/performance-review.md.

.venv/bin/python tests/perf/review_speed.py [--profiles 100] [--repeats 3] [--output FILE]

The repository holds this one's code and full profiles, in git; each review is a fresh process. Repeats are told by
their median: this is a shared machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from synth_cpu import ENVIRONMENT, PROFILE

REPOSITORY = Path(__file__).resolve().parents[2]
GOAL_WALL_S = 10.0
CHANGED = 3
# Comments in stacks/ change every template's making and none of the templates.
CODE_FILE = "loadproof/constructs/deployment.py"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one review and its children took, and how many processes synthesized."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Case:
    """`prepare` brings the cache into the state that the row is about."""

    title: str
    refs: tuple[str, ...]
    prepare: Callable[[], None]
    judged: bool = False


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the page there; without it only the table is printed")
    parser.add_argument("--skip-code", action="store_true", help="without the rows about changed code (minutes)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(Path(folder), options.profiles)
        rows = []
        for case in bench.cases(with_code=not options.skip_code):
            repeats = 1 if "stacks/" in case.title else options.repeats
            costs = [bench.measured(case) for _ in range(repeats)]
            cost = Cost(*(statistics.median(getattr(one, name) for one in costs) for name in ("cpu_s", "wall_s")))
            rows.append((case, cost))
            print(f"{case.title:60} {cost.cpu_s:6.2f} CPU-s {cost.wall_s:6.2f} s", flush=True)
    if options.output:
        options.output.write_text(_page(rows, options.profiles, options.repeats), encoding="utf-8")


class _Bench:
    """The repository and the cache. `main` is the base; `earlier`, `change` and `code` branch from it."""

    def __init__(self, folder: Path, profiles: int) -> None:
        self.root, self.cache = folder / "repository", folder / "cache"
        self.root.mkdir()
        self._copy_code()
        home = self.root / "deploy_profiles" / "perf"
        home.mkdir(parents=True)
        (home / "environment.yaml").write_text(ENVIRONMENT, encoding="utf-8")
        self.files = [home / f"chat-{at:03}.yaml" for at in range(profiles)]
        for file in self.files:
            file.write_text(PROFILE.format(name=file.stem), encoding="utf-8")
        self._git("init", "-q", "-b", "main")
        self._commit("base")
        self._branch("earlier", lambda: self._edit("max_concurrent_requests: 64", "max_concurrent_requests: 48"))
        self._branch("change", lambda: self._edit("target: 8}", "target: 7}"))
        self._branch("code", self._edit_code)
        # The working tree is what a person has at hand: the change, checked out.
        self._git("checkout", "-q", "change")

    def cases(self, *, with_code: bool) -> list[Case]:
        base_cached = "base cached"
        rows = [
            Case("the same ref twice", ("main", "main"), self._forget),
            Case(f"{CHANGED} profiles changed, nothing cached", ("main", "change"), self._forget),
            Case(f"{CHANGED} profiles changed, {base_cached}", ("main", "change"), self._know_base, judged=True),
            Case(f"{CHANGED} profiles changed, {base_cached}, working tree", ("main",), self._know_base, judged=True),
            Case(f"{CHANGED} profiles changed, both sides cached", ("main", "change"), self._know_both),
        ]
        if with_code:
            rows.append(Case("`stacks/` changed (every profile), nothing cached", ("main", "code"), self._forget))
        return rows

    def measured(self, case: Case) -> Cost:
        case.prepare()
        return self._review(*case.refs)

    def _forget(self) -> None:
        shutil.rmtree(self.cache, ignore_errors=True)

    def _know_base(self) -> None:
        """As after the review of an earlier pull request that touched the same profiles."""
        self._forget()
        self._review("main", "earlier")

    def _know_both(self) -> None:
        self._forget()
        self._review("main", "change")

    def _review(self, *refs: str) -> Cost:
        command = [sys.executable, "-m", "loadproof", "review", *refs, "--format", "markdown"]
        variables = {**os.environ, "LOADPROOF_CACHE": str(self.cache), "PYTHONPATH": str(self.root)}
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, cwd=self.root, env=variables, capture_output=True, text=True)
        wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if not done.stdout.startswith("<!-- loadproof-review -->"):
            raise SystemExit(done.stderr)
        return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s)

    def _copy_code(self) -> None:
        """As committed: a file that somebody is just writing does not count."""
        exclude = [f":(exclude){folder}" for folder in ("deploy_profiles", "tests", "docs")]
        archive = ["git", "archive", "--format=tar", "HEAD", "--", ".", *exclude]
        with tempfile.TemporaryFile() as file:
            subprocess.run(archive, cwd=REPOSITORY, check=True, stdout=file)
            file.seek(0)
            subprocess.run(["tar", "-x"], cwd=self.root, check=True, stdin=file)

    def _branch(self, name: str, edit: Callable[[], None]) -> None:
        self._git("checkout", "-q", "-b", name, "main")
        edit()
        self._commit(name)

    def _edit(self, old: str, new: str) -> None:
        for file in self.files[:CHANGED]:
            text = file.read_text(encoding="utf-8")
            if old not in text:
                raise SystemExit(f"{old} is no longer in the profile of synth_cpu.py")
            file.write_text(text.replace(old, new), encoding="utf-8")

    def _edit_code(self) -> None:
        file = self.root / CODE_FILE
        file.write_text(file.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")

    def _commit(self, message: str) -> None:
        self._git("add", "-A")
        self._git("-c", "user.name=perf", "-c", "user.email=perf@example.com", "commit", "-q", "-m", message)

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, check=True)


_WHAT = """\
A fresh process costs about a second of CPU before it has read anything (Python, pydantic, git's answers), and each
process that synthesizes some 3 (Python, Node and jsii starting, then the profile: see
[synthesis](performance-synthesis.md)). Both sides are synthesized at the same time, a process each: one process for
both would save the second start, but not time on two cores, and could not run two versions of the code.

What does not change is read by its id and nothing else: 97 of 100 profiles cost one listing of a git tree and the
parsing of their YAML for the files they name."""


def _page(rows: list[tuple[Case, Cost]], profiles: int, repeats: int) -> str:
    lines = [
        "# How long a review takes",
        "",
        "Written by `.venv/bin/python tests/perf/review_speed.py --output docs/performance-review.md`; a repository",
        f"with this code and {profiles} full profiles, each review a fresh process, children included; medians of "
        f"{repeats} (one for `stacks/`).",
        "",
        f"**Machine:** {os.cpu_count()} cores, shared (load {os.getloadavg()[0]:.1f} at the end); {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        "",
        "| a pull request | CPU-s | wall s | goal, wall s | met |",
        "|---|---|---|---|---|",
    ]
    for case, cost in rows:
        met = "–" if not case.judged else "yes" if cost.wall_s <= GOAL_WALL_S else "**no**"
        goal = f"≤ {GOAL_WALL_S:g}" if case.judged else "–"
        lines.append(f"| {case.title} | {cost.cpu_s:.1f} | {cost.wall_s:.1f} | {goal} | {met} |")
    return "\n".join([*lines, "", _WHAT]) + "\n"


if __name__ == "__main__":
    main()
