"""What feeds and runs the real consumer, one process per function: Lambda's part of the work, and the kills.

`python chaos_consumer.py PROCESSES BATCH` imports the handler once and forks, so that a process killed with -9 is
replaced in milliseconds. Commands on stdin: `kill N` (SIGKILL to a random process), `term N`, `stop`. It prints a line
for each process that ended: `{"pid", "signal", "exit", "holding": seconds since it was told}`.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import boto3
from botocore.config import Config
from consumer import handler as consumer_handler

from loadproof.localcloud.queue.events import done, sqs_event

QUEUE_ARN = "arn:aws:sqs:us-east-1:123456789012:chaos"


class Context:
    """Lambda's, as far as the handler asks."""

    function_name = "chaos"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:chaos"
    aws_request_id = "chaos"

    def __init__(self, seconds: float) -> None:
        self._end_s = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end_s - time.monotonic()) * 1000)


class Told:
    """SIGTERM as the poller takes it: the handler hears of it only at work, so that nothing received is lost."""

    def __init__(self) -> None:
        self.ending = False
        self.serving = False

    def __call__(self, *_: object) -> None:
        self.ending = True
        if self.serving:
            consumer_handler._consumer().stop()


def poll_forever(batch_size: int) -> None:
    """One slot of an event source mapping: receive, invoke, delete what is not reported as failed; until SIGTERM."""
    url, function_s = os.environ["QUEUE_URL"], float(os.environ["FUNCTION_S"])
    sqs = boto3.client("sqs", config=Config(retries={"total_max_attempts": 1}, read_timeout=30))
    told = Told()
    signal.signal(signal.SIGTERM, told)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while not told.ending:
        messages: list[dict[str, Any]] = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=batch_size,
            WaitTimeSeconds=1,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if not messages:
            continue
        try:
            told.serving = True
            result: Any = consumer_handler.handler(sqs_event(messages, QUEUE_ARN), Context(function_s))
            told.serving = False
        except SystemExit:  # told just before or just after its work: then all of it comes back, or is done twice
            _give_back(sqs, url, messages)
            return
        entries = _entries(done(messages, result, report_failures=True))
        if entries:
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)


def _give_back(sqs: Any, url: str, messages: list[dict[str, Any]]) -> None:
    entries = [entry | {"VisibilityTimeout": 0} for entry in _entries(messages)]
    if entries:
        sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)


def _entries(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(messages)]


def say_who(request: Any, **_: object) -> None:
    """Requests to the model name the process that sent them."""
    request.headers["x-chaos-pid"] = str(os.getpid())


def main() -> None:
    """Keep the processes alive until `stop`, or until whoever started this is gone."""
    processes, batch_size = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "0")))
    boto3.setup_default_session()
    boto3.DEFAULT_SESSION.events.register("before-send.sagemaker-runtime", say_who)
    consumer_handler._consumer()  # clients are made before the fork: a new process then starts at once
    children = {_fork(batch_size) for _ in range(processes)}
    told: dict[int, float] = {}
    commands = selectors.DefaultSelector()
    commands.register(sys.stdin, selectors.EVENT_READ)
    rest, running = "", True
    while running:
        if commands.select(0.02):
            data = os.read(sys.stdin.fileno(), 65536).decode()
            running = bool(data)
            *lines, rest = (rest + data).split("\n")
            for line in lines:
                word, _, count = line.partition(" ")
                running = running and word != "stop"
                number = signal.SIGKILL if word == "kill" else signal.SIGTERM
                for pid in chance.sample(sorted(children), min(int(count or 0), len(children))):
                    told.setdefault(pid, time.monotonic())
                    os.kill(pid, number)
        while children and running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            children.discard(pid)
            ended = {"pid": pid, "signal": status & 0x7F, "exit": status >> 8, "time_s": time.time()}
            print(json.dumps(ended | {"took_s": time.monotonic() - told.pop(pid, time.monotonic())}), flush=True)
            children.add(_fork(batch_size))
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _fork(batch_size: int) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until the child listens: Lambda tells none earlier
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2 if os.environ.get("CHAOS_LOG") else null, 1)  # the function's log goes to stderr, or nowhere
    random.seed(os.getpid())
    # What the clients' maker drew from before the fork must not be the same in every process.
    generation = consumer_handler._consumer()._worker._ports.generation
    generation._random.seed(os.getpid())
    generation._pace._random.seed(os.getpid())
    try:
        poll_forever(batch_size)
        os._exit(0)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
