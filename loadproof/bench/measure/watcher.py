"""What AWS says of the target under load: `python -m loadproof.bench.measure.watcher RUN_DIR` writes observed.jsonl.

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
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import IO, TypeVar

import orjson

from loadproof.bench.connect import DEFAULT_REGION, service_url
from loadproof.bench.measure.observer import FILE_NAME, POLL_S, SCHEMA_VERSION, Row
from loadproof.bench.plan import RunPlan, read_plan
from loadproof.bench.spec import Target
from loadproof.errors import CouldNotRunError
from loadproof.invocation.aws_errors import BotoCoreError, ClientError
from loadproof.invocation.credentials import is_loopback
from loadproof.invocation.endpoints import Answer, Client, aws_client

LEAST_POLL_S = 0.25
SPEED_HEADER = "x-loadproof-clock-speed"  # of a local cloud whose clock runs faster than the wall's
LOWEST_PRIORITY = 19
METRICS = (
    ("Invocations", "Sum"),
    ("ModelLatency", "Average"),
    ("ConcurrentRequestsPerCopy", "Maximum"),
    ("NoCapacityInvocationFailures", "Sum"),
)
PERIOD_S = 60
Note = Callable[[Row], None]
T = TypeVar("T")


class Watcher:
    """Asks about one component and notes the answers. `clients(service)` gives a boto3 client, `clock_ns` wall time."""

    def __init__(
        self, plan: RunPlan, clients: Callable[[str], Client], note: Note, clock_ns: Callable[[], int] = time.time_ns
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
        deployed = container.get("DeployedImage", {})
        arn, config, kinds = self._asked("instance type", self._configuration) or (None, None, None)
        resolved = {
            "image_digest": deployed.get("ResolvedImage"),
            "endpoint_config": config,
            "endpoint_arn": arn,
        }
        self._say(
            "deployed",
            image=deployed.get("SpecifiedImage") or container.get("Image"),
            instance_type=kinds,
            clock_speed=self._clock_speed,
            poll_s=self.poll_s,
            **{name: value for name, value in resolved.items() if value is not None},
        )

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

    def _component(self) -> Answer:
        client = self._clients("sagemaker")
        found: Answer = client.describe_inference_component(InferenceComponentName=self._target.component)
        headers = found.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self._clock_speed = float(headers.get(SPEED_HEADER, 1.0))
        return found

    def _configuration(self) -> tuple[str | None, str, str | None]:
        """The endpoint's ARN, its configuration's name, and the instance types in that."""
        client = self._clients("sagemaker")
        endpoint = client.describe_endpoint(EndpointName=self._target.endpoint)
        config = client.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
        kinds = {variant.get("InstanceType") for variant in config["ProductionVariants"]} - {None}
        return endpoint.get("EndpointArn"), endpoint["EndpointConfigName"], ", ".join(sorted(kinds)) or None

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

    def _asked(self, what: str, ask: Callable[[], T]) -> T | None:
        """The answer; None, and a line the first time, where there is none."""
        try:
            return ask()
        except (BotoCoreError, ClientError, CouldNotRunError, KeyError) as error:
            if what not in self._refused:
                self._refused.add(what)
                self._say("problem", what=what, message=str(error)[:300])
            return None

    def _since_zero(self, at: datetime) -> int:
        return int(at.timestamp() * 1e9) - self._zero_ns

    def _say(self, kind: str, **values: object) -> None:
        at_ns = self._clock_ns() - self._zero_ns
        self._note({"schema_version": SCHEMA_VERSION, "kind": kind, "at_ns": at_ns, **values})


def clients_of(target: Target) -> Callable[[str], Client]:
    """Clients of the target's region, at the target's own URL where that is a local cloud's; one try each."""
    region, url = target.region or DEFAULT_REGION, target.endpoint_url
    local = url if url and is_loopback(url) else None

    @cache
    def client(service: str) -> Client:
        found = local or service_url(service.upper().replace("-", "_"))
        return aws_client(service, region, found, connect_timeout_s=3, read_timeout_s=5)

    return client


def main(folder: Path) -> None:
    """Observe until stdin closes; says `ready` once the first state is noted."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    plan = read_plan(folder)
    with (folder / FILE_NAME).open("ab", buffering=0) as file:
        watcher = Watcher(plan, clients_of(plan.spec.target), _writer(file))
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
