"""Runs a stranger's program, ends it at its bounds, and hands over what it wrote: inside the walls.

It is the first process there, which the others can neither end nor read, and sees all of them. Run isolated, so the
standard library only. Standard input is JSON: `command`, `folder`, `variables`, `home` and `out` (below /tmp),
`mirrored`, `links`, `cpu_s`, `idle_s`, `memory_mib`, `processes`. On standard output: a line of JSON (`code`, `breach`,
`files`: name and size each), then what those files hold.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LOOK_EVERY_S = 0.05
_MARK = ".jsii-runtime-package-cache"
_TICKS = os.sysconf("SC_CLK_TCK")
_SOCKET_BYTES = 208 * 1024  # that one may buffer unread (net.core.wmem_default)
_MOST_FILES = 10_000


@dataclass(slots=True)
class Looked:
    """What all processes had at one look; `runnable` is False where each of them waits."""

    memory_bytes: int
    cpu_s: dict[str, float]  # by process, with those that it waited for
    runnable: bool = False


def look() -> Looked:
    """At every process but this one. Memory is what is nobody else's: files in memory and sockets' buffers too."""
    room = os.statvfs("/tmp")
    sockets = int(Path("/proc/net/sockstat").read_bytes().split()[2])
    found = Looked((room.f_blocks - room.f_bfree) * room.f_frsize + sockets * _SOCKET_BYTES, {})
    me = str(os.getpid())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == me:
            continue
        with suppress(OSError, ValueError, IndexError):  # it may end meanwhile
            facts = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            found.runnable = found.runnable or facts[0] == b"R"
            found.cpu_s[entry.name] = sum(map(int, facts[11:15])) / _TICKS
            for line in (entry / "status").read_bytes().splitlines():
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    found.memory_bytes += int(line.split()[1]) * 1024
    return found


class Bounds:
    """Tells when a program is past one. Its time is what it computes and what it idles: what it waits for a busy
    machine is not its own, unless that is ten times as much."""

    def __init__(self, plan: dict[str, float]) -> None:
        self._plan = plan
        self._seen_s: dict[str, float] = {}
        self._cpu_s = self._idle_s = self._busy_s = 0.0
        self._at_s = time.monotonic()

    def breach(self, now: Looked) -> str:
        """Nothing within all of them."""
        # However late this look is: a busy machine keeps this process waiting, too.
        elapsed_s = min(time.monotonic() - self._at_s, 2 * _LOOK_EVERY_S)
        self._at_s = time.monotonic()
        used_s = sum(max(0.0, cpu_s - self._seen_s.get(pid, 0.0)) for pid, cpu_s in now.cpu_s.items())
        self._seen_s = now.cpu_s
        self._cpu_s += used_s
        if now.runnable or used_s:
            self._busy_s += elapsed_s
        else:
            self._idle_s += elapsed_s
        plan = self._plan
        if len(now.cpu_s) > plan["processes"]:
            return f"more than {plan['processes']} processes"
        if now.memory_bytes > plan["memory_mib"] * 2**20:
            return f"more than {plan['memory_mib']} MiB of memory, files in /tmp included"
        if self._cpu_s > plan["cpu_s"] or self._busy_s > 10 * plan["cpu_s"]:
            return f"more than {plan['cpu_s']:g} s of processor time"
        if self._idle_s > plan["idle_s"]:
            return f"more than {plan['idle_s']:g} s of waiting for nothing"
        return ""


def watched(process: subprocess.Popen[bytes], plan: dict[str, float]) -> tuple[int, str]:
    """Its exit code (negative for a signal's) and which bound it broke. Then nothing of it runs any more."""
    bounds, code, breach = Bounds(plan), None, ""
    while code is None and not breach:
        time.sleep(_LOOK_EVERY_S)
        breach = bounds.breach(look())
        code = _reaped(process.pid)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return -signal.SIGKILL if code is None else code, breach


def _reaped(pid: int) -> int | None:
    """The first process is everybody's last parent."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                return os.waitstatus_to_exitcode(ended[1])
    return None


def mirror(cache: Path, mirrored: Path) -> None:
    """The cache of jsii's packages, which it marks at every use, as links to the one that nobody here may write."""
    mirrored.mkdir(parents=True, exist_ok=True)
    is_package = (cache / _MARK).is_file()
    for entry in cache.iterdir():
        if entry.name == _MARK:
            (mirrored / _MARK).touch()
        elif is_package:
            (mirrored / entry.name).symlink_to(entry)
        elif entry.is_dir():
            mirror(entry, mirrored / entry.name)


def written(out: Path) -> list[tuple[Path, int]]:
    """Files, no links, that lie in `out` itself."""
    found = []
    with os.scandir(out) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and entry.name.endswith(".json"):
                found.append((Path(entry.path), entry.stat(follow_symlinks=False).st_size))
            if len(found) > _MOST_FILES:
                break
    return found


def main() -> None:
    plan = json.load(sys.stdin)
    home, out = Path(plan["home"]), Path(plan["out"])
    for folder in (home, out):
        folder.mkdir(parents=True)
    for cache, mirrored in plan["mirrored"].items():
        mirror(Path(cache), Path(mirrored))
    for link, target in plan["links"].items():
        Path(link).parent.mkdir(exist_ok=True)
        Path(link).symlink_to(target)
    process = subprocess.Popen(
        plan["command"],
        cwd=plan["folder"],
        env=plan["variables"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.setpriority(os.PRIO_PROCESS, process.pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5))
    code, breach = watched(process, plan)
    files = written(out)
    head = {"code": code, "breach": breach, "files": [[file.name, size] for file, size in files]}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n")
    for file, _ in files:
        sys.stdout.buffer.write(file.read_bytes())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
