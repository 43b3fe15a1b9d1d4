"""Stands between whoever started a program and the program: nothing that the program began outlives it, or its bounds.

Loaded by `confined` in an isolated interpreter, so the standard library only. The keeper is the first process of a
namespace of processes, which the kernel empties when it ends; where there is none, whoever loses his parent becomes
its child (PR_SET_CHILD_SUBREAPER), and it ends all of them by `/proc`. The end is the program's own, a bound, SIGTERM,
or standard input's: then the one that started it is gone.

The memory of all its processes is looked at together, as Lambda bounds it: shared mappings are in no limit of a
process (RLIMIT_DATA), and a limit of one is not a limit of ten.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

MOST_THREADS = 1024  # "Execution processes/threads", Lambda quotas, AWS Lambda Developer Guide
_LOOK_EVERY_MS, _IDLE_LOOK_EVERY_MS = 50, 200
_END_WITH_PARENT, _ADOPT = 1, 36  # prctl
_OWN, _SHARED = (b"RssAnon:", b"VmSwap:"), (b"RssShmem:",)
_SHARE_OF_OWN, _SHARE_OF_SHARED = (b"Pss_Anon:", b"SwapPss:"), (b"Pss_Shmem:",)

_libc = ctypes.CDLL(None, use_errno=True)


class _OverError(Exception):
    """Somebody says so (SIGTERM)."""


def keep(memory_mib: int, enter: Callable[[int], None] | None) -> None:
    """Goes on in a child, the program; this process ends after it, and as it did.

    `enter` where the next child is the first process of a namespace: shows it those of that namespace alone.
    """
    told = None
    if enter is not None:
        told = _inside()
        with suppress(OSError):  # not in containers that hide parts of /proc: then the whole machine's is searched
            enter(MOST_THREADS)
    else:
        _libc.prctl(_ADOPT, 1, 0, 0, 0)
    program = os.fork()
    if program:
        code = _kept(program, memory_mib << 20)
        if told is not None:  # the first process of a namespace can end by no signal of its own
            os.write(told, str(code).encode())
        os._exit(_by_signal(code))
    os.setsid()  # a signal to its own group is not for its keeper
    _libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if told is not None:
        os.close(told)
        # Counted in its own user namespace; elsewhere it would be all of the user's processes.
        resource.setrlimit(resource.RLIMIT_NPROC, (MOST_THREADS, MOST_THREADS))


def _inside() -> int:
    """Goes on in a child, the first process of its namespace; the one before waits, and ends as it is told there."""
    heard, told = os.pipe()
    if not os.fork():
        os.close(heard)
        _libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        return told
    os.close(told)
    _let_go(0, 1)
    code = os.read(heard, 16)
    with suppress(ChildProcessError):
        os.wait()
    os._exit(_by_signal(int(code or -signal.SIGKILL)))


def _by_signal(code: int) -> int:
    """Ends this process by the signal that a negative code means; any other code comes back."""
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return abs(code)


def _let_go(*descriptors: int) -> None:
    """Who reads or writes there hears the program's end, not ours."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _kept(program: int, most_bytes: int) -> int:
    """The program's exit code, negative for a signal's. Then nothing of it runs any more."""
    code: int | None = None
    with suppress(_OverError):
        signal.signal(signal.SIGTERM, _over)
        _let_go(1)
        code = _watched(program, most_bytes)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ended = _all_ended(program)
    return ended if code is None else code


def _over(*_: object) -> None:
    raise _OverError


def _watched(program: int, most_bytes: int) -> int | None:
    """Its exit code when it has ended; None when it is to be ended."""
    waiting = select.poll()
    waiting.register(0, 0)  # POLLHUP: nobody can write there any more
    with suppress(OSError, AttributeError):  # since Linux 5.3; else its end is seen at the next look
        waiting.register(os.pidfd_open(program), select.POLLIN)
    before_ticks, pause_ms = -1, _LOOK_EVERY_MS
    while True:
        unheard = any(descriptor == 0 for descriptor, _ in waiting.poll(pause_ms))
        code = _reaped(program)
        if code is not None or unheard:
            return code
        ticks, threads, family = look()
        found = memory_bytes(family, most_bytes)
        if found > most_bytes:
            _tell(f"{most_bytes >> 20} MiB of memory in all its processes, found {found >> 20}")
            return None
        if threads > MOST_THREADS:
            _tell(f"{MOST_THREADS} processes and threads, found {threads}")
            return None
        pause_ms = _IDLE_LOOK_EVERY_MS if ticks == before_ticks else _LOOK_EVERY_MS
        before_ticks = ticks


def _tell(bound: str) -> None:
    with suppress(OSError):
        os.write(2, f"killed: more than {bound}\n".encode())


def _reaped(program: int) -> int | None:
    """The program's exit code, if it has ended; everybody who lost his parent is waited for here."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _all_ended(program: int) -> int:
    """Ends whoever is left; the program's exit code, if it was among them."""
    code = -signal.SIGKILL
    first = os.getpid() == 1
    while True:
        with suppress(ProcessLookupError):
            for pid in (-1,) if first else [int(folder.name) for folder, _ in descendants()]:
                os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0 if first else os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == program:
            code = os.waitstatus_to_exitcode(status)


def look() -> tuple[int, int, list[Path]]:
    """Processor time in ticks, threads, and the folders in `/proc`, of all descendants."""
    family = list(descendants())
    ticks = sum(sum(map(int, facts[11:15])) for _, facts in family)
    return ticks, sum(int(facts[17]) for _, facts in family), [folder for folder, _ in family]


def descendants() -> Iterator[tuple[Path, list[bytes]]]:
    """Each one's folder in `/proc`, and its `stat` from the state on."""
    found: dict[str, tuple[Path, list[bytes]]] = {}
    children: dict[str, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may end meanwhile
                facts = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                found[entry.name] = entry, facts
                children.setdefault(facts[1].decode(), []).append(entry.name)
    left = list(children.get(Path("/proc/self").readlink().name, ()))
    while left:
        name = left.pop()
        left += children.get(name, ())
        yield found[name]


def memory_bytes(family: list[Path], most_bytes: int) -> int:
    """What is nobody else's: lists, shared memory, files in memory. Files in `/tmp` lie on the disk.

    A page of several processes counts for each of them, and once only where that makes more than `most_bytes`.
    """
    own, shared = _sums(family, "status", _OWN, _SHARED)
    in_memory = _memory_files(family)
    if own + max(shared, in_memory) > most_bytes:
        shares = _sums(family, "smaps_rollup", _SHARE_OF_OWN, _SHARE_OF_SHARED)
        own, shared = shares if any(shares) else (own, shared)
    return own + max(shared, in_memory)


def _sums(family: list[Path], file: str, *kinds: tuple[bytes, ...]) -> tuple[int, int]:
    sums = [0, 0]
    for folder in family:
        with suppress(OSError, ValueError):
            for line in (folder / file).read_bytes().splitlines():
                for at, kind in enumerate(kinds):
                    if line.startswith(kind):
                        sums[at] += int(line.split()[1]) * 1024
    return sums[0], sums[1]


def _memory_files(family: list[Path]) -> int:
    """Bytes of files that have no name (memfd_create) and somebody holds, mapped or not."""
    sizes: dict[int, int] = {}
    for folder in family:
        with suppress(OSError):
            for held in (folder / "fd").iterdir():
                with suppress(OSError):
                    if str(held.readlink()).startswith("/memfd:"):
                        facts = held.stat()
                        sizes[facts.st_ino] = facts.st_blocks * 512
    return sum(sizes.values()) + (_segments_bytes() if os.getpid() == 1 else 0)


def _segments_bytes() -> int:
    """Of shared memory with a key (shmget) that nobody has attached: in a namespace of its own with the processes."""
    with suppress(OSError, ValueError, IndexError):
        rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
        return sum(int(row[14]) + int(row[15]) for row in rows if row[6] == "0")
    return 0
