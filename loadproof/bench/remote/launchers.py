"""Where the hosts of a run are started: on this machine, or as a SageMaker Processing job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from loadproof.bench.s3_store import ask
from loadproof.errors import InputError
from loadproof.invocation.endpoints import Answer, Client
from loadproof.wire.job import PROGRAM

HOST_PROGRAM = "loadproof.bench.remote.host"  # what the door of a job's image leads to
GRACE_S = 5.0
STATUS_INTERVAL_S = 15.0
MOST_RUNTIME_S = 24 * 3600
_OVER = ("Completed", "Failed", "Stopped")


def host_names(count: int) -> tuple[str, ...]:
    """As SageMaker Processing names the instances of a job."""
    return tuple(f"algo-{number}" for number in range(1, count + 1))


@dataclass(slots=True)
class LocalHosts:
    """Each host a group of processes on this machine: a rehearsal of the job, with its own list of hosts."""

    hosts: tuple[str, ...]
    program: tuple[str, ...] = (sys.executable, "-m", HOST_PROGRAM)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self, run_uri: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="loadproof-hosts-")
        for name in self.hosts:
            resources = Path(self._folder.name) / f"{name}.json"
            resources.write_bytes(orjson.dumps({"current_host": name, "hosts": self.hosts}))
            command = [*self.program, run_uri, "--resources", str(resources)]
            # A group of its own: Ctrl-C is for the one who follows the run, who then stops it in order.
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)

    def ended(self) -> str | None:
        """Once the leader is gone, whoever is left only waits for it."""
        code = self.processes[self.hosts[0]].poll()
        return None if code is None else f"the leader, {self.hosts[0]}, ended with exit code {code}"

    def close(self, done: bool) -> None:
        """No process is left when this returns."""
        until_s = time.monotonic() + GRACE_S
        for process in self.processes.values():
            try:
                process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self._folder is not None:
            self._folder.cleanup()


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What a Processing job needs beside the run. `image` holds this program (docs/benchmark-remote.md)."""

    name: str
    role_arn: str
    image: str
    instance_type: str
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    most_runtime_s: int = MOST_RUNTIME_S


def processing_job_request(settings: JobSettings, hosts: int, run_uri: str, region: str | None) -> dict[str, object]:
    """The CreateProcessingJob request of a run. Raises InputError for half a network."""
    if bool(settings.subnets) != bool(settings.security_groups):
        raise InputError("--job-subnet and --job-security-group go together: give both, or neither")
    network = {"VpcConfig": {"SecurityGroupIds": [*settings.security_groups], "Subnets": [*settings.subnets]}}
    return {
        "ProcessingJobName": settings.name,
        "RoleArn": settings.role_arn,
        "AppSpecification": {
            "ImageUri": settings.image,
            "ContainerEntrypoint": [*PROGRAM],
            "ContainerArguments": [run_uri],
        },
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceCount": hosts,
                "InstanceType": settings.instance_type,
                "VolumeSizeInGB": 30,
            }
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": settings.most_runtime_s},
        "Environment": {"AWS_REGION": region} if region else {},
        **({"NetworkConfig": network} if settings.subnets else {}),
    }


@dataclass(slots=True)
class ProcessingJob:
    """A SageMaker Processing job of as many instances as there are hosts. `client` is boto3's for SageMaker."""

    settings: JobSettings
    hosts: tuple[str, ...]
    client: Client
    region: str | None = None
    _looked_s: float = float("-inf")
    _over: str | None = None

    def start(self, run_uri: str) -> None:
        self._ask(
            "create_processing_job", **processing_job_request(self.settings, len(self.hosts), run_uri, self.region)
        )

    def ended(self) -> str | None:
        if self._over is None and time.monotonic() - self._looked_s > STATUS_INTERVAL_S:
            self._looked_s = time.monotonic()
            answer = self._ask("describe_processing_job", ProcessingJobName=self.settings.name)
            status = answer["ProcessingJobStatus"]
            if status in _OVER:
                why = answer.get("FailureReason") or answer.get("ExitMessage")
                self._over = f"the processing job {self.settings.name} is {status}" + (f": {why}" if why else "")
        return self._over

    def close(self, done: bool) -> None:
        """A job whose leader is not done is stopped: nobody follows it any more. Else it ends by itself."""
        if not done and self._over is None and self.ended() is None:
            self._ask("stop_processing_job", ProcessingJobName=self.settings.name)

    def _ask(self, operation: str, **request: object) -> Answer:
        return ask("SageMaker Processing", self.client, operation, **request)
