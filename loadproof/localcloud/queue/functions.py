"""Functions as deployed: read from moto's Lambda, unpacked once, run by a pool of worker processes."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from moto.awslambda.models import LambdaFunction

from loadproof.localcloud.queue import packages, worker
from loadproof.localcloud.queue.output import Heard, follow
from loadproof.localcloud.scratch import scratch_folder
from loadproof.localcloud.seal.calls import CALLER
from loadproof.walls import sandbox
from loadproof.wire.documents import Document, Json

log = logging.getLogger(__name__)

# Lambda bounds the load of the handler's module apart from its time-out, and tries again within that.
_LOADING_S = 10.0
_ENDING_S = 5.0  # for a keeper to end all of them


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function's code and configuration. A change of any of these needs new workers."""

    name: str
    arn: str
    handler: str
    code_sha256: str
    environment: tuple[tuple[str, str], ...]
    timeout_s: float
    memory_mib: int
    layer_arns: tuple[str, ...]
    region: str


@dataclass(frozen=True, slots=True)
class Result:
    """What one invocation came to. `error` is Lambda's error document, None when the handler returned."""

    value: Json
    error: Document | None


Ran = Callable[[str, bool, float], None]  # (function name, whether it failed, seconds)


def spec_of(function: LambdaFunction) -> FunctionSpec:
    """From moto's LambdaFunction."""
    return FunctionSpec(
        name=function.function_name,
        arn=function.function_arn,
        handler=function.handler or "",
        code_sha256=function.code_sha_256,
        environment=tuple(sorted((function.environment_vars or {}).items())),
        timeout_s=float(function.timeout),
        memory_mib=int(function.memory_size),
        layer_arns=tuple(layer["Arn"] for layer in function.layers),
        region=function.region,
    )


class Worker:
    """One execution environment; one event at a time."""

    def __init__(
        self, spec: FunctionSpec, search_path: list[str], environment: Mapping[str, str], heard: Heard, tmp: Path
    ) -> None:
        """`tmp` is the worker's own folder: its home and its `/tmp`, gone with it."""
        self._spec = spec
        self._loaded = False
        self._heard_so_far = b""
        self._tmp = tmp
        tmp.mkdir(parents=True, mode=0o700)
        confinement = sandbox.Confinement(tmp, tuple(map(Path, search_path)), spec.memory_mib)
        self._process = subprocess.Popen(
            sandbox.command(confinement, [worker.__file__, spec.handler, *search_path]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=search_path[0],
            env={**environment, **sandbox.environment(confinement)},
            start_new_session=True,
        )
        assert self._process.stderr is not None
        follow(self._process.stderr, heard)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def invoke(self, event: Json) -> Result:
        """Run one event; a time-out or a crash kills the worker and is an error result."""
        request_id = str(uuid.uuid4())
        call = {
            "event": event,
            "request_id": request_id,
            "function_arn": self._spec.arn,
            "timeout_s": self._spec.timeout_s,
        }
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(call).encode() + b"\n")
            self._process.stdin.flush()
            if not self._loaded:
                self._loaded = self._read_line(_LOADING_S + self._spec.timeout_s) == b"\n"
            line = self._read_line(self._spec.timeout_s) if self._loaded else b""
        except TimeoutError:
            self.kill()
            message = f"{request_id} Task timed out after {self._spec.timeout_s:.2f} seconds"
            return Result(None, {"errorMessage": message, "errorType": "Sandbox.Timedout"})
        except OSError as error:
            line = b""
            log.warning("worker of %s: %s", self._spec.name, error)
        if not line:
            message = f"RequestId: {request_id} Error: Runtime exited with error: {self._ended()}"
            self.kill()
            return Result(None, {"errorMessage": message, "errorType": "Runtime.ExitError"})
        reply = json.loads(line)
        return Result(reply.get("result"), reply.get("error"))

    def _ended(self) -> str:
        """How it did, as Lambda words it: its memory's end is a signal, too."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        code = self._process.returncode
        if code is not None and code >= 0:
            return f"exit status {code}"
        return f"signal: {(signal.strsignal(-(code or -signal.SIGKILL)) or 'unknown').lower()}"

    def kill(self) -> None:
        """The worker and what it started, which is its keeper's to end: see `walls.keeper`."""
        family = _family(self._process.pid)
        if sys.platform == "linux":
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_S)
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for one in family:  # a keeper that was stopped, or none
            with contextlib.suppress(psutil.Error):
                one.kill()
        self._process.wait()
        shutil.rmtree(self._tmp, ignore_errors=True)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read_line(self, allowed_s: float) -> bytes:
        """One line; empty when the worker died. Raises TimeoutError."""
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + allowed_s
        parts = [self._heard_so_far]
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in parts[-1]:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    raise TimeoutError
                parts.append(os.read(self._process.stdout.fileno(), 1 << 20))
                if not parts[-1]:
                    return b""
        line, end, self._heard_so_far = b"".join(parts).partition(b"\n")
        return line + end


class Functions:
    """Runs functions. Workers are kept between events, as many as run at once. Thread-safe."""

    def __init__(
        self,
        cloud_environment: Mapping[str, str],
        ran: Ran = lambda name, failed, seconds: None,
        heard: Heard = lambda line: None,
    ) -> None:
        """`cloud_environment`: what lets code inside reach the local cloud (endpoint, keys), for every function.

        `ran` is told of every invocation that ended, `heard` of every line that a function printed.
        """
        self._ran = ran
        self._heard = heard
        self._cloud_environment = dict(cloud_environment)
        self._folder = scratch_folder("functions")
        self._lock = threading.Lock()
        self._idle: dict[FunctionSpec, list[Worker]] = {}
        self._busy: set[Worker] = set()
        self._closed = False

    def invoke(self, function: LambdaFunction, event: Json) -> Result:
        """Run one event in an idle worker of moto's `function`, or in a new one."""
        spec, begun_s = spec_of(function), time.monotonic()
        result = self._result(spec, function, event)
        self._ran(spec.name, result.error is not None, time.monotonic() - begun_s)
        return result

    def _result(self, spec: FunctionSpec, function: LambdaFunction, event: Json) -> Result:
        try:
            runner = self._take(spec, function)
        except (packages.UnknownLayerError, zipfile.BadZipFile, OSError) as error:
            log.error("function %s cannot start: %s", spec.name, error)
            return Result(None, {"errorMessage": str(error), "errorType": "Runtime.InitError"})
        try:
            return runner.invoke(event)
        finally:
            self._give_back(spec, runner)

    def close(self) -> None:
        """Kill every worker and remove what was unpacked."""
        with self._lock:
            self._closed = True
            workers = [*self._busy, *(idle for group in self._idle.values() for idle in group)]
            self._idle.clear()
        for runner in workers:
            runner.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, spec: FunctionSpec, function: LambdaFunction) -> Worker:
        with self._lock:
            if self._closed:
                raise OSError("the local cloud is stopping")
            self._retire_older(spec)
            idle = self._idle.setdefault(spec, [])
            runner = idle.pop() if idle else self._new_worker(spec, function)
            self._busy.add(runner)
            return runner

    def _give_back(self, spec: FunctionSpec, runner: Worker) -> None:
        with self._lock:
            self._busy.discard(runner)
            keep = runner.alive and not self._closed and spec in self._idle
            if keep:
                self._idle[spec].append(runner)
        if not keep and runner.alive:
            runner.kill()

    def _retire_older(self, spec: FunctionSpec) -> None:
        """A new deployment of the function: idle workers of the old one end, busy ones end when given back."""
        for other in [known for known in self._idle if known.arn == spec.arn and known != spec]:
            for runner in self._idle.pop(other):
                runner.kill()

    def _new_worker(self, spec: FunctionSpec, function: LambdaFunction) -> Worker:
        search_path = self._search_path(spec, function)
        environment = self._environment(spec) | {"LAMBDA_TASK_ROOT": search_path[0]}
        return Worker(spec, search_path, environment, self._heard, self._folder / "tmp" / uuid.uuid4().hex)

    def _search_path(self, spec: FunctionSpec, function: LambdaFunction) -> list[str]:
        code = self._folder / f"{spec.name}-{uuid.uuid5(uuid.NAMESPACE_URL, spec.code_sha256)}"
        if not code.exists():
            _unpack(function.code_bytes, code)
        runtime = self._folder / "runtime"
        packages.link_packages(runtime, packages.RUNTIME_PACKAGES)
        return [str(code), *(str(self._layer(arn)) for arn in spec.layer_arns), str(runtime)]

    def _layer(self, arn: str) -> Path:
        folder = self._folder / "layers" / str(uuid.uuid5(uuid.NAMESPACE_URL, arn))
        packages.link_packages(folder, packages.layer_packages(arn))
        return folder

    def _environment(self, spec: FunctionSpec) -> dict[str, str]:
        return {
            "TZ": ":UTC",
            **dict(spec.environment),
            **self._cloud_environment,
            "AWS_REGION": spec.region,
            "AWS_DEFAULT_REGION": spec.region,
            "AWS_LAMBDA_FUNCTION_NAME": spec.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mib),
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{spec.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": f"local/[$LATEST]{uuid.uuid4().hex}",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": "AWS_Lambda_python",
            CALLER: spec.name[:50],  # SDKs warn of longer ones
            "_HANDLER": spec.handler,
        }


def _family(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def _unpack(code: bytes, folder: Path) -> None:
    """Unpack beside the place and move it there, so that a half-unpacked folder is never run."""
    partial = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        archive.extractall(partial)
    partial.rename(folder)
