"""Clients that send what they are told: the service refuses, not boto3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cloud_clients import boto3_client
from fact_replay import Given, Replay
from fact_tables import Fact

from loadproof.localcloud.local import LocalCloud

Faults = Callable[[Fact], list[str]]


@pytest.fixture(scope="module")
def faults(cloud: LocalCloud) -> Faults:
    """`faults(fact)`: what came otherwise than AWS answers."""
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            made[service] = boto3_client(cloud, service, parameter_validation=False, inject_host_prefix=False)
        return made[service]

    given = Given(client, "123456789012", cloud.region)
    return lambda fact: Replay(fact, client, given.new()).faults()
