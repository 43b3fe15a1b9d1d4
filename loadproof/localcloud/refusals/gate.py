"""The gate: a request that AWS would refuse is answered here, with AWS's code, before moto sees it."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from xml.sax.saxutils import escape

from botocore.exceptions import UnknownServiceError
from moto.core.utils import get_service_model

from loadproof.localcloud.refusals import (
    dashboards,
    events,
    functions,
    iam,
    keys,
    logs,
    messaging,
    network,
    parameters,
    registries,
    schedules,
    secrets,
    sessions,
    storage,
    tables,
)
from loadproof.localcloud.refusals.asked import Asked, Request, asked_of, form_of
from loadproof.localcloud.refusals.rules import Rule
from loadproof.localcloud.wire import AwsError, Caller, Reply, faults, query_error, violation

log = logging.getLogger(__name__)
# Signatures name these services otherwise than boto3 does.
_BOTO_NAMES: Final = {"monitoring": "cloudwatch", "servicequotas": "service-quotas"}
_OWN: Final = frozenset({"bedrock", "cloudformation", "sagemaker", "sqs", "states"})  # answered and checked elsewhere
# What a service calls a request that breaks its model, where its protocol's word is not it.
_CODES: Final = {"ecr": "InvalidParameterException", "logs": "InvalidParameterException", "sns": "InvalidParameter"}
_CODE_OF: Final = {"query": "ValidationError", "ec2": "InvalidParameterValue"}
_RULES: dict[str, Mapping[str, Rule]] = {
    "lambda": functions.RULES,
    "iam": iam.RULES,
    "sns": messaging.RULES,
    "kms": keys.RULES,
    "logs": logs.RULES,
    "events": events.RULES,
    "scheduler": schedules.RULES,
    "monitoring": dashboards.RULES,
    "dynamodb": tables.RULES,
    "ssm": parameters.RULES,
    "secretsmanager": secrets.RULES,
    "sts": sessions.RULES,
    "ec2": network.RULES,
    "ecr": registries.RULES,
}
# Looked at before the model: AWS has a code of its own for them.
_FIRST: dict[str, Mapping[str, Rule]] = {"lambda": functions.FIRST}


class RefusalGate:
    """Knows what AWS refuses of the services that moto answers: what breaks their models, and the rules here."""

    def knows(self, service: str) -> bool:
        """Whether it has anything to say of a service, named as in a request's signature."""
        return service == "s3" or _model(service) is not None

    def problem(self, service: str, caller: Caller, request: Request) -> Reply | None:
        """AWS's refusal; None when moto may answer. Called in a thread."""
        try:
            if service == "s3":
                storage.check(caller, request)
            elif (model := _model(service)) is not None:
                self._check(service, model, caller, request)
        except AwsError as error:
            return _refusal(service, error, request)
        except Exception:  # moto has an answer; a rule that does not understand a request must not take it away
            log.exception("%s: a refusal broke", service)
        return None

    def _check(self, service: str, model: Any, caller: Caller, request: Request) -> None:
        asked = asked_of(model, request)
        if asked is None:
            _check_action(model, request)
            return
        self._apply(_FIRST.get(service, {}), caller, asked)
        known = [one for one in faults(asked.shape, asked.params) if not one.endswith("Member is not known")]
        if known:
            code = _CODES.get(service) or _CODE_OF.get(_protocol(model), "ValidationException")
            raise AwsError(code, violation(known))
        self._apply(_RULES.get(service, {}), caller, asked)

    def _apply(self, rules: Mapping[str, Rule], caller: Caller, asked: Asked) -> None:
        rule = rules.get(asked.action)
        if rule is not None:
            rule(caller, asked.params)


@cache
def _model(service: str) -> Any:
    """The model of a service that the gate checks; None for one that has none here."""
    if service in _OWN:
        return None
    try:
        model = get_service_model(_BOTO_NAMES.get(service, service))
    except UnknownServiceError:
        return None
    return None if _protocol(model) == "rest-xml" else model


def _check_action(model: Any, request: Request) -> None:
    """An action that a service of the Query protocol does not have, as when a request is signed for another."""
    action = form_of(request).get("Action")
    if _protocol(model) == "query" and action and action not in model.operation_names:
        raise AwsError("InvalidAction", f"Could not find operation {action} for version {model.api_version}")


def _protocol(model: Any) -> str:
    return str(model.metadata["protocol"])


def _refusal(service: str, error: AwsError, request: Request) -> Reply:
    request_id = str(uuid.uuid4())
    if service == "s3":
        return Reply(error.status, "application/xml", storage.error_body(error, request_id), request_id)
    protocol = _protocol(_model(service))
    if protocol == "ec2":
        return Reply(error.status, "text/xml", _ec2_error(error, request_id), request_id)
    if protocol == "query" and "X-Amz-Target" not in request.headers:
        return Reply(error.status, "text/xml", query_error(error, request_id), request_id)
    text = json.dumps({"__type": error.code, "message": error.message, "Message": error.message}).encode()
    return Reply(error.status, "application/json", text, request_id, {"x-amzn-ErrorType": error.code})


def _ec2_error(error: AwsError, request_id: str) -> bytes:
    """EC2's own form of an error."""
    told = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    return f"<Response><Errors><Error>{told}</Error></Errors><RequestID>{request_id}</RequestID></Response>".encode()
