"""CPU seconds of checking hostile 256 KiB files and of starting `loadproof check`: prints a table, asserts nothing.

.venv/bin/python tests/perf/profiles_cpu.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadproof.profiles import check_file
from loadproof.profiles.reader import MOST_BYTES

REPOSITORY = Path(__file__).resolve().parents[2]
BASE = (REPOSITORY / "tests" / "profiles" / "bad" / "base" / "chat.yaml").read_text()
POLICY = "    - {type: target_tracking, metric: concurrent_requests_per_copy, target: 8}\n"
COMPONENT = "  - {name: c, model: {id: Qwen/Qwen3-8B}, container: {family: vllm}}\n"
FILES = {
    "unknown keys and `yes`": BASE + "".join(f"key{n}: yes\n" for n in range(30_000)),
    "flow list of `yes`": "a: [" + "yes, " * 60_000,
    "wrong items": BASE + "benchmark:\n  concurrency: [" + "x, " * 90_000,
    "duplicate keys": "a: 1\n" * 60_000,
    "repeated policies": BASE + "scaling:\n  policies:\n" + POLICY * 4_000,
    "repeated components": BASE + "components:\n" + COMPONENT * 4_000,
    "misspelt words": BASE + "scaling:\n  policies:\n" + "    - {type: target_trackin}\n" * 9_000,
    "braces": "{" * 300_000,
    "one scalar": "name: " + "1:1" * 90_000,
}


def main() -> None:
    """Print CPU seconds, listed problems and counted problems of each file."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            file = Path(folder) / "chat.yaml"
            # Cut at a line's end, so that a file stays YAML where it was.
            cut = text.encode()[:MOST_BYTES]
            file.write_bytes(cut if b"\n" not in cut[-200:] else cut[: cut.rfind(b"\n") + 1])
            started = time.process_time()
            checked = check_file(file)
            spent = time.process_time() - started
            print(f"{name:24} {spent:6.2f} s  {len(checked.problems)} listed, {checked.suppressed} counted")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "loadproof", "check"], cwd=REPOSITORY, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{'loadproof check':24} {spent:6.2f} s  of the repository's own profiles, start-up included")


if __name__ == "__main__":
    main()
