"""What AWS says of the target under load: `python -m loadproof.bench.measure.observer RUN_DIR` writes observed.jsonl.

A process of its own at the lowest priority, so that no answer of the control plane is read between two tokens. It polls
the component's copies every POLL_S (more often where a local cloud's clock runs faster), and when its stdin closes it
notes the last state, the scaling activities and CloudWatch's metrics of the run, and ends. What may not be read is a
line saying so, never a failed run. Lines, all with `at_ns` since the run's zero:

    {"kind": "deployed", "image": "...", "instance_type": "...", "clock_speed": 1.0, "poll_s": 2.0}
    {"kind": "copies", "current": 1, "desired": 2, "status": "Updating"}          first, last, and at every change
    {"kind": "activity", "id": "...", "start_ns": 0, "end_ns": 1, "status": "Successful", "description": "..."}
    {"kind": "metric", "name": "ConcurrentRequestsPerCopy", "statistic": "Maximum", "period_s": 60, "value": 3.0}
    {"kind": "problem", "what": "scaling activities", "message": "..."}
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import orjson

from loadproof.bench.connect import DEFAULT_REGION, service_url
from loadproof.bench.plan import RunPlan, read_plan
from loadproof.bench.spec import Target
from loadproof.invocation.credentials import boto3_keys, is_loopback

SCHEMA_VERSION = 1
FILE_NAME = "observed.jsonl"
POLL_S = 2.0
LEAST_POLL_S = 0.25
SPEED_HEADER = "x-loadproof-clock-speed"  # of a local cloud whose clock runs faster than the wall's
READY_WITHIN_S = 15.0  # imports and the first answers; the load waits that long for its observer, then goes ahead
LAST_WORDS_WITHIN_S = 1.5  # also of a run that was interrupted, which ends in 3 s
LOWEST_PRIORITY = 19
METRICS = (
    ("Invocations", "Sum"),
    ("ModelLatency", "Average"),
    ("ConcurrentRequestsPerCopy", "Maximum"),
    ("NoCapacityInvocationFailures", "Sum"),
)
PERIOD_S = 60
Row = Mapping[str, Any]  # a line of observed.jsonl: by its kind, and what older versions wrote
Note = Callable[[Row], None]


@contextmanager
def observing(folder: Path, target: Target) -> Iterator[Callable[[], None]]:
    """Observe the run in `folder` while the block runs; nothing for a target that has no copies.

    Yields what asks for the last words already, for a run that is being stopped and will end soon.
    """
    if target.kind != "sagemaker" or target.component is None:
        yield lambda: None
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "loadproof.bench.measure.observer", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the run, which then ends its observer in order
    )
    stdin, stdout, asked_s = process.stdin, process.stdout, None
    assert stdin is not None
    assert stdout is not None

    def ask() -> None:
        nonlocal asked_s
        asked_s = asked_s or time.monotonic()
        stdin.close()

    try:
        select.select([stdout], [], [], READY_WITHIN_S)
        yield ask
    finally:
        ask()
        assert asked_s is not None
        try:
            process.wait(max(0.0, asked_s + LAST_WORDS_WITHIN_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        stdout.close()


class Watcher:
    """Asks about one component and notes the answers. `clients(service)` gives a boto3 client, `clock_ns` wall time."""

    def __init__(
        self, plan: RunPlan, clients: Callable[[str], Any], note: Note, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._target, self._zero_ns = plan.spec.target, plan.zero_unix_ns
        self._clients, self._note, self._clock_ns = clients, note, clock_ns
        self._began_ns = clock_ns()
        self._last: tuple[int, int, str] | None = None
        self._refused: set[str] = set()
        self._clock_speed = 1.0

    @property
    def poll_s(self) -> float:
        """Seconds between two looks at the copies."""
        return max(LEAST_POLL_S, POLL_S / self._clock_speed)

    def deployed(self) -> None:
        """Note what runs: image and instance type, as far as they may be read."""
        found = self._asked("component", self._component)
        if found is None:
            return
        container = found.get("Specification", {}).get("Container", {})
        image = container.get("DeployedImage", {}).get("SpecifiedImage") or container.get("Image")
        kinds = self._asked("instance type", self._instance_type)
        self._say("deployed", image=image, instance_type=kinds, clock_speed=self._clock_speed, poll_s=self.poll_s)

    def copies(self, *, always: bool = False) -> None:
        """Note the copies where they changed since the last time."""
        found = self._asked("copies", self._component)
        if found is None:
            return
        runtime = found.get("RuntimeConfig", {})
        current = int(runtime.get("CurrentCopyCount", 0))
        now = current, int(runtime.get("DesiredCopyCount", current)), str(found["InferenceComponentStatus"])
        if always or now != self._last:
            self._last = now
            self._say("copies", current=now[0], desired=now[1], status=now[2])

    def last_words(self) -> None:
        """Copies once more, then what scaling did and CloudWatch counted since this watcher began."""
        self.copies(always=True)
        for activity in self._asked("scaling activities", self._activities) or ():
            self._say("activity", **activity)
        for metric in self._asked("CloudWatch metrics", self._metrics) or ():
            self._say("metric", **metric)

    def _component(self) -> Any:
        client = self._clients("sagemaker")
        found = client.describe_inference_component(InferenceComponentName=self._target.component)
        headers = found.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self._clock_speed = float(headers.get(SPEED_HEADER, 1.0))
        return found

    def _instance_type(self) -> str | None:
        client = self._clients("sagemaker")
        endpoint = client.describe_endpoint(EndpointName=self._target.endpoint)
        config = client.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
        kinds = {variant.get("InstanceType") for variant in config["ProductionVariants"]} - {None}
        return ", ".join(sorted(kinds)) or None

    def _activities(self) -> list[Row]:
        answer = self._clients("application-autoscaling").describe_scaling_activities(
            ServiceNamespace="sagemaker", ResourceId=f"inference-component/{self._target.component}"
        )
        rows = [
            {
                "id": row["ActivityId"],
                "start_ns": self._since_zero(row["StartTime"]),
                "end_ns": self._since_zero(row["EndTime"]) if row.get("EndTime") else None,
                "status": row["StatusCode"],
                "description": row["Description"],
                "cause": row.get("Cause"),
            }
            for row in answer["ScalingActivities"]
        ]
        return [row for row in rows if row["start_ns"] >= self._began_ns - self._zero_ns]

    def _metrics(self) -> list[Row]:
        dimensions = [{"Name": "InferenceComponentName", "Value": self._target.component}]
        queries = [
            {
                "Id": f"m{index}",
                "MetricStat": {
                    "Metric": {"Namespace": "AWS/SageMaker", "MetricName": name, "Dimensions": dimensions},
                    "Period": PERIOD_S,
                    "Stat": statistic,
                },
            }
            for index, (name, statistic) in enumerate(METRICS)
        ]
        began = datetime.fromtimestamp(self._began_ns // 10**9 // PERIOD_S * PERIOD_S, UTC)
        now = datetime.fromtimestamp(self._clock_ns() / 1e9, UTC) + timedelta(seconds=PERIOD_S)
        answer = self._clients("cloudwatch").get_metric_data(MetricDataQueries=queries, StartTime=began, EndTime=now)
        return [
            {
                "name": METRICS[int(found["Id"][1:])][0],
                "statistic": METRICS[int(found["Id"][1:])][1],
                "period_s": PERIOD_S,
                "start_ns": self._since_zero(at),
                "value": float(value),
            }
            for found in answer["MetricDataResults"]
            for at, value in sorted(zip(found["Timestamps"], found["Values"], strict=True))
        ]

    def _asked(self, what: str, ask: Callable[[], Any]) -> Any:
        """The answer; None, and a line the first time, where there is none."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  a sender comes up without botocore

        try:
            return ask()
        except (BotoCoreError, ClientError, KeyError) as error:
            if what not in self._refused:
                self._refused.add(what)
                self._say("problem", what=what, message=str(error)[:300])
            return None

    def _since_zero(self, at: datetime) -> int:
        return int(at.timestamp() * 1e9) - self._zero_ns

    def _say(self, kind: str, **values: Any) -> None:
        at_ns = self._clock_ns() - self._zero_ns
        self._note({"schema_version": SCHEMA_VERSION, "kind": kind, "at_ns": at_ns, **values})


def boto3_clients(target: Target) -> Callable[[str], Any]:
    """Clients of the target's region, at the target's own URL where that is a local cloud's; one try each."""
    import boto3  # noqa: PLC0415  a sender comes up without botocore
    from botocore.config import Config  # noqa: PLC0415  a sender comes up without botocore

    session = boto3.Session(region_name=target.region or DEFAULT_REGION)
    local = target.endpoint_url if target.endpoint_url and is_loopback(target.endpoint_url) else None
    keys = boto3_keys(local, session)
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=5)
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            url = local or service_url(service.upper().replace("-", "_"))
            made[service] = session.client(service, endpoint_url=url, config=config, **keys)
        return made[service]

    return client


def main(folder: Path) -> None:
    """Observe until stdin closes; says `ready` once the first state is noted."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    plan = read_plan(folder)
    with (folder / FILE_NAME).open("ab", buffering=0) as file:
        watcher = Watcher(plan, boto3_clients(plan.spec.target), _writer(file))
        watcher.deployed()
        watcher.copies(always=True)
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], watcher.poll_s)[0]:
            watcher.copies()
        watcher.last_words()


def _writer(file: IO[bytes]) -> Note:
    def note(row: Row) -> None:
        file.write(orjson.dumps(row) + b"\n")

    return note


if __name__ == "__main__":
    main(Path(sys.argv[1]))
