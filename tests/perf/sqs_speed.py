"""What queues cost as they fill: Loadproof's SQS against moto's, the same client and messages, in one run.

.venv/bin/python tests/perf/sqs_speed.py [MESSAGES] [--budget-s S]      default: 10000 messages, 60 s a phase

Both serve from a process of their own; counted is the CPU time of that process, for each thousand messages sent in
batches of ten on top of those already there, then for receiving and deleting them all. A phase that has used its budget
is cut off, and the table says how far it got. The engine alone, without HTTP, is timed too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import psutil
from botocore.config import Config

from loadproof.localcloud.queue.sqs.engine import Engine

_BLOCK = 1000
_BODY = "x" * 1000
_OURS = """
import sys
from loadproof.localcloud.queue.sqs.server import running
with running() as server:
    print(server.endpoint_url, flush=True)
    sys.stdin.read()
"""
_MOTO = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(f"http://localhost:{server.get_host_and_port()[1]}", flush=True)
sys.stdin.read()
"""


@dataclass
class Cost:
    """CPU-seconds of the server: of each block sent, and of taking everything out again."""

    sent_cpu_s: list[float] = field(default_factory=list)
    taken: int = 0
    taken_cpu_s: float = 0.0
    wall_s: float = 0.0


@contextlib.contextmanager
def serving(program: str) -> Iterator[tuple[Any, psutil.Process]]:
    """A boto3 client of the server that a program starts, and its process."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        config = Config(retries={"total_max_attempts": 1}, proxies={}, read_timeout=300)
        client = boto3.client(
            "sqs",
            endpoint_url=process.stdout.readline().strip(),
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=config,
        )
        yield client, psutil.Process(process.pid)
    finally:
        process.communicate()


def measured(program: str, messages: int, budget_s: float) -> Cost:
    cost = Cost()
    with serving(program) as (sqs, process):

        def cpu_s() -> float:
            times = process.cpu_times()
            return float(times.user + times.system)

        url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "43200"})["QueueUrl"]
        entries = [{"Id": str(number), "MessageBody": _BODY} for number in range(10)]
        began_s = time.monotonic()
        while len(cost.sent_cpu_s) * _BLOCK < messages and time.monotonic() - began_s < budget_s:
            before_s = cpu_s()
            for _ in range(_BLOCK // 10):
                sqs.send_message_batch(QueueUrl=url, Entries=entries)
            cost.sent_cpu_s.append(cpu_s() - before_s)
        before_s, phase_s = cpu_s(), time.monotonic()
        while time.monotonic() - phase_s < budget_s:
            received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            if not received:
                break
            handles = [
                {"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]} for number, one in enumerate(received)
            ]
            sqs.delete_message_batch(QueueUrl=url, Entries=handles)
            cost.taken += len(received)
        cost.taken_cpu_s = cpu_s() - before_s
        cost.wall_s = time.monotonic() - began_s
    return cost


def engine_us(messages: int) -> tuple[float, float]:
    """Microseconds a message of the engine alone: sent, then received and deleted."""
    engine = Engine(time.time)
    queue = engine.create_queue("arn:aws:sqs:us-east-1:123456789012:q", {}, {})
    began_s = time.process_time()
    for _ in range(messages):
        engine.send(queue, _BODY, {}, sender="me")
    sent_s = time.process_time()
    while received := engine.receive(queue, 10):
        for _, handle in received:
            engine.delete(queue, handle)
    return (sent_s - began_s) / messages * 1e6, (time.process_time() - sent_s) / messages * 1e6


def row(name: str, cost: Cost) -> str:
    sent = len(cost.sent_cpu_s) * _BLOCK
    first, last = cost.sent_cpu_s[0], cost.sent_cpu_s[-1]
    taken = f"{cost.taken_cpu_s / cost.taken * 1000:.2f}" if cost.taken else "none"
    return (
        f"| {name} | {sent:,} | {first:.2f} | {last:.2f} | {sum(cost.sent_cpu_s):.1f} | {cost.taken:,} | {taken} "
        f"| {cost.taken_cpu_s:.1f} | {cost.wall_s:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("messages", nargs="?", type=int, default=10_000)
    parser.add_argument("--budget-s", type=float, default=60.0)
    options = parser.parse_args()
    ours = measured(_OURS, options.messages, options.budget_s)
    moto = measured(_MOTO, options.messages, options.budget_s)
    print(
        "| SQS | sent | CPU-s, first 1,000 | last 1,000 | all sends | received, deleted | ms each | CPU-s | wall s |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    print(row("Loadproof", ours))
    print(row("moto", moto))
    for messages in (10_000, 100_000):
        sent_us, taken_us = engine_us(messages)
        print(
            f"The engine alone, {messages:,} messages: {sent_us:.0f} us a send, {taken_us:.0f} us to receive and delete"
        )
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, load {load}, Python {platform.python_version()}, 1,000 B bodies"
    )


if __name__ == "__main__":
    main()
