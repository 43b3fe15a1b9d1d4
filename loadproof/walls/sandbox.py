"""What code of deployed stacks may reach of this machine: its own files and what Python needs, not the user's home.

Landlock where the kernel has it, else bubblewrap where that is installed and works, else limits only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from loadproof.walls import confined, keeper

Kind = Literal["landlock", "bubblewrap", "none"]
# Python, the C library, certificates and names of hosts; of /etc nothing that is anybody's secret.
SYSTEM: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/opt/homebrew",
    "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf",
    "/etc/nsswitch.conf", "/etc/services", "/etc/protocols", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/passwd", "/etc/group",
    "/etc/alternatives", "/etc/os-release", "/run/systemd/resolve", "/dev/urandom", "/dev/random",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu",
)  # fmt: skip
# Python and boto3 count in a function's memory on Lambda as here; but here every thread's stack is counted whole.
_ALLOWANCE_MIB = 256
_FILE_MIB = 512  # /tmp of a Lambda function


@dataclass(frozen=True, slots=True)
class Confinement:
    """`tmp` is the program's own folder, its `/tmp` where possible; `read` is the code, which it cannot change."""

    tmp: Path
    read: tuple[Path, ...]
    memory_mib: int


@cache
def sandbox_kind() -> Kind:
    """What this machine offers. Looked up once."""
    if confined.landlock_abi() > 0:
        return "landlock"
    return "bubblewrap" if runs([*_bubblewrap(list(SYSTEM), "/var/tmp"), "true"]) else "none"


def command(confinement: Confinement, program: list[str]) -> list[str]:
    """The command line that runs a Python program (its file and arguments) so confined."""
    return _command(sandbox_kind(), confinement, program)


def environment(confinement: Confinement) -> dict[str, str]:
    """Where a program finds its own folders, and nothing of the user's."""
    tmp = str(confinement.tmp)
    return {"HOME": tmp, "TMPDIR": tmp, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def _command(kind: Kind, confinement: Confinement, program: list[str]) -> list[str]:
    read = [*SYSTEM, sys.base_prefix, program[0]]
    for path in confinement.read:
        read += [str(path), *_linked(path)]
    bounds = {"memory_mib": confinement.memory_mib + _ALLOWANCE_MIB, "file_mib": _FILE_MIB, "apart_mib": 0}
    plan = {"read": read, "write": [str(confinement.tmp)], "landlock": kind == "landlock", **bounds}
    if kind == "bubblewrap":
        read += [confined.__file__, keeper.__file__]
    run = launcher(plan, program)
    return [*_bubblewrap(read, str(confinement.tmp)), *run] if kind == "bubblewrap" else run


def launcher(plan: Mapping[str, object], program: list[str]) -> list[str]:
    """`confined.py` by the interpreter itself, not by a link in a virtual environment that the program cannot see."""
    python = str(getattr(sys, "_base_executable", None) or sys.executable)
    return [python, "-I", "-S", "-u", confined.__file__, json.dumps(plan), *program]


def _linked(folder: Path) -> list[str]:
    """Where the links in a folder lead: layers are folders of links to installed packages."""
    if not folder.is_dir():
        return []
    return [str(entry.resolve()) for entry in folder.iterdir() if entry.is_symlink()]


def _bubblewrap(read: list[str], tmp: str) -> list[str]:
    """No `--die-with-parent`: that parent would be the thread which starts the program. It ends with its stdin."""
    binds = [word for path in read for word in ("--ro-bind-try", path, path)]
    return ["bwrap", "--unshare-pid", "--unshare-ipc", "--new-session", "--proc", "/proc", "--dev", "/dev",
            "--bind", tmp, "/tmp", *binds, "--bind", tmp, tmp, "--"]  # fmt: skip


def runs(trial: list[str]) -> bool:
    """Whether this machine lets a trial of a sandbox end well."""
    if sys.platform != "linux" or shutil.which(trial[0]) is None:
        return False
    try:
        done = subprocess.run(trial, capture_output=True, check=False, timeout=5, env={"PATH": os.defpath})
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
