"""What moto's Lambda does differently from AWS and must not do here, and our SQS for moto's services that send to it.

Installed once a process; a later local cloud in this process replaces what they reach.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

import moto.awslambda.models
import moto.sns.models
import moto.sqs
import moto.sqs.models
from moto.awslambda.models import LambdaFunction
from moto.sqs.exceptions import QueueDoesNotExist

from loadproof.localcloud.queue import function_views, packages
from loadproof.localcloud.queue.functions import Functions
from loadproof.localcloud.queue.sqs.service import SqsService
from loadproof.localcloud.wire import AwsError, Caller
from loadproof.wire.documents import Document, Json

log = logging.getLogger(__name__)
_functions: Functions | None = None
_sqs: SqsService | None = None


def install(functions: Functions, sqs: SqsService) -> None:
    """Point moto's Lambda at `functions`, and SNS, EventBridge, S3 and Lambda at `sqs`."""
    global _functions, _sqs
    first, _functions, _sqs = _functions is None, functions, sqs
    if not first:
        return
    modules: list[Any] = [moto.awslambda.models, moto.sns.models, moto.sqs, moto.sqs.models]
    for module in modules:
        module.sqs_backends = _Accounts()
    function_class: Any = moto.awslambda.models.LambdaFunction
    layers_of = function_class._get_layers_data

    def layers_data(self: LambdaFunction, arns: list[str]) -> list[Document]:
        """Public layers of other accounts: known ones are there, unknown ones fail as a missing layer does."""
        found: list[Document] = []
        for arn in arns:
            found += [{"Arn": arn, "CodeSize": 1}] if packages.is_provided(arn) else layers_of(self, [arn])
        return found

    invoke_of = function_class.invoke

    def invoke(self: LambdaFunction, body: str, asked: Any, answered: Any) -> str | bytes:
        """With what AWS says beside the answer. An event is answered by nothing, and a dry run runs nothing."""
        kind = asked.get("x-amz-invocation-type", "RequestResponse")
        payload = "" if kind == "DryRun" else invoke_of(self, body or "{}", asked, answered)
        failed = answered.pop("x-amz-function-error", None)
        if kind != "RequestResponse":
            return ""
        answered["x-amz-executed-version"] = str(self.version)
        if failed is not None:
            answered["x-amz-function-error"] = "Unhandled"
        return payload

    function_class.invoke = invoke
    function_class._get_layers_data = layers_data
    function_class._invoke_lambda = _invoke_lambda
    function_views.install()


class _Accounts(dict[str, "_Regions"]):
    """In the place of moto's SQS backends, by account and region."""

    def __missing__(self, account: str) -> _Regions:
        return _Regions(account)


class _Regions(dict[str, "_Queues"]):
    def __init__(self, account: str) -> None:
        self._account = account

    def __missing__(self, region: str) -> _Queues:
        return _Queues(Caller(account=self._account, region=region, access_key=""))


class _Queue:
    """As much of a queue as moto's Lambda and SNS look at."""

    fifo_queue = False

    def __init__(self, arn: str, visibility_s: int) -> None:
        self.queue_arn, self.visibility_timeout = arn, visibility_s
        # moto runs mappings inside SendMessage, on the sender's time; the poller does it instead.
        self.lambda_event_source_mappings: Document = {}


class _Queues:
    """One region's queues, with the methods that moto's services call."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def queues(self) -> dict[str, _Queue]:
        assert _sqs is not None
        prefix = self._caller.arn("sqs", "")
        with _sqs.locked() as engine:
            here = [queue for queue in engine.queues() if queue.arn.startswith(prefix)]
            return {one.name: _Queue(one.arn, one.attributes.number("VisibilityTimeout")) for one in here}

    def get_queue(self, name: str) -> _Queue:
        found = self.queues.get(name)
        if found is None:
            raise QueueDoesNotExist
        return found

    def send_message(
        self,
        queue_name: str,
        message_body: str,
        message_attributes: Document | None = None,
        group_id: str | None = None,
        **of_fifo_queues: object,
    ) -> None:
        """Deliver for a service; AWS's services do not tell their callers of a delivery that failed, nor does this."""
        assert _sqs is not None
        params: Document = {"QueueUrl": f"{self._caller.account}/{queue_name}", "MessageBody": message_body}
        params |= {"MessageAttributes": message_attributes} if message_attributes else {}
        params |= {"MessageGroupId": group_id} if group_id else {}
        try:
            _sqs.call(self._caller, "SendMessage", params)
        except AwsError as error:
            log.warning("a message did not reach queue %s: %s", queue_name, error)


def _invoke_lambda(self: LambdaFunction, event: Json = None) -> tuple[str, bool, str]:
    """`aws lambda invoke` without Docker: (payload, errored, log) as moto expects them."""
    if _functions is None:
        raise RuntimeError("the queue poller is not started")
    result = _functions.invoke(self, event)
    if result.error is not None:
        raised = {"requestId": str(uuid.uuid4())} if "stackTrace" in result.error else {}
        return json.dumps({**result.error, **raised}), True, str(result.error.get("errorMessage", ""))
    return json.dumps(result.value), False, ""
