"""`loadproof bench`: load on what is deployed, measured and judged."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadproof.cli.bench_remote import (
    DEFAULT_INSTANCE_TYPE,
    DryRun,
    Engine,
    EngineChoice,
    HostCount,
    JobImage,
    JobInstanceType,
    JobOptions,
    JobRole,
    JobSecurityGroup,
    JobSubnet,
    Remote,
    Results,
)
from loadproof.cli.outputs import (
    Against,
    Csv,
    Format,
    Junit,
    Markdown,
    Outputs,
    Tolerance,
    show,
)
from loadproof.errors import InputError

if TYPE_CHECKING:
    from benchmarks.spec import BenchmarkSpec


class TargetProtocol(StrEnum):
    """Payloads the server speaks."""

    TGI = "tgi"
    LMI = "lmi"
    OPENAI = "openai"
    CONVERSE = "converse"


class AnswerLength(StrEnum):
    """What an answer's length asked for is."""

    ASKED = "asked"
    AT_MOST = "at_most"


class Arrivals(StrEnum):
    """Processes of an open loop."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


def bench(
    profile: Annotated[Path | None, typer.Argument(help="profile whose deployed endpoint to load")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="instead of a profile: sagemaker://ENDPOINT[/COMPONENT], bedrock://MODEL (an id or ARN) or "
            "http(s)://HOST[:PORT][/PATH]; without PATH /invocations for tgi and lmi, /v1/completions for openai"
        ),
    ] = None,
    protocol: Annotated[
        TargetProtocol | None, typer.Option(help="payloads the target speaks (bedrock: converse)")
    ] = None,
    endpoint_url: Annotated[
        str | None, typer.Option(help="AWS endpoint URL, for example a local cloud's; default: AWS_ENDPOINT_URL")
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="of an AWS target; default: AWS_REGION, AWS_DEFAULT_REGION, us-east-1")
    ] = None,
    component: Annotated[str | None, typer.Option(help="component of the profile; default: its own model")] = None,
    env: Annotated[str | None, typer.Option(help="environment; default: the folder the profile lies in")] = None,
    model: Annotated[str | None, typer.Option(help="model name to send, where the server wants one")] = None,
    service_tier: Annotated[
        str | None, typer.Option(help="of a model of Bedrock's: default, priority, flex or reserved")
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            help="requests in flight, one level each: 1,2,4 (default with --target: 1,2,4,8); "
            "1..64 doubles until a stop rule ends it"
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="open loop: requests per second, one level each: 1,2.5; 1..64 doubles until a stop rule"),
    ] = None,
    arrivals: Annotated[
        Arrivals | None, typer.Option(help="how an open loop's requests follow one another (default: poisson)")
    ] = None,
    burstiness: Annotated[
        float | None, typer.Option(min=0.001, help="of gamma arrivals: 1 is Poisson, below 1 comes in bursts")
    ] = None,
    ramp_from: Annotated[
        float | None, typer.Option(min=0, help="rate to start from, growing to --rate over --duration-s")
    ] = None,
    ramp_s: Annotated[float | None, typer.Option(min=0, help="open a closed loop's slots over that long")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="recorded traffic: CSV or JSONL with timestamp_s, input_tokens, output_tokens")
    ] = None,
    duration_s: Annotated[
        float | None, typer.Option(min=0.001, help="end a level after that long (a soak: hours)")
    ] = None,
    phase: Annotated[
        list[str] | None,
        typer.Option(help="a level of its own, repeatable: process=poisson,requests_per_s=2,duration_s=30"),
    ] = None,
    find_max: Annotated[
        bool, typer.Option("--find-max", help="search the highest --rate or --concurrency that meets the objectives")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=9, help="of --find-max: measurements of either end (default: 3)")
    ] = None,
    drain_s: Annotated[
        float | None,
        typer.Option(min=0, help="longest wait for the last answers of an open or timed level; the rest is unfinished"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="processes to share the load, for what one cannot (default: 1; at most one a core)"
        ),
    ] = None,
    requests_per_level: Annotated[
        int | None,
        typer.Option(min=1, help="requests at each level (default with --target: 32, and 2 a slot at least)"),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="by name: chat-256-256, generate-32-128, classify-256-32, summarize-3840-256"),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            help="prompt length: 256, normal:MEAN:STDDEV, lognormal:MEAN:STDDEV, uniform:LOWEST:HIGHEST or "
            "empirical:FILE (default with --target: 256)"
        ),
    ] = None,
    output_tokens: Annotated[
        str | None, typer.Option(help="answer length, in the same forms (default with --target: 64)")
    ] = None,
    answer_length: Annotated[
        AnswerLength | None,
        typer.Option(help="at_most: the model may end its answers before --output-tokens (default: asked)"),
    ] = None,
    shared_prefix_tokens: Annotated[
        int | None, typer.Option(min=0, help="beginning that all prompts have in common")
    ] = None,
    unique_prompts: Annotated[
        bool | None,
        typer.Option(
            "--unique-prompts/--repeat-prompts",
            help="no two prompts begin alike, so that no cache helps (default; a dataset is sent as it is)",
        ),
    ] = None,
    turns: Annotated[
        int | None, typer.Option(min=1, max=256, help="turns of a conversation, each sent with all before it")
    ] = None,
    think_time_s: Annotated[
        float | None, typer.Option(min=0, help="between an answer and the conversation's next turn")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="prompts to send: ShareGPT's JSON, or JSONL with prompt or messages")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="the model's tokenizer.json, to count tokens by (needs loadproof[tokenizers])")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="send a picture of WIDTHxHEIGHT pixels with each request (chat completions)")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="requests before each level that count in no figure (default: 4)")
    ] = None,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="for one request (default: 120)")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="of prompts and intervals (default: 0)")
    ] = None,
    stream: Annotated[bool | None, typer.Option(help="stream the answers (default: yes)")] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(help="bound to judge by, repeatable: ttft_p95_ms=500; replaces the profile's of that name"),
    ] = None,
    at_concurrency: Annotated[
        int | None, typer.Option(min=1, help="level the objectives must hold at (default with --target: the highest)")
    ] = None,
    at_rate: Annotated[
        float | None, typer.Option(help="rate the objectives must hold at (default: the highest)")
    ] = None,
    max_error_rate: Annotated[
        float, typer.Option(min=0, max=1, help="share of all requests that may fail when no objective says otherwise")
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(help="new or empty folder for the results; default runs/<run-id>")] = None,
    resume: Annotated[Path | None, typer.Option(help="continue the run in this folder")] = None,
    remote: Remote = False,
    hosts: HostCount = None,
    results: Results = None,
    job_role: JobRole = None,
    job_image: JobImage = None,
    job_instance_type: JobInstanceType = DEFAULT_INSTANCE_TYPE,
    job_subnet: JobSubnet = None,
    job_security_group: JobSecurityGroup = None,
    engine: EngineChoice = Engine.LOADPROOF,
    dry_run: DryRun = False,
    against: Against = None,
    tolerance: Tolerance = 0.05,
    junit: Junit = None,
    csv: Csv = None,
    markdown: Markdown = None,
    format: Annotated[Format, typer.Option(help="text for people; json prints summary.json and nothing else")] = (
        Format.TEXT
    ),
) -> int:
    """Load a deployed endpoint level by level, then judge it: PASS, FAIL, INCONCLUSIVE or INVALID, with evidence.

    Exit code: 0 PASS · 1 FAIL, INCONCLUSIVE or a regression, also by any failed request unless an objective or
    --max-error-rate allows it · 2 bad usage · 3 could not run, or INVALID: the client was too slow to measure ·
    130 interrupted.
    """
    from loadproof.cli.bench_load import LoadOptions, refuse_crowd
    from loadproof.cli.bench_spec import Options, spec_from_profile, spec_from_target
    from loadproof.cli.bench_workload import WorkloadOptions

    options = Options(
        protocol=protocol.value if protocol else None,
        endpoint_url=endpoint_url,
        region=region,
        component=component,
        environment=env,
        model=model,
        service_tier=service_tier,
        load=LoadOptions(
            concurrency=concurrency,
            rate=rate,
            arrivals=arrivals.value if arrivals else None,
            burstiness=burstiness,
            ramp_from=ramp_from,
            ramp_s=ramp_s,
            trace=str(trace) if trace else None,
            duration_s=duration_s,
            requests_per_level=requests_per_level,
            phases=tuple(phase or ()),
            find_max=find_max,
            repeats=repeats,
            drain_s=drain_s,
            workers=workers,
            at_rate=at_rate,
        ),
        workload=WorkloadOptions(
            name=workload,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            seed=seed,
            shared_prefix_tokens=shared_prefix_tokens,
            unique_prompts=unique_prompts,
            turns=turns,
            think_time_s=think_time_s,
            dataset=str(dataset) if dataset else None,
            tokenizer=str(tokenizer) if tokenizer else None,
            image=image,
            answer_length=answer_length.value if answer_length else None,
        ),
        warmup_requests=warmup,
        request_timeout_s=timeout_s,
        streaming=stream,
        objectives=tuple(objective or ()),
        at_concurrency=at_concurrency,
        max_error_rate=max_error_rate,
    )
    job = JobOptions(
        remote, hosts, results, job_role, job_image, job_instance_type,
        tuple(job_subnet or ()), tuple(job_security_group or ()), engine, dry_run,
    )  # fmt: skip
    job.check(resume)
    if not job.wanted:
        refuse_crowd(workers)
    if profile is not None and target is not None:
        raise InputError("give either a PROFILE or --target, not both")
    spec = None
    if profile is not None:
        spec = spec_from_profile(profile, options, ask=not dry_run)
    elif target is not None:
        spec = spec_from_target(target, options)
    elif resume is None:
        raise InputError("give a PROFILE or a --target, for example: loadproof bench deploy_profiles/dev/chat.yaml")
    elif options != Options():
        raise InputError(
            "--resume alone continues the run as planned; to check other options against its plan, "
            "repeat the PROFILE or --target too"
        )
    if dry_run:
        assert spec is not None
        return job.print_requests(spec)
    return _run(spec, out, resume, format, Outputs(junit, csv, markdown, against, tolerance), job)


def _run(
    spec: BenchmarkSpec | None, out: Path | None, resume: Path | None, format: Format, outputs: Outputs, job: JobOptions
) -> int:
    """Run or resume with progress on stderr, then print the summary or the tables on stdout."""
    from functools import partial

    from benchmarks.console import ProgressView
    from benchmarks.job import resume_benchmark, run_benchmark
    from benchmarks.plan import read_plan
    from loadproof.terminal import Terminal

    if resume is not None and out is not None and out.resolve() != resume.resolve():
        raise InputError(f"--out {out} and --resume {resume} differ; a resumed run stays in its folder")
    outputs.check()
    with ProgressView(Terminal(stderr=True, highlight=False)) as view:
        if resume is not None:
            if hosts := read_plan(resume).conditions.get("hosts"):
                view.note(f"{len(hosts)} hosts sent this run; what is missing of it goes out from this machine alone")
            result = resume_benchmark(resume, view.show, spec, observe=True)
        else:
            assert spec is not None
            for load in spec.fixed_loads:
                if load.never_full:
                    view.note(load.never_full)
            run = job.run if job.wanted else partial(run_benchmark, observe=True)
            result = run(spec, view.show, out)
    return show(result, outputs, format)
