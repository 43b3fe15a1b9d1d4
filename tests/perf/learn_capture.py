"""What reading recorded traffic costs: rate and peak memory over made-up captures of a size.

    .venv/bin/python tests/perf/learn_capture.py [--gigabytes 2] [--folder /tmp/capture]

The captures are SageMaker's, files of 64 MB: chats of 200 to 8,000 characters, with the server's own counts.
The reader is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILE_BYTES = 64 * 2**20
WORDS = ("the", "cache", "of", "a", "copy", "holds", "what", "its", "requests", "left", "and", "who", "comes", "back")


def write(folder: Path, most_bytes: int) -> int:
    """Captures of so many bytes; how many requests they hold."""
    chance, written, count, files = random.Random(0), 0, 0, 0
    system = {"role": "system", "content": "be brief and kind " * 20}
    text = " ".join(chance.choices(WORDS, k=4_000))
    while written < most_bytes:
        files += 1
        with (folder / f"{files:05d}.jsonl").open("w", encoding="utf-8") as file:
            size = 0
            while size < FILE_BYTES and written + size < most_bytes:
                count += 1
                asked = text[chance.randrange(8_000) :][: chance.randint(200, 8_000)]
                usage = {"prompt_tokens": len(asked) // 4, "completion_tokens": chance.randint(20, 400)}
                answer = {"choices": [{"message": {"content": text[: 4 * usage["completion_tokens"]]}}], "usage": usage}
                prompt = {"messages": [system, {"role": "user", "content": asked}]}
                sides = {"endpointInput": prompt, "endpointOutput": answer}
                data = {side: {"data": json.dumps(body), "encoding": "JSON"} for side, body in sides.items()}
                moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_767_600_000 + count // 20))
                size += file.write(json.dumps({"captureData": data, "eventMetadata": {"inferenceTime": moment}}) + "\n")
            written += size
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        count, state = write(folder, round(given.gigabytes * 1e9)), folder.with_name(f"{folder.name}-state")
        began = time.perf_counter()
        reader = [str(Path(sys.executable).with_name("loadproof")), "learn", str(folder), "--resume", str(state)]
        subprocess.run(reader, check=True, stdout=subprocess.DEVNULL)
        took_s, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = used.ru_utime + used.ru_stime
        print(
            f"{given.gigabytes:g} GB, {count:,} requests: {took_s:.0f} s, {cpu_s:.0f} CPU-s "
            f"({given.gigabytes * 1e3 / cpu_s:.0f} MB a CPU-second), peak {used.ru_maxrss / 1024:.0f} MiB"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
