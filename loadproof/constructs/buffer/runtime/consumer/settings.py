"""The function's environment, as loadproof/constructs/buffer/consumer.py writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from loadproof.wire.payloads import Protocol


@dataclass(frozen=True, slots=True)
class Settings:
    """Where requests go, where answers go, and how long anything may take.

    `endpoint` is a SageMaker endpoint, or with protocol `converse` a Bedrock model id or inference profile;
    `component` is None for a plain variant; `context_tokens` 0 where the model's context is not known. `retention_s` is
    a day less than the queue's own: so long a backlog that is too old can still become dead letters.
    """

    buffer: str
    endpoint: str
    component: str | None
    protocol: Protocol
    revision: str
    queue_url: str
    dead_letter_url: str
    table: str
    bucket: str
    prefix: str
    callbacks: frozenset[str]
    timeout_s: float
    idle_timeout_s: float
    lease_s: float
    max_attempts: int
    max_in_flight: int
    context_tokens: int
    retention_s: float
    most_message_bytes: int
    drain_s: float

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> Settings:
        return cls(
            buffer=variables.get("BUFFER_NAME", variables["ENDPOINT_NAME"]),
            endpoint=variables["ENDPOINT_NAME"],
            component=variables.get("COMPONENT_NAME"),
            protocol=cast("Protocol", variables["PROTOCOL"]),
            revision=variables["MODEL_REVISION"],
            queue_url=variables["QUEUE_URL"],
            dead_letter_url=variables["DEAD_LETTER_URL"],
            table=variables["CLAIMS_TABLE"],
            bucket=variables["RESULTS_BUCKET"],
            prefix=variables["RESULTS_PREFIX"],
            callbacks=frozenset(variables.get("CALLBACKS", "").split()),
            timeout_s=float(variables["INVOCATION_TIMEOUT_S"]),
            idle_timeout_s=float(variables["IDLE_TIMEOUT_S"]),
            lease_s=float(variables["LEASE_S"]),
            max_attempts=int(variables["MAX_ATTEMPTS"]),
            max_in_flight=int(variables["MAX_IN_FLIGHT"]),
            context_tokens=int(variables.get("CONTEXT_TOKENS", "0")),
            retention_s=float(variables["RETENTION_S"]),
            most_message_bytes=int(variables.get("MAX_MESSAGE_BYTES", "1048576")),
            drain_s=float(variables.get("DRAIN_S", "25")),
        )
