"""S3, DynamoDB, SQS and the model of one simulated run, as boto3's clients show them; every call may go wrong."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import sim_judges
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from sim_kernel import Killed

if TYPE_CHECKING:
    from sim_world import Process, World

Effect = Callable[[], Any]
_END: Final = {"details": {"finish_reason": "eos_token"}, "generated_text": "ok", "token": {"text": "!"}}


def error(code: str, status: int, **more: Any) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(answer, "Any")


class Calls:
    """One process's way to the stores: where it dies, waits, is refused, or told a lie."""

    def __init__(self, world: World, process: Process) -> None:
        self.world, self.process = world, process

    def do(self, store: str, effect: Effect) -> Any:
        world, process = self.world, self.process
        if process.dead:
            raise Killed
        number = world.count_call(store)
        if number in world.dies_before:
            world.die(process)
        world.kernel.sleep(world.latency_s())
        if world.during(f"outage of the {store}"):
            raise error("InternalError", 500) if world.random.random() < 0.5 else ReadTimeoutError(endpoint_url=store)
        try:
            answer = effect()
        except world.versions[1].engine.AwsError as refused:
            raise error(str(refused), 400) from None
        if number in world.dies_after:
            world.die(process)
        if number in world.lies:
            if store == "table":
                world.lied_s = world.kernel.now_s
            raise error("InternalError", 500)
        return answer


class DynamoDb:
    """The one table: update_item and get_item, in the expressions that the consumer uses."""

    def __init__(self, calls: Calls) -> None:
        self._do, self._world, self._process = calls.do, calls.world, calls.process

    def get_item(self, *, TableName: str, Key: Any) -> Any:  # noqa: N803
        stale = self._world.during("stale pace")
        return self._do("table", lambda: self._world.table.read(Key["id"]["S"], stale))

    def update_item(self, *, Key: Any, **asked: Any) -> Any:  # noqa: N803
        key = Key["id"]["S"]
        try:
            answer = self._do("table", lambda: self._world.table.update(key, asked))
        except ClientError as refused:
            if "Item" in refused.response and asked["UpdateExpression"].startswith("SET lease_ms"):
                self._process.lost[key] = self._world.kernel.now_s
            raise
        if asked["UpdateExpression"].startswith("SET phase = :claimed"):
            self._process.lost.pop(key, None)
        return answer


class Table:
    """Records, and what they were before. `watch` is told of every change, and who says it (None: nobody in
    particular)."""

    def __init__(self, watch: Callable[[str, dict[str, Any] | None, dict[str, Any], Any], None]) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self._before: dict[str, dict[str, Any]] = {}
        self._watch = watch

    def read(self, key: str, stale: bool) -> Any:
        item = self._before.get(key) if stale else self.items.get(key)
        return {"Item": item} if item else {}

    def update(self, key: str, asked: dict[str, Any]) -> Any:
        item, values = self.items.get(key), asked["ExpressionAttributeValues"]
        condition = asked.get("ConditionExpression")
        if condition and not eval(_condition(condition), _NAMES, {"item": item or {}, "values": values}):
            raise error("ConditionalCheckFailedException", 400, **({"Item": item} if item else {}))
        changed = dict(item or {"id": {"S": key}})
        for verb, name, value in _changes(asked["UpdateExpression"]):
            if verb == "REMOVE":
                changed.pop(name, None)
            elif verb == "SET":
                changed[name] = values[value]
            else:
                changed[name] = {"N": str(int(changed.get(name, {"N": "0"})["N"]) + int(values[value]["N"]))}
        self._watch(key, item, changed, values.get(":me"))
        self.items[key], self._before[key] = changed, item or {}
        return {"Attributes": item} if item else {}


def _compared(found: Any, sign: str, wanted: Any) -> bool:
    """A missing attribute compares with nothing."""
    if found is None or [*found] != [*wanted]:
        return False
    left, right = (float(one["N"]) if "N" in one else one["S"] for one in (found, wanted))
    return bool({"=": left == right, "<": left < right, ">": left > right, "<>": left != right}[sign])


_NAMES: Final = {"compared": _compared}


@cache
def _changes(text: str) -> list[tuple[str, str, str]]:
    """(verb, attribute, value's name) of an update expression."""
    parts = re.findall(r"(SET|REMOVE|ADD) (.*?)(?= SET | REMOVE | ADD |$)", text)
    changes = [
        (verb, *change.replace(" = ", " ").partition(" ")) for verb, some in parts for change in some.split(", ")
    ]
    return [(verb, name, value) for verb, name, _, value in changes]


@cache
def _condition(text: str) -> CodeType:
    text = re.sub(r"attribute_not_exists\((\w+)\)", r"('\1' not in item)", text)
    text = re.sub(r"(\w+) (=|<>|<|>) (:\w+)", r"compared(item.get('\1'), '\2', values['\3'])", text)
    return compile(text.replace(" OR ", " or ").replace(" AND ", " and "), "condition", "eval")


class S3:
    def __init__(self, calls: Calls) -> None:
        self._do, self._world = calls.do, calls.world

    def put_object(self, *, Key: str, Body: bytes, IfNoneMatch: str = "", **_: Any) -> None:  # noqa: N803
        def effect() -> None:
            if IfNoneMatch == "*":
                if self._world.conflicts():
                    raise error("ConditionalRequestConflict", 409)
                if Key in self._world.objects:
                    raise error("PreconditionFailed", 412)
            self._world.written(Key, Body)
            if Key.startswith("results/"):
                sim_judges.judge_result(self._world, Key, Body)

        self._do("bucket", effect)

    def head_object(self, *, Key: str, **_: Any) -> None:  # noqa: N803
        def effect() -> None:
            if self._world.during("stale listing"):
                raise error("403", 403)
            if Key not in self._world.objects:
                self._world.missed[Key.removeprefix("results/").removesuffix(".json")] = self._world.kernel.now_s
                raise error("404", 404)

        self._do("bucket", effect)

    def get_object(self, *, Key: str, **_: Any) -> Any:  # noqa: N803
        def effect() -> Any:
            if Key not in self._world.objects:
                raise error("NoSuchKey", 404)
            return {"Body": io.BytesIO(self._world.objects[Key])}

        return self._do("bucket", effect)


class Sqs:
    def __init__(self, calls: Calls) -> None:
        self._do, self._world, self._process = calls.do, calls.world, calls.process

    def change_message_visibility_batch(self, *, Entries: Any, **_: Any) -> None:  # noqa: N803
        self._do("queue", lambda: self._world.hide(Entries))

    def delete_message(self, *, ReceiptHandle: str, **_: Any) -> None:  # noqa: N803
        self._do("queue", lambda: self._world.delete(ReceiptHandle))

    def send_message(self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any, **more: Any) -> None:  # noqa: N803
        delay_s, group = more.get("DelaySeconds"), more.get("MessageGroupId")

        def effect() -> None:
            sent = self._world.send(QueueUrl, MessageBody, MessageAttributes, delay_s=delay_s, group=group)
            sim_judges.judge_sent_on(self._world, self._process, QueueUrl, sent)

        self._do("queue", effect)


class Sns:
    def __init__(self, calls: Calls) -> None:
        self._do, self._world = calls.do, calls.world

    def publish(self, *, Message: str, **_: Any) -> None:  # noqa: N803
        self._do("topic", lambda: sim_judges.judge_told(self._world, json.loads(Message)))


class Model:
    """A SageMaker endpoint: what a request meets is decided when it arrives."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._world = calls, calls.world

    def invoke_endpoint_with_response_stream(self, *, Body: bytes, **_: Any) -> Any:  # noqa: N803
        world, process = self._world, self._calls.process
        if process.dead:
            raise Killed
        payload = json.loads(Body)
        ask = world.asked(process, payload["inputs"])
        sim_judges.judge_ask(world, ask, payload)
        try:
            world.kernel.sleep(0.05)
            self._refuse(ask)
        except BaseException:
            world.ask_ended(ask)
            raise
        return {"Body": self._stream(ask)}

    def _refuse(self, ask: Any) -> None:
        world, kind = self._world, ask.send.kind
        if world.met("unavailable"):
            raise error("ServiceUnavailable", 503)
        if world.met("no capacity"):
            raise error("ValidationError", 400, Error={"Code": "ValidationError", "Message": "has no capacity"})
        if world.met("no right"):
            raise error("AccessDeniedException", 403)
        throttle = world.during("throttled")
        if throttle and world.in_flight > throttle.target:
            raise error("ThrottlingException", 429)
        if world.met("errors") or kind == "broken":
            ask.failed = True
            raise error("ModelError", 424, OriginalStatusCode=500)
        if kind == "refused":
            ask.refused = True
            raise error("ModelError", 424, OriginalStatusCode=400)
        if world.random.random() < 0.005 and world.during("unavailable"):
            raise EndpointConnectionError(endpoint_url="model")

    def _stream(self, ask: Any) -> Iterator[Any]:
        world = self._world
        try:
            if ask.send.kind == "stalling" or world.met("starved"):
                ask.failed = ask.timed_out = True
                world.kernel.sleep(world.IDLE_S)
                raise ReadTimeoutError(endpoint_url="model")
            truncated = ask.failed = world.met("truncated")
            ask.failed = ask.timed_out = ask.send.kind == "endless"
            takes_s = 10 * world.ANSWER_S if ask.timed_out else ask.send.takes_s
            parts = max(1, round(takes_s / 15))
            for _ in range(parts):
                world.kernel.sleep(takes_s / parts)
                yield _part({"token": {"text": "a"}})
            ask.failed = ask.failed or truncated
            if not truncated:
                ask.complete = True
                yield _part(_END | {"generated_text": sim_judges.answer_of(ask.send.key)})
        finally:
            world.ask_ended(ask)


def _part(event: dict[str, Any]) -> Any:
    return {"PayloadPart": {"Bytes": b"data:" + json.dumps(event).encode() + b"\n\n"}}


def clients(world: World, process: Process) -> SimpleNamespace:
    """In the place of boto3, for one process."""
    calls = Calls(world, process)
    made: dict[str, Any] = {
        "dynamodb": DynamoDb(calls),
        "s3": S3(calls),
        "sqs": Sqs(calls),
        "sns": Sns(calls),
        "sagemaker-runtime": Model(calls),
    }
    return SimpleNamespace(client=lambda service, **_: made[service])
