"""Functions and mappings as Lambda describes them: what moto leaves out of its answers (recorded from AWS)."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any, TypeAlias

import moto.awslambda.models

from loadproof.wire.documents import Document

Moto: TypeAlias = Any  # a class of moto, or its object


def install() -> None:
    """Moto's answers have what AWS's have; what a request says of logs is kept."""
    function: Moto = moto.awslambda.models.LambdaFunction
    mapping: Moto = moto.awslambda.models.EventSourceMapping
    made, changed, described = function.__init__, function.update_configuration, function.get_configuration
    mapped = mapping.get_configuration

    def make(self: Moto, account_id: str, spec: Document, *more: Moto, **named: Moto) -> None:
        self.logging_config = dict(spec.get("LoggingConfig") or {})
        made(self, account_id, spec, *more, **named)

    def change(self: Moto, updates: Document) -> Moto:
        self.logging_config |= updates.get("LoggingConfig") or {}
        return changed(self, updates)

    def describe(self: Moto, on_create: bool = False) -> Document:
        found = {name: value for name, value in described(self, on_create).items() if (name, value) != ("Layers", [])}
        found["LoggingConfig"] = {
            "LogFormat": "Text",
            "LogGroup": f"/aws/lambda/{self.function_name}",
            **self.logging_config,
        }
        if self.package_type == "Zip":
            digest = hashlib.sha256(str(self.run_time).encode()).hexdigest()
            found["RuntimeVersionConfig"] = {"RuntimeVersionArn": f"arn:aws:lambda:{self.region}::runtime:{digest}"}
        return {**found, "RevisionId": _revision(found)}

    def describe_mapping(self: Moto) -> Document:
        found: Document = mapped(self)
        plain = {"MaximumBatchingWindowInSeconds": 0, "FunctionResponseTypes": []}
        told = {name: value for name, value in found.items() if value is not None}
        return {**found, **plain, **told, "StateTransitionReason": "USER_INITIATED"}

    function.__init__, function.update_configuration, function.get_configuration = make, change, describe
    mapping.get_configuration = describe_mapping


def _revision(configuration: Document) -> str:
    """Another one for every other configuration."""
    told = {name: value for name, value in configuration.items() if name not in ("LastUpdateStatus", "State")}
    return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(told, sort_keys=True, default=str)))
