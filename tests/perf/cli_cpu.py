"""CPU of two doors against the least that any of them must import, all measured in one run.

    .venv/bin/python tests/perf/cli_cpu.py [--times 15]

User and system time of child processes, the median of several, bytecode compiled as an installed package's is.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADPROOF = (sys.executable, "-m", "loadproof")
BASE = (sys.executable, "-c", "import typer, pydantic, yaml")
DOORS = {
    "--help": ((*LOADPROOF, "--help"), 1.5),
    "check": ((*LOADPROOF, "check", "deploy_profiles/dev/llama-3-1-8b.yaml"), 2.5),
}


def cpu_s(command: tuple[str, ...]) -> float:
    """CPU seconds of one child that must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=15)
    times = parser.parse_args().times
    commands = {"import": BASE, **{name: command for name, (command, _) in DOORS.items()}}
    for command in commands.values():
        cpu_s(command)  # compiles what is not compiled yet
    rounds = [{name: cpu_s(command) for name, command in commands.items()} for _ in range(times)]
    median_s = {name: statistics.median(one[name] for one in rounds) for name in commands}
    print(f"{'import':8} {median_s['import'] * 1000:6.0f} ms")
    for name, (_, goal) in DOORS.items():
        print(f"{name:8} {median_s[name] * 1000:6.0f} ms  {median_s[name] / median_s['import']:.2f}x (goal {goal}x)")


if __name__ == "__main__":
    main()
