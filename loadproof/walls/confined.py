"""Gives up most of the machine, then runs a program: `confined.py PLAN PROGRAM ARGUMENTS`.

Run isolated (`-I -S`), so the standard library only. PLAN is JSON: `read` and `write` (paths), `memory_mib`,
`file_mib`, `landlock` (whether the kernel is to enforce the paths), and `apart_mib`: 0, or how large a `/tmp` in memory
is for a program that is to have no network and see no other process. Children inherit it, and nobody can take it back.

A program that is apart runs in this very process, under a warden of its own. Any other is a child's, with a `keeper`
beside it.

Landlock: https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES, _SECCOMP, _SECCOMP_FILTER = 38, 22, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_RIGHTS_OF_ABI = (0, 13, 14, 15, 15, 16)  # how many rights the kernel knows, by its version
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_NEW_PROCESSES_IPC = 0x20000000 | 0x08000000
_NEW_PROCESSES_NETWORK_IPC = _NEW_PROCESSES_IPC | 0x40000000
_MOST_THREADS = 512  # of a program that is apart; root is held to it by numbers of processes, which run out
_END_WITH_PARENT, _MAY_BE_READ = 1, 4  # prctl
_BIND, _REMOUNT, _PRIVATE, _RELATIVE_TIMES, _DETACH = 4096, 32, (1 << 14) | (1 << 18), 1 << 21, 2
# Of a mount, what an unprivileged one must keep; these have the same numbers as a file system's own flags.
_SAME_FLAGS = (
    os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME if sys.platform == "linux" else 0
)
# Architecture: its number in audit records, of the system calls socket and io_uring_setup.
_CALLS = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
# Ways around the bounds: others' memory (ptrace, process_vm_readv, process_vm_writev, userfaultfd), memory that nobody
# counts (memfd_create, memfd_secret, shmget), other namespaces and mounts (unshare, setns, mount, open_tree,
# move_mount, fsopen, fsmount), the kernel's own (bpf, perf_event_open, add_key, request_key, keyctl).
_MOUNTS = (428, 429, 430, 432)
_AROUND = {
    "x86_64": (101, 310, 311, 323, 319, 447, 29, 272, 308, 165, *_MOUNTS, 321, 298, 248, 249, 250),
    "aarch64": (117, 270, 271, 282, 279, 447, 194, 97, 268, 40, *_MOUNTS, 280, 241, 217, 218, 219),
}

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """The version of the kernel's Landlock; 0 where there is none or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def bound(memory_mib: int, file_mib: int, most_files: int) -> None:
    """Limits of the process and its children each: writable memory, one file, open files, no core dumps."""
    for limit, most in (
        (resource.RLIMIT_DATA, memory_mib << 20),
        (resource.RLIMIT_FSIZE, file_mib << 20),
        (resource.RLIMIT_NOFILE, most_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # macOS knows fewer limits
            resource.setrlimit(limit, (allowed, allowed))


def own_namespaces(more: int = 0) -> None:
    """Mounts of its own (and `more`), as the same user. Raises OSError where the kernel forbids it."""
    user, group = os.getuid(), os.getgid()
    _done(_libc.unshare(_NEW_USER | _NEW_MOUNTS | more), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("none", "/", _PRIVATE)


def apart() -> None:
    """Goes on as a first process, without network: nobody beside it can end it, and all of them end with it.

    The one that was before waits for it, and ends as it does. Raises OSError.
    """
    _done(_libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0), "prctl")
    own_namespaces(_NEW_PROCESSES_NETWORK_IPC)
    if first := os.fork():
        _, status = os.waitpid(first, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    _done(_libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0), "prctl")
    own_proc(_MOST_THREADS)


def own_proc(most_threads: int) -> None:
    """Of a first process and those after it, which are not more than that many. Raises OSError."""
    _mount("proc", "/proc", 0, "proc")
    if os.getuid() == 0 and numbers_run_out():
        Path("/proc/sys/kernel/pid_max").write_text(str(most_threads))


def numbers_run_out() -> bool:
    """Since Linux 6.14 `pid_max` is of a namespace's processes alone. Nothing else bounds root's: no RLIMIT_NPROC."""
    major, minor, *_ = os.uname().release.split(".")
    return (int(major), int(re.sub(r"\D.*", "", minor) or 0)) >= (6, 14)


def own_tmp(folder: str | None, read: list[str], size_mib: int = 0) -> None:
    """`/tmp` becomes `folder`, or one in memory, with what is in `read` where it was. Raises OSError."""
    inside = [path for path in read if path.startswith("/tmp/") and Path(path).exists()]
    kept = inside if folder is None else [folder, *inside]
    handles = [os.open(path, os.O_PATH) for path in kept]
    try:
        if folder is None:
            _mount("tmpfs", "/tmp", 0, "tmpfs", f"size={size_mib}m,nr_inodes=65536,mode=700")
        else:
            _mount(_by_handle(handles[0]), "/tmp", _BIND)
        for path, handle in zip(kept, handles, strict=True):
            _mount_again(path, handle, writable=path == folder)
    except OSError:
        _libc.umount2(b"/tmp", _DETACH)
        raise
    finally:
        for handle in handles:
            os.close(handle)


def _mount_again(path: str, handle: int, *, writable: bool) -> None:
    """What was at `path` before `/tmp` became another; read-only, for all that is below `/tmp` may be written."""
    source = _by_handle(handle)
    if os.path.isdir(source):  # noqa: PTH112
        Path(path).mkdir(parents=True, exist_ok=True)
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    _mount(source, path, _BIND)
    if not writable:
        flags = os.statvfs(path).f_flag
        kept = flags & _SAME_FLAGS | (_RELATIVE_TIMES if flags & os.ST_RELATIME else 0)
        _mount(path, path, _BIND | _REMOUNT | os.ST_RDONLY | kept)


def _by_handle(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


def restrict(read: list[str], write: list[str]) -> None:
    """Of the files there are, only these from now on; no signal leaves, and no other user's tool gives rights back."""
    abi = landlock_abi()
    handled = (1 << _RIGHTS_OF_ABI[min(abi, len(_RIGHTS_OF_ABI) - 1)]) - 1
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled, 0, scoped)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    size = ctypes.c_size_t(len(attributes))
    ruleset = _done(_libc.syscall(_CREATE_RULESET, attributes, size, ctypes.c_uint32(0)), "landlock_create_ruleset")
    for paths, rights in ((read, _READ), (["/dev/null", "/dev/zero", "/dev/full"], _OF_FILES), (write, handled)):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    _done(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _done(_libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(ruleset)


def no_capabilities() -> None:
    """Those that the own namespace brought, and root's."""
    _done(_libc.capset(struct.pack("=Ii", 0x20080522, 0), bytes(24)), "capset")


def no_unix_sockets(around: bool = False) -> None:
    """Landlock leaves sockets with a path, behind which Docker, D-Bus and agents do anything for the user.

    With `around` no sockets at all, and none of the calls that lead around a bound.
    """
    known = _CALLS.get(os.uname().machine)
    if known is None:
        return
    architecture, socket_call, uring_call = known
    load, equal, at_least, done = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 13  # EACCES
    # uring could open sockets too
    refused = (uring_call, socket_call, *_AROUND[os.uname().machine]) if around else (uring_call,)
    steps = len(refused)
    program = [
        (load, 0, 0, 4),
        (equal, 0, steps + 6, architecture),  # another architecture's calls: refused
        (load, 0, 0, 0),
        (at_least, steps + 4, 0, 0x40000000),  # x86-64's other numbers for the same calls
        *((equal, steps - at + 3, 0, call) for at, call in enumerate(refused)),
        (equal, 0, 2, socket_call),
        (load, 0, 0, 16),
        (equal, 1, 0, 1),  # AF_UNIX
        (done, 0, 0, allow),
        (done, 0, 0, refuse),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    kept = ctypes.create_string_buffer(code, len(code))
    filters = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(kept)))
    _done(_libc.prctl(_SECCOMP, _SECCOMP_FILTER, filters, 0, 0), "seccomp")


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH)
    except OSError:  # what is not there needs no right
        return
    if not os.path.isdir(_by_handle(handle)):  # noqa: PTH112
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, handle)
    _done(
        _libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)),
        f"landlock_add_rule {path}",
    )
    os.close(handle)


def _mount(source: str, target: str, flags: int, kind: str = "", said: str = "") -> None:
    asked = (text.encode() or None for text in (source, target, kind))
    _done(_libc.mount(*asked, ctypes.c_ulong(flags), said.encode() or None), f"mount {target}")


def _done(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _own_processes(tmp: str, read: list[str]) -> bool:
    """Namespaces for a function: `/tmp` is `tmp`, and the next child is a first process, where the kernel allows it."""
    try:
        own_namespaces(_NEW_PROCESSES_IPC)
    except OSError:  # without user namespaces /tmp is not writable at all
        return False
    with suppress(OSError):
        own_tmp(tmp, read)
    return True


def _sibling(name: str) -> ModuleType:
    """A module beside this one, which an isolated interpreter does not find."""
    module, path = ModuleType(name), Path(__file__).with_name(f"{name}.py")
    exec(compile(path.read_bytes(), path, "exec"), module.__dict__)  # noqa: S102
    return module


def main(text: str, program: str) -> None:
    plan = json.loads(text)
    code = Path(program).read_bytes()
    read, write, apart_mib = plan["read"], plan["write"], plan["apart_mib"]
    bound(plan["memory_mib"], plan["file_mib"], 256 if apart_mib else 1024)
    if plan["landlock"] and apart_mib:
        apart()
        own_tmp(None, read, apart_mib)
        restrict([*read, "/proc"], write)
    else:
        keeper = _sibling("keeper")  # before `/tmp` is another, where it may lie
        first = plan["landlock"] and _own_processes(write[0], read)
        if sys.platform == "linux":
            keeper.keep(plan["memory_mib"], own_proc if first else None)
        if plan["landlock"]:
            restrict([*read, "/proc/self"], write)
    if apart_mib:
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_THREADS, _MOST_THREADS))
        _done(_libc.prctl(_MAY_BE_READ, 0, 0, 0, 0), "prctl")
    if plan["landlock"] or apart_mib:
        no_capabilities()
        _done(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
        no_unix_sockets(around=apart_mib > 0)
    sys.argv = [program, *sys.argv[3:]]
    # Not runpy, which loads as much again.
    exec(compile(code, program, "exec"), {"__name__": "__main__", "__file__": program})  # noqa: S102  running the function is what it is for


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
