"""From the options of `loadproof bench` to what will be run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from benchmarks.connect import parse_target, service_url
from benchmarks.objectives import Objective, parse_objective
from benchmarks.spec import BenchmarkSpec, Protocol, WorkloadSpec, fixed_tokens
from benchmarks.traces import read_trace
from invocation.codecs.converse import check_service_tier
from loadproof.cli.attempts import Attempts
from loadproof.cli.bench_load import LoadOptions, with_load
from loadproof.cli.bench_workload import WorkloadOptions, with_workload
from loadproof.errors import InputError

DEFAULT_CONCURRENCY = (1, 2, 4, 8)
DEFAULT_REQUESTS_PER_LEVEL = 32
DEFAULT_INPUT_TOKENS = 256
DEFAULT_OUTPUT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Options:
    """The options as given; None where the profile or the default decides."""

    protocol: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    component: str | None = None
    environment: str | None = None
    model: str | None = None
    service_tier: str | None = None
    load: LoadOptions = field(default_factory=LoadOptions)
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    warmup_requests: int | None = None
    request_timeout_s: float | None = None
    streaming: bool | None = None
    objectives: tuple[str, ...] = ()
    at_concurrency: int | None = None
    max_error_rate: float = 0.0


def spec_from_target(text: str, options: Options) -> BenchmarkSpec:
    """A spec without a profile. Raises InputError."""
    _refuse(options, "a PROFILE", component=options.component, env=options.environment)
    service = {"sagemaker": "SAGEMAKER_RUNTIME", "bedrock": "BEDROCK_RUNTIME"}.get(text.partition(":")[0])
    protocol = options.protocol or ("converse" if service == "BEDROCK_RUNTIME" else None)
    if protocol is None:
        raise InputError("--target needs --protocol tgi, lmi or openai: the payloads the server speaks")
    target = parse_target(
        text,
        cast(Protocol, protocol),
        streaming=options.streaming is not False,
        endpoint_url=options.endpoint_url or (service_url(service) if service else None),
        region=options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        model=options.model,
    )
    workload = WorkloadSpec(fixed_tokens(DEFAULT_INPUT_TOKENS), fixed_tokens(DEFAULT_OUTPUT_TOKENS))
    spec = BenchmarkSpec(target, workload, DEFAULT_CONCURRENCY, DEFAULT_REQUESTS_PER_LEVEL)
    return _with_options(spec, options)


def spec_from_profile(file: Path, options: Options, *, ask: bool = True) -> BenchmarkSpec:
    """The spec of a deployed profile; options override its benchmark. `ask` False asks AWS nothing.

    Raises InputError, CouldNotRunError.
    """
    from benchmarks.from_profile import ProfileChoice, spec_of_profile

    _refuse(options, "--target", protocol=options.protocol, region=options.region)
    choice = ProfileChoice(file, options.environment, options.component, options.endpoint_url, ask)
    return spec_of_profile(choice, lambda spec: _with_options(spec, options))


def _with_options(spec: BenchmarkSpec, options: Options) -> BenchmarkSpec:
    changes: dict[str, Any] = {
        name: value
        for name in ("warmup_requests", "request_timeout_s", "at_concurrency")
        if (value := getattr(options, name)) is not None
    }
    attempts = Attempts()
    make_workload = partial(with_workload, spec.workload, options.workload, chat=spec.target.chat)
    spec = replace(
        spec,
        workload=attempts.attempt(make_workload, spec.workload),
        objectives=attempts.attempt(partial(_merged, spec.objectives, options.objectives), spec.objectives),
        max_error_rate=options.max_error_rate,
        target=replace(
            spec.target,
            local_cloud=_local_cloud(spec.target.endpoint_url),
            model=options.model or spec.target.model,
            service_tier=options.service_tier or spec.target.service_tier,
            streaming=spec.target.streaming if options.streaming is None else options.streaming,
        ),
        **changes,
    )
    if options.at_concurrency is not None and options.load.rate is not None:
        attempts.complain(
            f"--at-concurrency {options.at_concurrency}: goes with --concurrency; name a rate by --at-rate"
        )
    spec = attempts.attempt(partial(with_load, spec, options.load), spec)
    attempts.attempt(partial(_check_traces, spec), None)
    attempts.attempt(partial(_check_streaming, spec), None)
    attempts.attempt(partial(_check_tier, spec), None)
    attempts.finish()
    return spec


def _check_traces(spec: BenchmarkSpec) -> None:
    """A bad trace is told before anything is asked of the endpoint."""
    for load in spec.fixed_loads:
        if load.trace is not None:
            read_trace(Path(load.trace))
            if spec.workload.dataset is not None:
                raise InputError("a trace has lengths of its own, and so has a dataset; leave one of them out")


def _check_streaming(spec: BenchmarkSpec) -> None:
    """An answer that comes whole has no first token to judge."""
    blind = [one.name for one in spec.objectives if one.latency and one.latency[0] != "e2e"]
    if blind and not spec.target.streaming:
        raise InputError(
            f"{', '.join(blind)}: without streaming an answer comes whole, so there would be no data; "
            "stream the answers (--stream), or judge by e2e and rates"
        )


def _check_tier(spec: BenchmarkSpec) -> None:
    tier = spec.target.service_tier
    if tier is not None and spec.target.kind != "bedrock":
        raise InputError(f"--service-tier {tier}: goes with a model of Bedrock's only; leave it out")
    check_service_tier(tier)


def _local_cloud(endpoint_url: str | None) -> Literal["twin", "http"] | None:
    """What a local cloud on this machine has behind that URL; None when no local cloud of ours serves there."""
    from emulator.state import known_states
    from invocation.credentials import is_loopback

    if endpoint_url is None or not is_loopback(endpoint_url):
        return None
    port = urlsplit(endpoint_url).port
    try:
        states = [state for state in known_states() if state.port == port]
    except OSError:  # no state folder to be had, so no local cloud of ours either
        return None
    if not states:
        return None
    return "http" if states[0].backend_url else "twin"


def _merged(planned: tuple[Objective, ...], given: tuple[str, ...]) -> tuple[Objective, ...]:
    """The profile's objectives with those given on the command line in place of their namesakes."""
    bounds = {objective.name: objective for objective in planned}
    for text in given:
        objective = parse_objective(text)
        bounds[objective.name] = objective
    return tuple(bounds.values())


def _refuse(options: Options, place: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} {value}: goes with {place} only; leave it out")
