"""SageMaker Processing jobs: our own benchmark, a process of this machine for each instance of the job.

The image is looked for in this cloud's ECR, but not run: what runs is this installation's program of the same name.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from loadproof.localcloud.clients import Clients
from loadproof.localcloud.controlplane.sagemaker.existing import check_network
from loadproof.localcloud.wire import AwsError, Caller, Params, known, tag_map
from loadproof.wire.documents import Document
from loadproof.wire.job import PROGRAM

log = logging.getLogger(__name__)
MODULE: Final = "loadproof.bench.remote.host"  # what stands behind the door that a job's image has
LOG_GROUP: Final = "/aws/sagemaker/ProcessingJobs"
_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(?P<repository>[^:@]+)"
    r"(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?\Z"
)
_IS_LOADED = re.compile("PYTHON|LD_|DYLD_")  # what would run other code than ours on this machine
_GRACE_S = 5.0  # AWS gives 120 s between SIGTERM and SIGKILL
_POLL_S = 0.1
_TAKEN = {
    "AppSpecification", "Environment", "NetworkConfig", "ProcessingJobName", "ProcessingResources", "RoleArn",
    "StoppingCondition", "Tags",
}  # fmt: skip
_OVER = ("Completed", "Failed", "Stopped")
_LOG_LINES = 1000


@dataclass(slots=True)
class Job:
    """One job. `status` moves on in the thread that follows its processes."""

    request: Params
    arn: str
    caller: Caller
    status: str = "InProgress"
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: datetime | None = None
    ended: datetime | None = None
    exit_message: str | None = None
    failure_reason: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        return str(self.request["ProcessingJobName"])

    @property
    def cluster(self) -> Document:
        """How many instances, of which type."""
        found: Document = self.request["ProcessingResources"]["ClusterConfig"]
        return found


class JobRunner:
    """Starts and follows jobs. `environment` is what points a process at this cloud; it is known once that listens."""

    def __init__(self, clients: Clients, roles: Callable[[str, str, str], str | None]) -> None:
        self._clients, self._roles = clients, roles
        self.environment: Mapping[str, str] = {}
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._threads: list[threading.Thread] = []

    def create(self, caller: Caller, request: Params) -> Job:
        why = self._roles(caller.account, request["RoleArn"], "sagemaker.amazonaws.com")
        if why:
            raise AwsError("ValidationException", f"Could not assume role {request['RoleArn']}: {why}.")
        check_network(caller, request.get("NetworkConfig", {}).get("VpcConfig", {}))
        tag_map(request.get("Tags"), "ValidationException")
        _refuse(request)
        arn = caller.arn("sagemaker", f"processing-job/{request['ProcessingJobName']}")
        with self._lock:
            if arn in self._jobs:
                raise AwsError("ResourceInUse", f"Job name must be unique within an AWS account and region: {arn}")
            job = self._jobs[arn] = Job(request, arn, caller)
        thread = threading.Thread(target=self._follow, args=(job,), name=f"job-{job.name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return job

    def find(self, caller: Caller, name: str) -> Job:
        with self._lock:
            job = self._jobs.get(caller.arn("sagemaker", f"processing-job/{name}"))
        if job is None:
            raise AwsError("ValidationException", f"Could not find requested job with name: {name}")
        return job

    def all(self, caller: Caller) -> list[Job]:
        with self._lock:
            return [job for job in self._jobs.values() if job.caller.account == caller.account]

    def close(self) -> None:
        """No process is left when this returns."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.stop.set()
        for thread in self._threads:
            thread.join(2 * _GRACE_S)

    def _follow(self, job: Job) -> None:
        try:
            missing = self._missing_image(job)
            if missing is not None:
                self._end(job, "Failed", failure_reason=missing)
                return
            with tempfile.TemporaryDirectory(prefix="loadproof-job-") as folder:
                self._run(job, Path(folder))
        except Exception as error:
            log.exception("processing job %s broke", job.name)
            self._end(job, "Failed", failure_reason=f"InternalServerError: {type(error).__name__}: {error}")

    def _missing_image(self, job: Job) -> str | None:
        """Why SageMaker could not pull the image."""
        image = str(job.request["AppSpecification"]["ImageUri"])
        match = _IMAGE.match(image)
        if match is None:
            return f"ClientError: {image} is no image in Amazon ECR"
        wanted = {"imageDigest": match["digest"]} if match["digest"] else {"imageTag": match["tag"] or "latest"}
        ecr = self._clients.client("ecr", Caller(match["account"], match["region"], job.caller.access_key))
        try:
            ecr.describe_images(registryId=match["account"], repositoryName=match["repository"], imageIds=[wanted])
        except Exception as error:
            return f"ClientError: Failed to pull image {image}: {error}"
        return None

    def _run(self, job: Job, folder: Path) -> None:
        instances = int(job.cluster["InstanceCount"])
        hosts = [f"algo-{number}" for number in range(1, instances + 1)]
        job.started = datetime.now(UTC)
        processes = {host: self._start(job, folder / host, host, hosts) for host in hosts}
        until_s = time.monotonic() + float(job.request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 86400))
        stopped = False
        while any(process.poll() is None for process in processes.values()):
            failed = any(process.poll() for process in processes.values())
            stopped = stopped or job.stop.is_set() or time.monotonic() > until_s
            if stopped or failed:  # one instance that fails ends the job
                _end_all(processes.values())
                break
            job.stop.wait(_POLL_S)
        self._keep_logs(job, folder, hosts)
        codes = [process.returncode for process in processes.values() if process.returncode]
        message = _message(folder, hosts)
        if stopped:
            self._end(job, "Stopped", exit_message=message)
        elif codes:
            reason = f"AlgorithmError: , exit code: {next((code for code in codes if code > 0), codes[0])}"
            self._end(job, "Failed", exit_message=message, failure_reason=reason)
        else:
            self._end(job, "Completed", exit_message=message)

    def _start(self, job: Job, folder: Path, host: str, hosts: list[str]) -> subprocess.Popen[bytes]:
        (folder / "config").mkdir(parents=True)
        (folder / "config" / "resourceconfig.json").write_text(json.dumps({"current_host": host, "hosts": hosts}))
        specification = job.request["AppSpecification"]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            **{name: value for name, value in job.request.get("Environment", {}).items() if not _IS_LOADED.match(name)},
            **self.environment,
            "AWS_REGION": job.caller.region,
            "AWS_DEFAULT_REGION": job.caller.region,
            "LOADPROOF_ML_FOLDER": str(folder),
        }
        with (folder / "log").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", MODULE, *specification.get("ContainerArguments", [])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    def _keep_logs(self, job: Job, folder: Path, hosts: list[str]) -> None:
        """In CloudWatch Logs, where SageMaker puts them."""
        logs = self._clients.client("logs", job.caller)
        for host in hosts:
            lines = (folder / host / "log").read_text("utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            stream = f"{job.name}/{host}-{int(time.time())}"
            for make, names in (("create_log_group", {}), ("create_log_stream", {"logStreamName": stream})):
                with suppress(logs.exceptions.ResourceAlreadyExistsException):
                    getattr(logs, make)(logGroupName=LOG_GROUP, **names)
            now_ms = int(time.time() * 1000)
            events = [{"timestamp": now_ms, "message": line} for line in lines if line]
            if events:
                logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)

    def _end(self, job: Job, status: str, **more: str | None) -> None:
        for name, value in more.items():
            setattr(job, name, value)
        job.ended, job.status = datetime.now(UTC), status
        log.info("processing job %s is %s %s", job.name, status, job.failure_reason or "")


class ProcessingOperations:
    """Of SageMaker's API; `processing` is set by the control plane."""

    processing: JobRunner

    def CreateProcessingJob(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        return {"ProcessingJobArn": self.processing.create(caller, params).arn}

    def DescribeProcessingJob(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        return _described(self.processing.find(caller, params["ProcessingJobName"]))

    def StopProcessingJob(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        job = self.processing.find(caller, params["ProcessingJobName"])
        if job.status in _OVER:
            raise AwsError("ValidationException", f"The request was rejected because the job is in status {job.status}")
        job.stop.set()
        return {}

    def ListProcessingJobs(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        rows = [
            {
                "ProcessingJobName": job.name,
                "ProcessingJobArn": job.arn,
                "CreationTime": job.created,
                "ProcessingJobStatus": job.status,
            }
            for job in self.processing.all(caller)
            if params.get("NameContains", "") in job.name
        ]
        return {"ProcessingJobSummaries": sorted(rows, key=lambda row: row["CreationTime"], reverse=True)}


def _described(job: Job) -> Params:
    return known(
        **{name: job.request[name] for name in _TAKEN - {"Tags"} if name in job.request},
        ProcessingJobArn=job.arn,
        ProcessingJobStatus="Stopping" if job.stop.is_set() and job.status == "InProgress" else job.status,
        CreationTime=job.created,
        ProcessingStartTime=job.started,
        ProcessingEndTime=job.ended,
        ExitMessage=job.exit_message,
        FailureReason=job.failure_reason,
    )


def _refuse(request: Params) -> None:
    unknown = sorted(request.keys() - _TAKEN)
    if unknown:
        raise AwsError("UnsupportedOperation", f"The local cloud does not provide {', '.join(unknown)} of jobs.")
    entry = tuple(request["AppSpecification"].get("ContainerEntrypoint", ()))
    if entry != PROGRAM:
        shown = " ".join(entry) or "the image's own"
        raise AwsError("UnsupportedOperation", f"The local cloud runs {' '.join(PROGRAM)} only, found {shown}.")


def _message(folder: Path, hosts: list[str]) -> str | None:
    """What the first host that left one had to say."""
    for host in hosts:
        file = folder / host / "output" / "message"
        if file.is_file():
            return file.read_text("utf-8", errors="replace")[:1024]
    return None


def _end_all(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Each with its children: SIGTERM, and SIGKILL for who is left."""
    living = [process for process in processes if process.poll() is None]
    for process in living:
        os.killpg(process.pid, signal.SIGTERM)
    until_s = time.monotonic() + _GRACE_S
    for process in living:
        try:
            process.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
