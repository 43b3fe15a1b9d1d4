"""An observer beside the load: `watcher` as a process of its own writes observed.jsonl, what AWS says of the target."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadproof.bench.spec import Target

SCHEMA_VERSION = 1
FILE_NAME = "observed.jsonl"
POLL_S = 2.0
READY_WITHIN_S = 15.0  # imports and the first answers; the load waits that long for its observer, then goes ahead
LAST_WORDS_WITHIN_S = 1.5  # also of a run that was interrupted, which ends in 3 s
Row = Mapping[str, Any]  # a line of observed.jsonl: by its kind, and what older versions wrote


@contextmanager
def observing(folder: Path, target: Target) -> Iterator[Callable[[], None]]:
    """Observe the run in `folder` while the block runs; nothing for a target that has no copies.

    Yields what asks for the last words already, for a run that is being stopped and will end soon.
    """
    if target.kind != "sagemaker" or target.component is None:
        yield lambda: None
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "loadproof.bench.measure.watcher", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the run, which then ends its observer in order
    )
    stdin, stdout, asked_s = process.stdin, process.stdout, None
    assert stdin is not None
    assert stdout is not None

    def ask() -> None:
        nonlocal asked_s
        asked_s = asked_s or time.monotonic()
        stdin.close()

    try:
        select.select([stdout], [], [], READY_WITHIN_S)
        yield ask
    finally:
        ask()
        assert asked_s is not None
        try:
            process.wait(max(0.0, asked_s + LAST_WORDS_WITHIN_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        stdout.close()
