"""How a profile's stack starts one benchmark: whom it asks, and with what."""

from __future__ import annotations

from loadproof.constructs.benchmark.bundle import Bundle
from loadproof.constructs.deployment import Deployment
from loadproof.profiles import profile_hash
from loadproof.profiles.gating import JOB_WAIT_S, LONGEST_GATED_RUN_S
from loadproof.profiles.names import BENCHMARK, stack_name
from loadproof.wire.documents import Document


def machine_arn(deployment: Deployment) -> str:
    """The environment's state machine of benchmarks, by its name: a stack of its own has it."""
    return deployment.arn("states", f"stateMachine:{stack_name(deployment.environment_name, BENCHMARK)}")


def benchmark_input(deployment: Deployment, bundle: Bundle, *, longest_s: int) -> Document:
    """What the state machine is started with."""
    profile = deployment.profile
    return {
        "profile": profile.name,
        "profile_sha256": profile_hash(profile),
        "endpoint": deployment.endpoint_name,
        "bundle": {"bucket": bundle.bucket, "key": bundle.key},
        "hosts": profile.benchmark.hosts,
        "most_s": longest_s,
        "wait_s": longest_s + JOB_WAIT_S - LONGEST_GATED_RUN_S,
    }
