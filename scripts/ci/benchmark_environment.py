"""Benchmarks every profile of an environment whose evidence is not current, and keeps what was measured.

`benchmark_environment.py ENVIRONMENT PLACE`, from the repository's root; PLACE is `s3://BUCKET/evidence` or a folder. A
row a profile goes to $GITHUB_STEP_SUMMARY, where there is one. `--local-cloud` counts runs against a local cloud.

Exit code: 0 everything passes, or has passed; else the worst benchmark's: 1 missed, 2 bad profile, 3 could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

LOADPROOF: Final = ".venv/bin/loadproof"
PYTHON: Final = ".venv/bin/python"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("environment")
    arguments.add_argument("place")
    arguments.add_argument("--local-cloud", action="store_true")
    given = arguments.parse_args()
    listing = [PYTHON, "-m", "stacks.ci.profiles", given.environment]
    listed = subprocess.run(listing, stdout=subprocess.PIPE, text=True)
    if listed.returncode:
        return listed.returncode
    profiles = [Path(line) for line in listed.stdout.splitlines()]
    tell(f"### Benchmarks of {given.environment}\n\n| profile | verdict | evidence |\n|---|---|---|")
    checking = ["--place", given.place, *(["--local-cloud"] if given.local_cloud else [])]
    return max(benchmark(file, given.environment, given.place.rstrip("/"), checking) for file in profiles)


def benchmark(profile: Path, environment: str, place: str, checking: list[str]) -> int:
    """The exit code of `loadproof bench`, or of keeping what it measured; 0 where there was nothing to prove."""
    proven = loadproof("evidence", "check", str(profile), *checking)
    if proven == 0:
        tell(f"| {profile.stem} | current, nothing sent | {linked(f'{place}/{environment}/{profile.stem}')} |")
        return 0
    if proven != 1:
        tell(f"| {profile.stem} | nothing sent | could not be read (exit code {proven}) |")
        return proven
    run = Path("runs", f"ci-{environment}-{profile.stem}")
    code = loadproof("bench", str(profile), "--out", str(run))
    outcome, run_id = read(run / "summary.json", "verdict", "outcome"), read(run / "plan.json", "run_id")
    if outcome is None:
        tell(f"| {profile.stem} | could not run (exit code {code}) | none |")
        return code or 3
    kept = loadproof("evidence", "add", str(run), "--to", place, "--with-report")
    where = "**not kept**" if kept else linked(f"{place}/{environment}/{profile.stem}/{run_id}")
    tell(f"| {profile.stem} | **{outcome}** | {where} |")
    return max(code, kept)


def loadproof(*arguments: str) -> int:
    return subprocess.run([LOADPROOF, *arguments]).returncode


def read(file: Path, *keys: str) -> Any:
    """None where the file or a key is missing."""
    try:
        found = json.loads(file.read_bytes())
        for key in keys:
            found = found[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def linked(place: str) -> str:
    """A place in S3 as a link to the console, any other as it is."""
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    if not place.startswith("s3://"):
        return f"`{place}`"
    return f"[`{place}`](https://console.aws.amazon.com/s3/buckets/{quote(bucket)}?prefix={quote(prefix)}/)"


def tell(text: str) -> None:
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
