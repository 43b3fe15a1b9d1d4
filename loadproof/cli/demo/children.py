"""Commands that must not outlive the demo: each in a process group of its own, ended with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from loadproof.errors import CouldNotRunError, ExitCode

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
INTERRUPT_PATIENCE_S: Final = 10.0


def _end_with_parent() -> Callable[[], None]:
    """What a child does before it starts: ask the kernel to end it when the demo is gone, `kill -9` included.

    Without it the CDK CLI would go on calling a local cloud that has ended, until its own retries are spent.
    """
    prctl = ctypes.CDLL(None).prctl  # looked up here: a child between fork and exec should do no more than call it
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def child(command: Sequence[str], environment: Mapping[str, str], **options: Any) -> Iterator[subprocess.Popen[str]]:
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


def finished(code: int, command: Sequence[str], allowed: Sequence[int], hint: str = "") -> int:
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in allowed:
        shown = " ".join([Path(command[0]).name, *command[1:]])
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise CouldNotRunError(f"`{shown}` {how}{hint}")
    return code


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
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
