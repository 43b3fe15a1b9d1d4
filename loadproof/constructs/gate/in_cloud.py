"""What starts a profile's benchmark in its account: a schedule, a gate, or a person with the right input."""

from __future__ import annotations

import json
from collections.abc import Sequence

from constructs import Construct, IConstruct

from loadproof.capacity.duration import gate_problem
from loadproof.constructs.benchmark.bundle import bundle_asset
from loadproof.constructs.benchmark.execution import benchmark_input
from loadproof.constructs.benchmark.schedule import BenchmarkSchedule
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.constructs.gate.infrastructure import Gate
from loadproof.errors import InputError
from loadproof.profiles.gating import LONGEST_RUN_S


def benchmark_in_cloud(scope: Construct, *, endpoint: ModelEndpoint, after: Sequence[IConstruct]) -> str | None:
    """The input of the environment's benchmark as JSON, or None where the environment has none.

    A gate waits for `after`. Raises InputError where a gate or a schedule cannot be had.
    """
    deployment, wanted = endpoint.deployment, endpoint.deployment.profile.benchmark
    if deployment.environment.benchmark is None:
        if wanted.gate != "none" or wanted.schedule is not None:
            raise InputError("benchmark: gate and schedule need `benchmark:` with an image in environment.yaml")
        return None
    bundle = bundle_asset(scope, deployment)
    if wanted.schedule is not None:
        BenchmarkSchedule(scope, "BenchmarkSchedule", deployment=deployment, bundle=bundle, schedule=wanted.schedule)
    too_long = gate_problem(deployment.profile)
    if too_long is not None:
        raise InputError(f"LP269 benchmark.gate: {'; '.join(too_long)}")
    if wanted.gate != "none":
        Gate(scope, "Gate", endpoint=endpoint, bundle=bundle, after=after)
    return json.dumps(benchmark_input(deployment, bundle, longest_s=LONGEST_RUN_S))
