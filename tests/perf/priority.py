"""Real-time priority for what is measured, so that other work on a shared machine is not."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress

_PR_CAPBSET_DROP, _CAP_SYS_NICE = 24, 23
SERVER, CLIENT = 2, 1  # the server before the client: its lateness must not pass for the client's


def none() -> None:
    """To be called in a child before its program starts: whoever runs it, it may raise no priority of its own."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE, 0, 0, 0)


def realtime(level: int) -> Callable[[], None]:
    """To be called in a child before its program starts; does nothing where the system does not let us."""

    def set_priority() -> None:
        with suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(level))

    return set_priority
