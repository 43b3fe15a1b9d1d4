"""Arms about what is sent and what comes back: damaged streams, bodies of every kind, sizes, redrives."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from chaos_account import account, results_of
from chaos_crashes import Outcome, Start
from chaos_world import Setting, World
from fault_proxy import proxy

from loadproof.constructs.buffer.runtime.consumer.clock import Clock
from loadproof.constructs.buffer.runtime.consumer.failures import Kind, failure_of
from loadproof.constructs.buffer.runtime.consumer.model import SageMakerModel

LIMIT_BYTES = 1_048_576
POISON = {
    "not JSON": "{",
    "blank": " ",
    "a text": '""',
    "an empty object": "{}",
    "an empty request": '{"request": {}}',
    "NaN": '{"request": {"inputs": NaN}}',
    "a name twice": '{"request": {"inputs": "a", "inputs": "b"}}',
    "100,000 deep": "[" * 100_000,
    "half a surrogate pair": '{"request": {"inputs": "\\ud800"}}',
    "an unknown field": '{"request": {"inputs": "a"}, "kee": "a"}',
    "longer than the context": '{"request": {"inputs": "one two", "parameters": {"max_new_tokens": 999}}}',
}
HEALTHY = ("👩🏽‍🚀 déjà vu", "\u202eمرحبا بالعالم", "fits", "x" * 10)


def bodies(start: Start) -> Outcome:
    """Every malformed body is a dead letter with its reason, the model unasked; what is only odd is answered."""
    with start(Setting(processes=1, batch_size=10, context_tokens=1000)) as world:
        for body in POISON.values():
            world.send_body(body)
        for text in HEALTHY:
            world.send_body(json.dumps({"request": {"inputs": text}}, ensure_ascii=text != "fits"))
        world.start_consumers()
        world.wait_until_empty(120)
        letters, asked = world.dead(), {event["key"] for event in world.events()}
        stored, _ = results_of(world)
        world.stop_consumers()
    reasons = [letter.get("MessageAttributes", {}).get("reason", {}).get("StringValue") for letter in letters]
    missed = ["dead"] * (sorted(letter["Body"] for letter in letters) != sorted(POISON.values()))
    missed += ["reason"] * (not all(reasons)) + ["asked"] * (asked != set(HEALTHY))
    missed += ["stored"] * (len(stored) != len(HEALTHY)) + ["died"] * bool(world.ends)
    return Outcome(
        f"{len(POISON)} malformed bodies, {len(HEALTHY)} odd ones",
        f"{len(letters)} in the DLQ at once, {len(set(reasons))} different reasons; {len(stored)} stored; "
        f"{len(world.ends)} processes died",
        tuple(missed),
    )


def sizes(start: Start) -> Outcome:
    """The largest message that SQS takes is answered; one byte more is refused with the limit named."""
    with start(Setting(processes=1, batch_size=1)) as world:
        whole = {"request": {"inputs": "large", "filler": ""}, "key": "large"}
        whole["request"]["filler"] = "x" * (LIMIT_BYTES - len(json.dumps(whole)))  # type: ignore[index]
        body = json.dumps(whole)
        world.send_body(body)
        refusal = ""
        try:
            world.send_body(body + " ")
        except ClientError as error:
            refusal = str(error)
        world.start_consumers()
        world.wait_until_empty(60)
        found = account(world, ["large"])
    missed = [*found.missed(), *["refused"] * (str(LIMIT_BYTES) not in refusal.replace(",", ""))]
    return Outcome(
        f"{len(body):,} B / one more", f"{found.stored} stored / refused, the limit named in the error", tuple(missed)
    )


def redrive(start: Start) -> Outcome:
    """Dead letters go back three times: to fail again with a reason, to be answered, and when their keys are done."""
    with start(Setting(processes=1), bad=True) as world:
        world.send(["a", "b"])
        world.start_consumers()
        reasons = [_reasons(world)]
        _move(world)
        reasons.append(_reasons(world))
        world.script(bad=False)
        _move(world)
        world.wait_until_empty(60)
        asked = len(world.events())
        for key in ("a", "b"):  # a second copy of each that had died too
            body = json.dumps({"request": {"inputs": key}, "key": key})
            world.sqs.send_message(QueueUrl=world.dead_url, MessageBody=body)
        _move(world)
        world.wait_until_empty(60)
        again = len(world.events()) - asked
        found = account(world, ["a", "b"])
    kept = all(len(told) == 2 and all(told) for told in reasons)
    return Outcome(
        "dead letters redriven, and redriven again when their keys are done",
        f"{found.stored} of 2 stored; {again} invocations for done keys; reason there before and after: {kept}",
        (*found.missed(), *["invocations"] * (again > 0), *["reason"] * (not kept)),
    )


def _reasons(world: World) -> list[str]:
    """When both messages are dead, why."""
    while len(letters := world.dead()) < 2:
        time.sleep(0.1)
    return [letter.get("MessageAttributes", {}).get("reason", {}).get("StringValue", "") for letter in letters]


def _move(world: World) -> None:
    """To the queue, by SQS's own task, as soon as none of them is hidden.

    The queue is named, since SQS knows where a message came from only if it moved it there itself.
    """
    time.sleep(1.1)
    arn, back = (
        world.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        for url in (world.dead_url, world.queue_url)
    )
    world.sqs.start_message_move_task(SourceArn=arn, DestinationArn=back)
    while world.sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"] == "RUNNING":
        time.sleep(0.05)


def frames(start: Start, *, cut_step: int, flip_step: int) -> Outcome:
    """The stream cut after every byte and with every bit flipped (each so many-th), and two endings without an end."""
    with start(Setting(), generation_s=0.0) as world, proxy(world.model_url) as between:
        model = SageMakerModel(_runtime(between.url), Clock(), endpoint="chaos", component=None, protocol="tgi")
        length = len(_raw_answer(world.model_url))
        faults: list[dict[str, Any]] = [{"cut_after": at} for at in range(0, length, cut_step)]
        faults += [{"flip_bit": bit} for bit in range(0, 8 * length, flip_step)]
        tried = [_tried(model, between, fault) for fault in faults]
        between.change()
        whole = _tried(model, between, {})
        endings = []
        for ending in ("none", "unknown"):
            world.script(ending=ending)
            endings.append(_tried(model, between, {}))
    missed = ["complete"] * ("wrong" in tried or "answered" in endings) + ["whole"] * (whole != "answered")
    missed += ["typed"] * (not set(tried + endings) <= {"answered", *Kind})
    failed = sum(one in set(Kind) for one in tried)
    return Outcome(
        f"a stream of {length} B cut at {len(range(0, length, cut_step)):,} places, "
        f"{len(range(0, 8 * length, flip_step)):,} bits flipped, two endings without an end marker",
        f"{tried.count('wrong')} taken for complete; {failed:,} failed with one typed error, the others were whole "
        "(damage outside the frames)",
        tuple(missed),
    )


def _tried(model: SageMakerModel, between: Any, fault: dict[str, Any]) -> str:
    """`answered`, `wrong`, or the kind of failure."""
    between.change(**fault)
    try:
        answer = model.answer({"inputs": "frame"}, deadline_s=time.time() + 30)
    except Exception as error:
        return failure_of(error).kind
    text = answer["choices"][0]["text"]
    return "answered" if re.fullmatch(r"answer \d+ to frame", text) else "wrong"


def _runtime(url: str) -> Any:
    """As the handler makes it; the idle timeout is short because some damage looks like silence."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=0.3, connect_timeout=5)
    return boto3.client(
        "sagemaker-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIACHAOS",
        aws_secret_access_key="local",
        config=config,
    )


def _raw_answer(url: str) -> bytes:
    """One answer as it is on the wire."""
    body = b'{"inputs": "frame"}'
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += connection.recv(65536)
    return received
