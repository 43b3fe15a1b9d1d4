"""From the options of `loadproof bench` to what will be run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

import typer

from loadproof.bench.connect import parse_target, service_url
from loadproof.bench.objectives import Objective, parse_objective
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.traces import trace_notes, trace_of
from loadproof.cli.attempts import Complaints
from loadproof.cli.bench.load import LoadOptions, with_load
from loadproof.cli.bench.workload import WorkloadOptions, with_workload
from loadproof.cli.options import EndpointUrl, Env
from loadproof.errors import InputError
from loadproof.invocation.codecs.converse import check_service_tier
from loadproof.invocation.credentials import is_loopback
from loadproof.invocation.transports import check_prefix_aware_id
from loadproof.localcloud.state import known_states
from loadproof.terminal import tell
from loadproof.wire.payloads import ContainerProtocol, Protocol

DEFAULT_CONCURRENCY = (1, 2, 4, 8)
DEFAULT_REQUESTS_PER_LEVEL = 32
DEFAULT_INPUT_TOKENS = 256
DEFAULT_OUTPUT_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Source:
    """Which deployed model: what a PROFILE is asked for, or a --target."""

    HEADING: ClassVar = "Which model"

    target: Annotated[
        str | None,
        typer.Option(
            help="instead of a profile: sagemaker://ENDPOINT[/COMPONENT], bedrock://MODEL (an id or ARN) or "
            "http(s)://HOST[:PORT][/PATH]; without PATH /invocations for tgi and lmi, /v1/completions for openai"
        ),
    ] = None
    protocol: Annotated[Protocol | None, typer.Option(help="payloads the target speaks (bedrock: converse)")] = None
    endpoint_url: EndpointUrl = None
    region: Annotated[
        str | None, typer.Option(help="of an AWS target; default: AWS_REGION, AWS_DEFAULT_REGION, us-east-1")
    ] = None
    component: Annotated[str | None, typer.Option(help="component of the profile; default: its own model")] = None
    env: Env = None
    model: Annotated[str | None, typer.Option(help="model name to send, where the server wants one")] = None


@dataclass(frozen=True, slots=True)
class Options(Source):
    """The options as given; None where the profile or the default decides."""

    HEADING: ClassVar = "Requests and objectives"

    service_tier: Annotated[
        str | None, typer.Option(help="of a model of Bedrock's: default, priority, flex or reserved")
    ] = None
    prefix_aware_id: Annotated[
        str | None,
        typer.Option(
            help="of this run, for an endpoint routed PREFIX_AWARE: alike prompts of one id share an instance"
        ),
    ] = None
    load: LoadOptions = field(default_factory=LoadOptions)
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    warmup: Annotated[
        int | None, typer.Option(min=0, help="requests before each level that count in no figure (default: 4)")
    ] = None
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="for one request (default: 120)")] = None
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="of prompts and intervals (default: 0)")] = None
    stream: Annotated[bool | None, typer.Option(help="stream the answers (default: yes)")] = None
    objective: Annotated[
        list[str] | None,
        typer.Option(help="bound to judge by, repeatable: ttft_p95_ms=500; replaces the profile's of that name"),
    ] = None
    at_concurrency: Annotated[
        int | None, typer.Option(min=1, help="level the objectives must hold at (default with --target: the highest)")
    ] = None
    at_rate: Annotated[float | None, typer.Option(help="rate the objectives must hold at (default: the highest)")] = (
        None
    )
    max_error_rate: Annotated[
        float, typer.Option(min=0, max=1, help="share of all requests that may fail when no objective says otherwise")
    ] = 0.0


def spec_from_target(text: str, options: Options) -> BenchmarkSpec:
    """A spec without a profile. Raises InputError."""
    _refuse(options, "a PROFILE", component=options.component, env=options.env)
    service = {"sagemaker": "SAGEMAKER_RUNTIME", "bedrock": "BEDROCK_RUNTIME"}.get(text.partition(":")[0])
    protocol = options.protocol or ("converse" if service == "BEDROCK_RUNTIME" else None)
    if protocol is None:
        *others, last = get_args(ContainerProtocol)
        raise InputError(f"--target needs --protocol {', '.join(others)} or {last}: the payloads the server speaks")
    target = parse_target(
        text,
        protocol,
        streaming=options.stream is not False,
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
    from loadproof.bench.from_profile import ProfileChoice, spec_of_profile  # noqa: PLC0415  brings pydantic along

    _refuse(options, "--target", protocol=options.protocol, region=options.region)
    choice = ProfileChoice(file, options.env, options.component, options.endpoint_url, ask)
    return spec_of_profile(choice, lambda spec: _with_options(spec, options))


def _with_options(spec: BenchmarkSpec, options: Options) -> BenchmarkSpec:
    given = {
        "warmup_requests": options.warmup,
        "request_timeout_s": options.timeout_s,
        "at_concurrency": options.at_concurrency,
        "at_requests_per_s": options.at_rate,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    attempts = Complaints()
    planned = spec.workload if options.seed is None else replace(spec.workload, seed=options.seed)
    make_workload = partial(with_workload, planned, options.workload, chat=spec.target.chat)
    spec = replace(
        spec,
        workload=attempts.attempt(make_workload, spec.workload),
        objectives=attempts.attempt(partial(_merged, spec.objectives, options.objective or ()), spec.objectives),
        max_error_rate=options.max_error_rate,
        target=replace(
            spec.target,
            local_cloud=_local_cloud(spec.target.endpoint_url),
            model=options.model or spec.target.model,
            service_tier=options.service_tier or spec.target.service_tier,
            prefix_aware_id=options.prefix_aware_id or spec.target.prefix_aware_id,
            streaming=spec.target.streaming if options.stream is None else options.stream,
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
    attempts.attempt(partial(_check_prefix_aware_id, spec), None)
    attempts.finish()
    return spec


def _check_traces(spec: BenchmarkSpec) -> None:
    """A bad trace is told before anything is asked of the endpoint."""
    for load in spec.fixed_loads:
        if load.trace is not None:
            trace = trace_of(Path(load.trace), load.speed or 1.0, load.duration_s or math.inf)
            for note in trace_notes(Path(load.trace), trace, blocks_used=True):
                tell(note)
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


def _check_prefix_aware_id(spec: BenchmarkSpec) -> None:
    found = spec.target.prefix_aware_id
    if found is not None and spec.target.kind != "sagemaker":
        raise InputError(f"--prefix-aware-id {found}: goes with an endpoint of SageMaker's only; leave it out")
    check_prefix_aware_id(found)


def _local_cloud(endpoint_url: str | None) -> Literal["twin", "http"] | None:
    """What a local cloud on this machine has behind that URL; None when no local cloud of ours serves there."""
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


def _merged(planned: tuple[Objective, ...], given: Iterable[str]) -> tuple[Objective, ...]:
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
