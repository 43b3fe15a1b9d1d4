"""The gate: a request that AWS would refuse is answered here, with AWS's code, before moto sees it."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping

from loadproof.localcloud.controlplane.wire import AwsError, Caller, Reply, faults, query_error, violation
from loadproof.localcloud.refusals import dashboards, events, functions, iam, keys, logs, messaging, schedules, storage
from loadproof.localcloud.refusals.asked import Asked, Request, asked_of
from loadproof.localcloud.refusals.rules import Rule

log = logging.getLogger(__name__)
# By the service's name in a request's signature: boto3's name, and the code of a request that breaks its model.
_SERVICES = {
    "lambda": ("lambda", "ValidationException"),
    "iam": ("iam", "ValidationError"),
    "sns": ("sns", "InvalidParameter"),
    "kms": ("kms", "ValidationException"),
    "logs": ("logs", "InvalidParameterException"),
    "events": ("events", "ValidationException"),
    "scheduler": ("scheduler", "ValidationException"),
    "ssm": ("ssm", "ValidationException"),
    "monitoring": ("cloudwatch", "ValidationError"),
}
_RULES: dict[str, Mapping[str, Rule]] = {
    "lambda": functions.RULES,
    "iam": iam.RULES,
    "sns": messaging.RULES,
    "kms": keys.RULES,
    "logs": logs.RULES,
    "events": events.RULES,
    "scheduler": schedules.RULES,
    "monitoring": dashboards.RULES,
}
# Looked at before the model: AWS has a code of its own for them.
_FIRST: dict[str, Mapping[str, Rule]] = {"lambda": functions.FIRST}


class RefusalGate:
    """Knows what AWS refuses of the services that moto answers."""

    def knows(self, service: str) -> bool:
        """Whether it has anything to say of a service, named as in a request's signature."""
        return service == "s3" or service in _SERVICES

    def problem(self, service: str, caller: Caller, request: Request) -> Reply | None:
        """AWS's refusal; None when moto may answer. Called in a thread."""
        try:
            if service == "s3":
                storage.check(caller, request)
            elif service in _SERVICES:
                self._check(service, caller, request)
        except AwsError as error:
            return _refusal(service, error, request)
        except Exception:  # moto has an answer; a rule that does not understand a request must not take it away
            log.exception("%s: a refusal broke", service)
        return None

    def _check(self, service: str, caller: Caller, request: Request) -> None:
        boto_name, code = _SERVICES[service]
        asked = asked_of(boto_name, request)
        if asked is None:
            return
        self._apply(_FIRST.get(service, {}), caller, asked)
        known = [one for one in faults(asked.shape, asked.params) if not one.endswith("Member is not known")]
        if known:
            raise AwsError(code, violation(known))
        self._apply(_RULES.get(service, {}), caller, asked)

    def _apply(self, rules: Mapping[str, Rule], caller: Caller, asked: Asked) -> None:
        rule = rules.get(asked.action)
        if rule is not None:
            rule(caller, asked.params)


def _refusal(service: str, error: AwsError, request: Request) -> Reply:
    request_id = str(uuid.uuid4())
    if service == "s3":
        return Reply(error.status, "application/xml", storage.error_body(error, request_id), request_id)
    if service in ("iam", "sns") or (service == "monitoring" and "X-Amz-Target" not in request.headers):
        return Reply(error.status, "text/xml", query_error(error, request_id), request_id)
    text = json.dumps({"__type": error.code, "message": error.message, "Message": error.message}).encode()
    return Reply(error.status, "application/json", text, request_id, {"x-amzn-ErrorType": error.code})
