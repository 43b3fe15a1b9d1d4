"""Walls around a program of a stranger's: no network, no home, no other process, and an end to all that it may take.

Namespaces and Landlock where the kernel has both, else bubblewrap, else nothing: then the program is not to run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final, Literal

from loadproof.walls import confined, sandbox, warden

Kind = Literal["namespaces", "bubblewrap", "none"]
HOME: Final = "/tmp/loadproof-home"
OUT: Final = "/tmp/loadproof-out"
_PACKAGES: Final = f"{HOME}/packages"  # of jsii
_MODULES: Final = f"{HOME}/modules"
_TMP_MIB: Final = 384  # in memory; jsii unpacks the CDK there where nothing is cached: 200 MiB
_FILE_MIB: Final = 64
_LONGEST_HEAD: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all processes of a program may take together."""

    cpu_s: float
    memory_mib: int
    idle_s: float = 20.0
    processes: int = 32


@dataclass(frozen=True, slots=True)
class Program:
    """`read` is all that it sees beside the system, and changes nothing of; what it leaves in OUT is handed over."""

    command: Sequence[str]
    folder: Path
    variables: Mapping[str, str]
    read: tuple[Path, ...]
    package_cache: Path | None
    modules: Mapping[str, Path]  # to be imported, by name


@dataclass(frozen=True, slots=True)
class Ended:
    """`code` is negative for a signal's; `breach` says which bound was broken, "" for none."""

    code: int
    breach: str


class NothingLeftError(Exception):
    """What came out of the walls is not what the warden hands over."""


@cache
def prison_kind() -> Kind:
    """What this machine offers. Tried once."""
    kinds: tuple[Kind, ...] = ("namespaces", "bubblewrap")
    return next((kind for kind in kinds if is_offered(kind)), "none")


def is_offered(kind: Kind) -> bool:
    """It works here, and the kernel itself holds a program to so many processes: they outrun the warden's looks."""
    if os.getuid() == 0 and (kind == "bubblewrap" or not confined.numbers_run_out()):
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".py") as nothing:
        return sandbox.runs(_command(kind, [], [nothing.name], 64))


def command(program: Program, bounds: Bounds, kind: Kind | None = None) -> list[str]:
    """The command line of the warden, which takes `plan_of` from standard input."""
    read = [str(path) for path in program.read]
    if program.package_cache is not None:
        read.append(str(program.package_cache))
    return _command(kind or prison_kind(), read, [warden.__file__], bounds.memory_mib)


def plan_of(program: Program, bounds: Bounds) -> bytes:
    own = {"HOME": HOME, "TMPDIR": "/tmp", "PYTHONPATH": _MODULES, "PYTHONDONTWRITEBYTECODE": "1"}
    cached = program.package_cache
    if cached is not None:
        own["JSII_RUNTIME_PACKAGE_CACHE_ROOT"] = _PACKAGES
    plan = {
        **asdict(bounds),
        "command": list(program.command),
        "folder": str(program.folder),
        "variables": {**program.variables, **own},
        "home": HOME,
        "out": OUT,
        "mirrored": {} if cached is None else {str(cached): _PACKAGES},
        "links": {f"{_MODULES}/{name}": str(path) for name, path in program.modules.items()},
    }
    return json.dumps(plan).encode()


def receive(stream: IO[bytes], into: Path, most_bytes: int) -> Ended:
    """Write what the program left into a folder, `most_bytes` in all; a larger rest is left out.

    Raises NothingLeftError. What comes is a stranger's: names are plain ones, and nothing is held that is not bounded.
    """
    line = stream.readline(_LONGEST_HEAD)
    try:
        head = json.loads(line)
        ended = Ended(int(head["code"]), str(head["breach"]))
        files = [(str(name), int(size)) for name, size in head["files"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NothingLeftError("the walls fell, or it never ran") from None
    for name, size_bytes in files:
        if size_bytes < 0 or size_bytes > most_bytes or name in ("", ".", "..") or "/" in name or "\0" in name:
            break
        most_bytes -= size_bytes
        (into / name).write_bytes(stream.read(size_bytes))
    return ended


def _command(kind: Kind, read: list[str], program: list[str], memory_mib: int) -> list[str]:
    seen = [*sandbox.SYSTEM, sys.base_prefix, program[0], *read]
    bounds = {"memory_mib": memory_mib, "file_mib": _FILE_MIB, "apart_mib": _TMP_MIB}
    plan = {"read": seen, "write": ["/tmp"], "landlock": kind == "namespaces", **bounds}
    run = sandbox.launcher(plan, program)
    if kind == "namespaces":
        return run
    binds = [word for path in (*seen, confined.__file__) for word in ("--ro-bind-try", path, path)]
    return ["bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
            "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
            "--size", str(_TMP_MIB << 20), "--tmpfs", "/tmp", *binds, "--remount-ro", "/", "--", *run]  # fmt: skip
