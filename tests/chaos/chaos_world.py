"""A world to break: queue, stores, a scripted model and real consumers, each in processes of their own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import boto3
from botocore.config import Config

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNTIME = ROOT / "loadproof" / "constructs" / "buffer" / "runtime"
_ARN = "arn:aws:sqs:us-east-1:123456789012:"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Setting:
    """How a world is built. Times in seconds."""

    processes: int = 4
    batch_size: int = 4
    lease_s: float = 3.0
    function_s: float = 60.0
    visibility_s: int = 360  # as Lambda asks: far longer than the lease, so that only the lease brings a message back
    invocation_timeout_s: float = 20.0
    idle_timeout_s: float = 5.0
    max_receive_count: int = 5
    max_attempts: int = 8
    drain_s: float = 5.0
    context_tokens: int = 0
    seed: int = 0
    runtime: Path = RUNTIME  # the consumer's code: another folder holds a mutant


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the queue (`sqs`) and the other stores (`aws`) answer."""

    sqs: str
    aws: str


class World:
    """All of it while it runs. Names are its own, so that worlds may share their stores."""

    def __init__(self, setting: Setting, stores: Stores, model_url: str, log: Path) -> None:
        self.setting = setting
        self.stores = stores
        self.model_url = model_url
        self.log = log
        self.ends: list[dict[str, Any]] = []
        self.name = f"chaos-{os.getpid()}-{next(_numbers)}"
        self.sqs, self.s3 = _client("sqs", stores.sqs), _client("s3", stores.aws)
        self.dynamodb = _client("dynamodb", stores.aws)
        self.dead_url = self.sqs.create_queue(QueueName=f"{self.name}-dead")["QueueUrl"]
        self.queue_url = self._queue()
        self.s3.create_bucket(Bucket=self.name)
        # Each version of a result is one write of it: the account counts them.
        self.s3.put_bucket_versioning(Bucket=self.name, VersioningConfiguration={"Status": "Enabled"})
        self.dynamodb.create_table(
            TableName=self.name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )
        self._consumers: subprocess.Popen[str] | None = None

    def script(self, **behaviour: object) -> None:
        """Change what the model does."""
        request = urllib.request.Request(f"{self.model_url}/script", json.dumps(behaviour).encode())
        urllib.request.urlopen(request, timeout=30).read()

    def send(self, keys: list[str]) -> None:
        """One message a key, its request naming the key."""
        for start in range(0, len(keys), 10):
            entries = [
                {"Id": str(at), "MessageBody": json.dumps({"request": {"inputs": key}, "key": key})}
                for at, key in enumerate(keys[start : start + 10])
            ]
            failed = self.sqs.send_message_batch(QueueUrl=self.queue_url, Entries=entries).get("Failed")
            assert not failed, failed

    def send_body(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=body)

    def start_consumers(self, *, model_url: str | None = None, s3_url: str | None = None) -> None:
        """Real processes of the real handler. A URL given here leads through a proxy."""
        variables = {
            **os.environ,
            **_variables(self),
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": model_url or self.model_url,
            "AWS_ENDPOINT_URL_S3": s3_url or self.stores.aws,
        }
        setting = self.setting
        self._consumers = subprocess.Popen(
            [sys.executable, str(HERE / "chaos_consumer.py"), str(setting.processes), str(setting.batch_size)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def signal(self, word: str, count: int = 1) -> None:
        """`kill` or `term` so many processes, and go on when they have ended."""
        stdin, stdout = self._pipes()
        stdin.write(f"{word} {count}\n")
        stdin.flush()
        for _ in range(count):
            self.ends.append(json.loads(stdout.readline()))

    def stop_consumers(self) -> None:
        if self._consumers is not None:
            stdin, stdout = self._pipes()
            stdin.close()
            self.ends += [json.loads(line) for line in stdout]  # who died without being told to
            self._consumers.wait(30)
            self._consumers = None

    def wait_until(self, seen: str, count: int, within_s: float = 60.0) -> None:
        """So many events of a kind in the model's log. Raises TimeoutError."""
        deadline_s = time.monotonic() + within_s
        while sum(event["at"] == seen for event in self.events()) < count:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not {count} times {seen} after {within_s} s")
            time.sleep(0.05)

    def wait_until_empty(self, within_s: float) -> None:
        """Nothing waits, nothing is hidden, nothing is delayed. Raises TimeoutError with the counts."""
        deadline_s = time.monotonic() + within_s
        while self.left() > 0:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.left()} messages left after {within_s} s")
            time.sleep(0.1)

    def left(self) -> int:
        """Messages waiting, hidden or delayed."""
        return _count(self.sqs, self.queue_url)

    def waiting(self) -> int:
        """Messages that a consumer could have at once."""
        return _count(self.sqs, self.queue_url, "")

    def dead(self) -> list[dict[str, Any]]:
        """Every dead letter. They stay where they are, hidden for a second."""
        found: dict[str, dict[str, Any]] = {}
        while len(found) < _count(self.sqs, self.dead_url):
            answer = self.sqs.receive_message(
                QueueUrl=self.dead_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], VisibilityTimeout=1
            )
            found |= {letter["MessageId"]: letter for letter in answer.get("Messages", [])}
        return list(found.values())

    def events(self) -> list[dict[str, Any]]:
        """What the model saw, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._consumers is not None
        assert self._consumers.stdin is not None
        assert self._consumers.stdout is not None
        return self._consumers.stdin, self._consumers.stdout

    def _queue(self) -> str:
        setting = self.setting
        redrive = {"deadLetterTargetArn": f"{_ARN}{self.name}-dead", "maxReceiveCount": setting.max_receive_count}
        attributes = {"RedrivePolicy": json.dumps(redrive), "VisibilityTimeout": str(setting.visibility_s)}
        return str(self.sqs.create_queue(QueueName=self.name, Attributes=attributes)["QueueUrl"])


@contextmanager
def stores() -> Iterator[Stores]:
    """Queue and stores in a process of their own."""
    with _process("chaos_stores.py") as process:
        yield Stores(**json.loads(process.stdout.readline()))  # type: ignore[union-attr]


@contextmanager
def world(where: Stores, log: Path, setting: Setting, **behaviour: object) -> Iterator[World]:
    """A model and its world; consumers start when they are told to. All of it ends with the block."""
    log.touch()
    with ExitStack() as stack:
        model = stack.enter_context(_process("chaos_model.py", str(log)))
        made = World(setting, where, f"http://127.0.0.1:{int(model.stdout.readline())}", log)  # type: ignore[union-attr]
        stack.callback(made.stop_consumers)
        if behaviour:
            made.script(**behaviour)
        yield made


def _variables(made: World) -> dict[str, str]:
    """As loadproof/constructs/buffer/consumer.py writes them, and where this machine's services are."""
    setting = made.setting
    return {
        "PYTHONPATH": os.pathsep.join([str(setting.runtime), str(ROOT)]),
        "AWS_ACCESS_KEY_ID": "AKIACHAOS",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "localhost,127.0.0.1",
        "AWS_ENDPOINT_URL": made.stores.aws,
        "AWS_ENDPOINT_URL_SQS": made.stores.sqs,
        "POWERTOOLS_METRICS_NAMESPACE": "chaos",
        "ENDPOINT_NAME": "chaos",
        "PROTOCOL": "tgi",
        "MODEL_REVISION": "r",
        "QUEUE_URL": made.queue_url,
        "DEAD_LETTER_URL": made.dead_url,
        "CLAIMS_TABLE": made.name,
        "RESULTS_BUCKET": made.name,
        "RESULTS_PREFIX": "results/",
        "INVOCATION_TIMEOUT_S": str(setting.invocation_timeout_s),
        "IDLE_TIMEOUT_S": str(setting.idle_timeout_s),
        "LEASE_S": str(setting.lease_s),
        "MAX_ATTEMPTS": str(setting.max_attempts),
        "MAX_IN_FLIGHT": str(setting.processes * setting.batch_size),
        "CONTEXT_TOKENS": str(setting.context_tokens),
        "RETENTION_S": "1209600",
        "DRAIN_S": str(setting.drain_s),
        "FUNCTION_S": str(setting.function_s),
        "CHAOS_SEED": str(setting.seed),
    }


def _client(service: str, url: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIACHAOS",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 3}, s3={"addressing_style": "path"}),
    )


def _count(sqs: Any, url: str, *kinds: str) -> int:
    wanted = [f"ApproximateNumberOfMessages{kind}" for kind in kinds or ("", "NotVisible", "Delayed")]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
    return sum(int(found[name]) for name in wanted)


@contextmanager
def _process(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program of this folder, killed when the block ends."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / program), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
