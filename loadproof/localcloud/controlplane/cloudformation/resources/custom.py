"""Custom resources, whose handler is a Lambda function of the stack that answers at a one-time address; and inert ones.

Protocol: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    PutType,
    ResourceFailedError,
    ResourceType,
    Work,
    names,
)
from loadproof.wire.documents import Document, Json

_MOST_BYTES = 4096  # AWS's limit for an answer
_LONGEST_S = 3600  # unless the resource's ServiceTimeout says less


class CustomResource(ResourceType):
    """`AWS::CloudFormation::CustomResource` and every `Custom::...`; all properties go to the function as they are."""

    type_name = "AWS::CloudFormation::CustomResource"
    supported = None

    def create(self, work: Work, properties: Properties) -> Made:
        answer = _ask(work, "Create", properties)
        return Made(answer["PhysicalResourceId"], answer.get("Data") or {})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        if old["ServiceToken"] != new["ServiceToken"]:
            raise ResourceFailedError("Modifying service token is not allowed.")
        answer = _ask(work, "Update", new, PhysicalResourceId=physical_id, OldResourceProperties=_texts(old))
        if answer["PhysicalResourceId"] != physical_id:
            raise ResourceFailedError(
                "The local cloud does not provide an update that changes a custom resource's physical id."
            )
        return dict(answer.get("Data") or {})

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        _ask(work, "Delete", properties, PhysicalResourceId=physical_id)


def _ask(work: Work, request_type: str, properties: Properties, **more: Json) -> Document:
    """Run the handler once and return its answer. Raises ResourceFailedError with its reason, or with what is wrong."""
    token = str(properties.get("ServiceToken", ""))
    if ":lambda:" not in token:
        raise ResourceFailedError(
            f"The local cloud asks Lambda functions only, found ServiceToken {token or '(none)'}."
        )
    longest_s = float(properties.get("ServiceTimeout", _LONGEST_S))
    if not 1 <= longest_s <= _LONGEST_S:
        raise ResourceFailedError(f"ServiceTimeout must be between 1 and {_LONGEST_S} seconds, found {longest_s:g}.")
    with _answer_box() as (url, answers):
        event = {
            "RequestType": request_type,
            "ResponseURL": url,
            "StackId": work.stack_id,
            "RequestId": str(uuid.uuid4()),
            "ResourceType": work.type_name,
            "LogicalResourceId": work.logical_id,
            "ResourceProperties": _texts(properties),
            **more,
        }
        result = work.client("lambda").invoke(FunctionName=token, Payload=json.dumps(event).encode())
        failure = result["Payload"].read().decode() if result.get("FunctionError") else ""
        # Whoever the function has told may answer in its place, later.
        answers.arrived.wait(0 if failure else longest_s)
    return _checked(answers.body, event, failure)


def _checked(body: bytes | None, event: Document, failure: str) -> Document:
    if body is None:
        # After a failure AWS would go on waiting.
        said = f"; it failed with {failure}" if failure else ""
        raise ResourceFailedError(f"CloudFormation did not receive a response from your Custom Resource{said}.")
    try:
        answer = json.loads(body)
    except ValueError:
        raise ResourceFailedError("Invalid response from the custom resource: it is no JSON.") from None
    if not isinstance(answer, dict) or len(body) > _MOST_BYTES:
        raise ResourceFailedError(f"Invalid response: an object of at most {_MOST_BYTES} bytes is expected.")
    wrong = [name for name in ("StackId", "RequestId", "LogicalResourceId") if answer.get(name) != event[name]]
    if wrong or answer.get("Status") not in ("SUCCESS", "FAILED"):
        raise ResourceFailedError(f"Invalid response: {', '.join(wrong or ['Status'])} is missing or wrong.")
    physical_id = str(answer.get("PhysicalResourceId") or "")
    if answer["Status"] == "FAILED":
        reason = answer.get("Reason") or "no reason given"
        raise ResourceFailedError(
            f"Received response status [FAILED] from custom resource. Message returned: {reason}", physical_id
        )
    if not physical_id:
        raise ResourceFailedError("Invalid PhysicalResourceId")
    return answer


def _texts(value: Json) -> Json:
    """CloudFormation hands every number and every boolean over as text."""
    if isinstance(value, dict):
        return {name: _texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_texts(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Answers:
    """The first answer counts, as a signed address is good for one."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.arrived = threading.Event()


@contextmanager
def _answer_box() -> Iterator[tuple[str, _Answers]]:
    """An address on loopback that takes one PUT, as CloudFormation's signed S3 address does."""
    answers, path = _Answers(), f"/{uuid.uuid4()}"

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _MOST_BYTES + 1))
            known = self.path == path and answers.body is None and "Origin" not in self.headers  # no page's business
            if known:
                answers.body = body
                answers.arrived.set()
            self.send_response(200 if known else 403)
            self.end_headers()

        def log_message(self, format: str, *args: Json) -> None:
            """Nothing to tell: the stack's events do."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{path}", answers
    finally:
        server.shutdown()
        server.server_close()


class CdkMetadata(PutType):
    """Construct versions, read by AWS's usage reports only: nothing happens on AWS either."""

    type_name = "AWS::CDK::Metadata"
    supported = names("Analytics")

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        return {}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        return None


class WaitConditionHandle(CdkMetadata):
    """An empty handle: CDK uses it to keep a stack without resources alive."""

    type_name = "AWS::CloudFormation::WaitConditionHandle"
    supported = frozenset()
