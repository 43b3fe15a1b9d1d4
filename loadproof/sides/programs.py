"""Programs that synthesize, each in a process of its own: behind walls where they may be a stranger's.

Whatever they are, they get few variables of this process's environment and an empty home.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

from loadproof.errors import CouldNotRunError
from loadproof.sides.deadline import SYNTHESIZED, Deadline
from loadproof.walls import prison

PATIENCE_S: Final = 900.0
_MOST_SAID_BYTES: Final = 1024 * 1024
_MOST_LEFT_BYTES: Final = 512 * 2**20
# What a stranger's program may take. Python, Node and the CDK take 3 s and 400 MiB, 60 profiles more 100 MiB.
_START_CPU_S, _PROFILE_CPU_S = 30.0, 1.0
_START_MIB, _PROFILE_MIB, _MOST_MIB = 512, 4, 1024
# What synthesis may need of this process's environment; whatever else a job holds is not the reviewed code's to read.
_PASSED: Final = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TEMP|TMP|TERM|NO_COLOR|VIRTUAL_ENV|LD_LIBRARY_PATH|SYSTEMROOT"
    r"|(JSII|NODE|PYTHON|CDK)_?\w*"
)
_SECRET: Final = re.compile(r".*(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|KEY).*", re.IGNORECASE)
_JSII_CACHE: Final = (
    "Library/Caches/com.amazonaws.jsii/package-cache" if sys.platform == "darwin" else ".cache/aws/jsii/package-cache"
)
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_INSTALLED: Final = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class App:
    """A side's folder, laid out, and how it is synthesized. `context` is what cdk.json and `-c` say."""

    root: Path
    own_code: bool
    context: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code (negative for a signal's) and standard error; `breach` is the bound that it was ended for, or ""."""

    code: int
    said: str
    breach: str = ""
    walled: bool = False


class Programs:
    """Runs them; `stop` ends whatever is under way, from any thread."""

    def __init__(self, deadline: Deadline, *, walled: bool) -> None:
        self.started = 0
        self._deadline = deadline
        self._walled = walled
        self._live: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, arguments: Sequence[str], app: App, context: str, out: Path, profiles: int) -> Ended:
        """Python with `arguments` in the app's folder; what it writes is in `out` then. Raises CouldNotRunError."""
        variables = {
            **_passed_on(os.environ),
            "CDK_CONTEXT_JSON": context,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        }
        command = [sys.executable, *arguments]
        if self._walled and app.own_code:
            return self._run_walled(command, app.root, variables, out, profiles)
        with tempfile.TemporaryDirectory(prefix="loadproof-home-") as home, tempfile.TemporaryFile() as said:
            variables |= {"HOME": home, "CDK_OUTDIR": str(out)}
            process = self._start(command, app.root, variables, subprocess.DEVNULL, subprocess.DEVNULL, said)
            code = self._waited(process)
            late = code < 0 and self._deadline.is_over(SYNTHESIZED)
            return Ended(code, _read(said), "the review's time" if late else "")

    def _run_walled(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], out: Path, profiles: int
    ) -> Ended:
        cached = Path(variables["JSII_RUNTIME_PACKAGE_CACHE_ROOT"])
        program = prison.Program(
            command,
            folder,
            {**variables, "CDK_OUTDIR": prison.OUT},
            (folder, *_libraries()),
            cached if cached.is_dir() else None,
            {} if _PACKAGE.parent.name in _INSTALLED else {_PACKAGE.name: _PACKAGE},
        )
        memory_mib = min(_MOST_MIB, _START_MIB + _PROFILE_MIB * profiles)
        bounds = prison.Bounds(_START_CPU_S + _PROFILE_CPU_S * profiles, memory_mib)
        with tempfile.TemporaryFile() as plan, tempfile.TemporaryFile() as said:
            plan.write(prison.plan_of(program, bounds))
            plan.seek(0)
            process = self._start(prison.command(program, bounds), Path("/"), {}, plan, subprocess.PIPE, said)
            watch = threading.Timer(self._patience_s, _end_group, (process,))
            watch.start()
            assert process.stdout is not None
            try:
                ended = prison.receive(process.stdout, out, _MOST_LEFT_BYTES)
            except prison.NothingLeftError:
                ended = prison.Ended(-signal.SIGKILL, "")
            finally:
                watch.cancel()
                _end_group(process)
                self._waited(process)
                process.stdout.close()
            return Ended(ended.code, _read(said), ended.breach, walled=True)

    @property
    def _patience_s(self) -> float:
        return max(0.0, min(PATIENCE_S, self._deadline.left_s(SYNTHESIZED)))

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._live:
                _end_group(process)

    def _start(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        stdin: IO[bytes] | int,
        stdout: int,
        stderr: IO[bytes],
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise CouldNotRunError("interrupted")
            process = subprocess.Popen(
                command, cwd=folder, env=variables, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
            self.started += 1
            self._live.add(process)
        return process

    def _waited(self, process: subprocess.Popen[bytes]) -> int:
        """Exit code. What is interrupted leaves nothing running."""
        try:
            return process.wait(self._patience_s)
        except BaseException as error:
            _end_group(process)
            code = process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            if self._deadline.is_over(SYNTHESIZED):
                return code
            raise CouldNotRunError(f"synthesis did not end within {PATIENCE_S:g} s") from None
        finally:
            with self._lock:
                self._live.discard(process)


def _read(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read(_MOST_SAID_BYTES).decode(errors="replace")


def _libraries() -> tuple[Path, ...]:
    """Python's and Node's, and this installation: what synthesis loads beside the project's own code."""
    node = Path(_folder_of_node())
    places = [Path(sys.prefix), node / "node", node.parent / "lib", _PACKAGE]
    places += [Path(entry) for entry in sys.path if Path(entry).name in _INSTALLED]
    return tuple(dict.fromkeys(place for place in places if place.exists()))


def _passed_on(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables for the reviewed code, whose home is an empty one: what its tools have in ours is named to them."""
    passed = {name: value for name, value in variables.items() if _PASSED.fullmatch(name)}
    passed = {name: value for name, value in passed.items() if not _SECRET.fullmatch(name)}
    passed["PATH"] = os.pathsep.join((_folder_of_node(), passed.get("PATH", os.defpath)))
    passed.setdefault("PYTHONUSERBASE", site.getuserbase())
    passed.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(Path.home() / _JSII_CACHE))
    return passed


@cache
def _folder_of_node() -> str:
    """Where Node itself lies: what is on the path may be a script that looks into the home for it."""
    if shutil.which("node") is None:
        raise CouldNotRunError("Node is not on the path, and synthesis needs it; install Node 20 or newer")
    said = subprocess.run(
        ["node", "-p", "process.execPath"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if said.returncode:
        raise CouldNotRunError(f"Node does not run: {said.stderr.decode(errors='replace').strip()[:2000]}")
    return str(Path(os.fsdecode(said.stdout).strip()).parent)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Node too. The group goes by the process's own number, which is no other's before it is waited for."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
