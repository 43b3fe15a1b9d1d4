"""Time-outs and the buffer: what repeats, loses or cuts generations (LP240-LP247)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.errors import Severity
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.schema import Buffer

UNARY_LIMIT_S: Final = 60  # InvokeEndpoint
STREAM_LIMIT_S: Final = 480  # InvokeEndpointWithResponseStream
FUNCTION_LIMIT_S: Final = 900  # Lambda
STORE_MARGIN_S: Final = 30  # left after the last answer to write it and to report
RETENTION_MARGIN_S: Final = 86400  # SQS deletes without a word, a day after the consumer has given a message up
_LONGEST_RETENTION_S: Final = 1209600  # SQS's
_WAITING_S: Final = 120  # in which a message may wait for the endpoint in its consumer's hand
_OWN_QUEUES: Final = r"(|-requests?|-queue|-dead-letters?|-dlq)"
_SAFE_RECEIVES: Final = 5  # 3 put 126 of 10,000 healthy messages into the dead-letter queue under crashes, 5 none


@rule(
    "LP240",
    "Visibility shorter than the work",
    reason="Lambda refuses a queue that hides its messages for less than the function may run.",
    mend="Leave visibility_timeout_s out: the default is six times the consumer's time-out.",
)
def visibility(subject: Subject) -> Iterator[Found]:
    buffer = subject.buffer
    if buffer.visibility_timeout_s is None:
        return
    work_s = consumer_timeout_s(buffer)
    path = ("buffer", "visibility_timeout_s")
    if buffer.visibility_timeout_s < work_s:
        found = f"visibility of {buffer.visibility_timeout_s} s is shorter than the consumer's {work_s} s"
        yield Found(path, f"{found}: Lambda refuses it", f"write at least {6 * work_s}, or leave it out")
    elif buffer.visibility_timeout_s < 6 * work_s:
        found = f"visibility of {buffer.visibility_timeout_s} s is under 6 x {work_s} s, which Lambda asks for"
        yield Found(path, found, f"write at least {6 * work_s}, or leave it out", "warning")


@rule(
    "LP241",
    "Too few receives before the dead-letter queue",
    reason="A crash spends a receive of every message in flight: healthy messages end in the dead-letter queue.",
    mend="Use 5 or more.",
)
def receive_count(subject: Subject) -> Iterator[Found]:
    buffer = subject.buffer
    if buffer.max_receive_count < _SAFE_RECEIVES:
        found = f"{buffer.max_receive_count} sends healthy messages to the dead-letter queue after crashes"
        severity: Severity = "error" if buffer.max_receive_count == 1 else "warning"
        yield Found(("buffer", "max_receive_count"), found, f"write at least {_SAFE_RECEIVES}", severity)


@rule(
    "LP242",
    "Answers in one piece take longer than SageMaker allows",
    reason="InvokeEndpoint ends after 60 s while the model works on, unseen and paid for.",
    mend="Stream, or keep the request time-out within 60 s.",
)
def unary_limit(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    asynchronous = profile.endpoint is not None and profile.endpoint.async_inference is not None
    if profile.backend == "sagemaker" and not profile.workload.streaming and not asynchronous:
        allowed = profile.benchmark.request_timeout_s
        if allowed > UNARY_LIMIT_S:
            found = f"non-streaming time-out of {allowed:g} s exceeds SageMaker's {UNARY_LIMIT_S} s"
            mend = f"write workload.streaming: true, or benchmark.request_timeout_s: {UNARY_LIMIT_S}"
            yield Found(("workload", "streaming"), found, mend)


@rule(
    "LP243",
    "Streams longer than SageMaker allows",
    reason="A response stream is cut after 8 minutes.",
    mend="Keep the time-out within 480 s.",
)
def stream_limit(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    if profile.backend != "sagemaker":
        return
    if profile.benchmark.request_timeout_s > STREAM_LIMIT_S:
        found = f"{profile.benchmark.request_timeout_s:g} s exceed the {STREAM_LIMIT_S} s of a response stream"
        yield Found(("benchmark", "request_timeout_s"), found, f"lower it to {STREAM_LIMIT_S}")
    buffer = subject.buffer
    if buffer.invocation_timeout_s > STREAM_LIMIT_S:
        found = f"{buffer.invocation_timeout_s} s exceed the {STREAM_LIMIT_S} s of a response stream"
        yield Found(("buffer", "invocation_timeout_s"), found, f"lower it to {STREAM_LIMIT_S}")


@rule(
    "LP244",
    "Answers longer than the consumer may run",
    reason="The consumer is a Lambda function of at most 900 s: a longer answer is cut off, and paid for again.",
    mend="Lower invocation_timeout_s or idle_timeout_s.",
)
def function_limit(subject: Subject) -> Iterator[Found]:
    buffer = subject.buffer
    work_s = buffer.invocation_timeout_s + buffer.idle_timeout_s + STORE_MARGIN_S
    if work_s > FUNCTION_LIMIT_S:
        found = (
            f"{buffer.invocation_timeout_s} s, the idle timeout and {STORE_MARGIN_S} s to store exceed the function's"
        )
        most = FUNCTION_LIMIT_S - STORE_MARGIN_S - buffer.idle_timeout_s
        yield Found(("buffer", "invocation_timeout_s"), f"{found} {FUNCTION_LIMIT_S} s", f"lower it to {most}")


@rule(
    "LP245",
    "Messages expire before they were tried",
    reason="Retention runs on while a message waits, is worked on and comes back.",
    mend="Raise retention_s.",
)
def retention(subject: Subject) -> Iterator[Found]:
    buffer = subject.buffer
    visible = buffer.visibility_timeout_s or 6 * consumer_timeout_s(buffer)
    needed = visible * buffer.max_receive_count
    if buffer.retention_s < needed:
        found = f"{buffer.retention_s} s end before {buffer.max_receive_count} receives of {visible} s each"
        yield Found(("buffer", "retention_s"), found, f"write at least {needed}, or leave it out")


@rule(
    "LP246",
    "Silence that is found no sooner than the end",
    reason="A stalled stream is given up by its silence; one that may last as long as the answer itself never is.",
    mend="Keep idle_timeout_s below invocation_timeout_s; 55 s leave room for a first token that waits.",
    severity="warning",
)
def idle_limit(subject: Subject) -> Iterator[Found]:
    buffer = subject.buffer
    given = "idle_timeout_s" in buffer.model_fields_set  # the default is cut to the answer's time
    if given and buffer.idle_timeout_s >= buffer.invocation_timeout_s:
        found = (
            f"a silence of {buffer.idle_timeout_s} s is as long as the whole answer's {buffer.invocation_timeout_s} s"
        )
        yield Found(("buffer", "idle_timeout_s"), found, f"write less than {buffer.invocation_timeout_s}")


@rule(
    "LP247",
    "Callbacks in another region",
    reason="The consumer tells queues and topics of its own region only; those of another account, which an account "
    "id mistyped is too, must let it in by a policy of their own. Told of a result in the buffer's own queue, it takes "
    "that for a request, and asks for the next.",
    mend="Name queues and topics of the environment's region and account, and none of the buffer's own.",
)
def callbacks_in_region(subject: Subject) -> Iterator[Found]:
    # Of any environment: a profile does not know its own's name.
    own = re.compile(rf"loadproof-.+-{re.escape(subject.profile.name)}{_OWN_QUEUES}")
    for at, arn in enumerate(subject.buffer.callbacks):
        *_, region, account, name = arn.split(":")
        place = ("buffer", "callbacks", at)
        if queue := own.fullmatch(name):
            certain: Severity = "error" if queue[1] in ("-requests", "-dead-letters") else "warning"
            yield Found(
                place, f"{name} is the buffer's own, or called like it", "name a queue of its reader's", certain
            )
        if subject.environment is not None and account != subject.environment.account:
            mend = "write that account, or let the consumer in by the policy there"
            found = f"account {account} is not the environment's {subject.environment.account}"
            yield Found(place, found, mend, "warning")
        if region != subject.region:
            mend = f"name a queue or topic of {subject.region}"
            yield Found(("buffer", "callbacks", at), f"{region} is not the environment's {subject.region}", mend)


def consumer_timeout_s(buffer: Buffer) -> int:
    """The consumer's timeout = answer + silence that ends it + waiting for the endpoint + storing, at most Lambda's.

    A batch is served at once, so its size does not matter.
    """
    work_s = buffer.invocation_timeout_s + buffer.idle_timeout_s + _WAITING_S + STORE_MARGIN_S
    return min(FUNCTION_LIMIT_S, work_s)


def kept_s(buffer: Buffer) -> int:
    """How old a message may get before it is a dead letter: `retention_s`, at most 13 days."""
    return min(buffer.retention_s, _LONGEST_RETENTION_S - RETENTION_MARGIN_S)
