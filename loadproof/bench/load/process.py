"""What a process under load asks of its system: a fast event loop, to be woken before others, to hear signals."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loadproof.errors import CouldNotRunError, mend_of

LEAST_DESCRIPTORS = 10  # an event loop's own, its signals', a connection's and a file's beside what is open
PRIORITY = -10  # niceness of the process under load
# Where Linux schedules by session (most desktops), niceness counts within a session only, and this is the session's.
_SESSION = Path("/proc/self/autogroup")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415  not on every system
    except ImportError:  # not built for this platform: asyncio's own loop measures too, only less finely
        return None
    return uvloop.new_event_loop


def refuse_few_descriptors() -> None:
    """Raises CouldNotRunError where an event loop and a connection would find no room: uvloop breaks half-way there."""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(LEAST_DESCRIPTORS))
    except OSError as error:
        raise CouldNotRunError(f"connections cannot be opened: {error.strerror}{mend_of(error)}") from None
    finally:
        for number in opened:
            os.close(number)


@contextmanager
def raised_priority() -> Iterator[None]:
    """While the load runs, ask the scheduler to wake this process before others, where the system lets us.

    It needs little of the CPU, but every time slice it waits for is in somebody's latency. Its children inherit it.
    """
    try:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, min(before, PRIORITY))
    except (OSError, AttributeError):  # not privileged, or no such thing on this system: the lag will tell
        yield
        return
    session_before = _session_nice()
    if session_before is not None:
        _set_session_nice(min(session_before, PRIORITY))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
        if session_before is not None:
            # Raised already: by a run beside this one, or by one that was killed and could not take it back.
            _set_session_nice(session_before if session_before > PRIORITY else 0)


@contextmanager
def heard_signals(hear: Callable[[], None]) -> Iterator[None]:
    """SIGINT, SIGTERM and a terminal that goes away call `hear` in the running loop; only the main thread may hear."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` means to outlive the terminal
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _session_nice() -> int | None:
    """`/autogroup-25 nice 0` as 0; None where there is no such thing."""
    try:
        return int(_SESSION.read_text().rpartition(" nice ")[2])
    except (OSError, ValueError):
        return None


def _set_session_nice(value: int) -> None:
    with suppress(OSError):
        _SESSION.write_text(str(value))
