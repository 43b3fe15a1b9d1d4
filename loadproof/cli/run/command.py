"""`loadproof run`: a file of prompts through a deployed model, as fast as it takes them, each paid for once."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Annotated, ClassVar, cast

import typer

from loadproof.bench.spec import BenchmarkSpec, Target
from loadproof.capacity import deployment_of
from loadproof.capacity.memory import batch_limits
from loadproof.cli.bench.spec import Options, Source, spec_from_profile, spec_from_target
from loadproof.cli.options import Format, grouped
from loadproof.cli.profile_names import argument
from loadproof.cli.run.drive import SendingPlan, drive, print_ended, target_name
from loadproof.errors import InputError
from loadproof.invocation import GenerationRequest
from loadproof.invocation.adaptive import Bound, Metric
from loadproof.invocation.concurrency import Pace
from loadproof.invocation.journal import Journal
from loadproof.invocation.many import MOST_IN_FLIGHT, pace_of
from loadproof.invocation.prompt_file import Input, Shape, check_input, check_stored
from loadproof.invocation.quotas import Quota, Quotas
from loadproof.loads import MOST_CONCURRENCY
from loadproof.profiles import components_of, load_profile
from loadproof.profiles.on_bedrock import bedrock_settings
from loadproof.wire.payloads import Protocol

CHARACTERS_A_TOKEN = 4  # an estimate for quotas; what the server counted replaces it when the answer is there


@dataclass(frozen=True, slots=True)
class RunSource(Source):
    """As `loadproof bench` names it, in fewer words."""

    target: Annotated[
        str | None,
        typer.Option(
            help="instead of a profile: sagemaker://ENDPOINT[/COMPONENT], bedrock://MODEL or http(s)://HOST[:PORT][/PATH]"
        ),
    ] = None
    protocol: Annotated[Protocol | None, typer.Option(help="payloads the target speaks")] = None
    region: Annotated[str | None, typer.Option(help="of a target; default: AWS_REGION, AWS_DEFAULT_REGION")] = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is sent, how fast, and where the answers go."""

    HEADING: ClassVar = "Items"

    input: Annotated[
        Path | None,
        typer.Option(help="JSON Lines with prompt or messages; key and max_tokens where a line has its own"),
    ] = None
    output: Annotated[Path | None, typer.Option(help="file for the results, a JSON line an item")] = None
    concurrency: Annotated[
        str, typer.Option(help="auto finds how many requests in flight are best; or a whole number")
    ] = "auto"
    max_tokens: Annotated[int, typer.Option(min=1, max=1_000_000, help="longest answer of a line without its own")] = (
        256
    )
    chain_by: Annotated[
        str | None,
        typer.Option(help="field that names a line's session: its items go one after another, with the answers before"),
    ] = None
    ordered: Annotated[bool, typer.Option("--ordered", help="leave the results in the order of the input")] = False
    resume: Annotated[bool, typer.Option("--resume", help="go on with an --output: send what has no result")] = False
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="with --resume: send again what failed for good")
    ] = False
    requests_per_min: Annotated[
        float | None, typer.Option(min=1, help="quota to stay within, as Bedrock's per model and region")
    ] = None
    tokens_per_min: Annotated[
        float | None, typer.Option(min=1, help="the same of tokens: input and the longest answer are taken on sending")
    ] = None
    ignore_objectives: Annotated[
        bool, typer.Option("--ignore-objectives", help="let auto go beyond the profile's latency objectives")
    ] = False
    timeout_s: Annotated[float, typer.Option(min=0.001, help="for one request")] = 600.0
    patience_s: Annotated[
        float, typer.Option(min=0, help="how long to wait for an endpoint that answers nothing, e.g. scaled to zero")
    ] = 1800.0


@grouped
def run(
    *,
    profile: Annotated[Path | None, argument("profile whose deployed model to invoke")] = None,
    source: RunSource,
    options: RunOptions,
    format: Annotated[Format, typer.Option(help="text for people; json prints the totals as one document")] = "text",
) -> int:
    """Invoke a model for every line of a file.

    In parallel, tried again where that helps, never paid for twice.

    Results are appended as they end; a run that was killed goes on with --resume. Ctrl-C sends nothing more and waits
    for what is in flight; a second one drops it.

    Exit code: 0 every item answered · 1 some failed · 2 bad usage or input · 3 could not run, or the endpoint stopped
    answering · 130 interrupted.
    """
    input, output = _files(options)
    checked = check_input(Shape(input, options.chain_by, options.max_tokens))
    spec = _spec(profile, source)
    chat = _chat(spec.target, checked)
    admitted = admitted_by(profile, source.component) if profile is not None else None
    pace = _pace(spec, admitted, options.concurrency, options.ignore_objectives)
    waits = {"patience_s": options.patience_s, **_quotas(options.requests_per_min, options.tokens_per_min)}
    with Journal(output, resume=options.resume) as journal:
        check_stored(checked, journal, target_name(spec.target))
        plan = SendingPlan(
            checked, spec.target, pace, chat, options.timeout_s, options.retry_failed, options.ordered, waits
        )
        return print_ended(drive(plan, journal), journal, as_json=format == "json")


def _files(options: RunOptions) -> tuple[Path, Path]:
    """Raises InputError where one is missing, or both are the same."""
    input, output = options.input, options.output
    if input is None or output is None:
        raise InputError("give --input and --output, for example: --input prompts.jsonl --output results.jsonl")
    if options.retry_failed and not options.resume:
        raise InputError("--retry-failed goes with --resume: it sends again what failed in an earlier run")
    if output.resolve() == input.resolve():
        raise InputError(f"--output {output}: is the input; give another file")
    return input, output


def _spec(profile: Path | None, source: Source) -> BenchmarkSpec:
    """Where to send, and the objectives, as `loadproof bench` resolves them. Raises InputError, CouldNotRunError."""
    if (profile is None) == (source.target is None):
        raise InputError("give a PROFILE or a --target, for example: loadproof run deploy_profiles/dev/chat.yaml …")
    asked = Options(**asdict(source))
    spec = spec_from_profile(profile, asked) if profile is not None else spec_from_target(source.target or "", asked)
    # The text of an answer is kept as it streams, and a stream may take longer than SageMaker's 60 s.
    return replace(spec, target=replace(spec.target, streaming=True))


def _chat(target: Target, checked: Input) -> bool:
    """Speak in chat messages? Where the input has some, and for sessions. Raises InputError where that cannot be."""
    if target.chat:
        return True
    if target.kind == "sagemaker":
        return checked.has_messages or bool(checked.sessions)
    if checked.has_messages:
        raise InputError(
            f"{checked.shape.path}: has `messages`, which {target.told.endpoint} does not take; "
            "give a --target that ends in /chat/completions, or lines with `prompt`"
        )
    return False


def _pace(spec: BenchmarkSpec, admitted: int | None, concurrency: str, ignore_objectives: bool) -> Pace:
    """Raises InputError for a number that is none, or more than the profile admits."""
    if concurrency == "auto":
        wanted = () if ignore_objectives else spec.objectives
        latencies = [(one.latency, one.bound) for one in wanted if one.latency and one.latency[0] != "itl"]
        bounds = [Bound(cast("Metric", metric), percent / 100, ms) for (metric, percent), ms in latencies]
        return pace_of("auto", most=min(MOST_IN_FLIGHT, admitted or MOST_IN_FLIGHT), bounds=bounds)
    if not (concurrency.isascii() and concurrency.isdigit() and 1 <= int(concurrency) <= MOST_CONCURRENCY):
        raise InputError(
            f"--concurrency {concurrency!r}: expected auto or a whole number from 1 to {MOST_CONCURRENCY:,}"
        )
    if admitted is not None and int(concurrency) > admitted:
        raise InputError(
            f"--concurrency {concurrency}: the profile admits {admitted:,} requests at once; "
            "lower it, or raise the profile's most copies or its server's limits (on Bedrock bedrock.max_concurrency)"
        )
    return pace_of(int(concurrency))


def admitted_by(file: Path, component: str | None) -> int:
    """Requests that all copies of a profile's model may hold at once; on Bedrock, the most its profile allows."""
    profile = load_profile(file)
    if profile.backend != "sagemaker" or profile.endpoint is None:
        return bedrock_settings(profile).max_concurrency
    model = next(one for one in components_of(profile) if one.name == (component or "main"))
    plain = profile.endpoint.hosting == "plain_variant"  # there every instance has one copy
    copies = profile.endpoint.max_instances if plain else model.copies.max
    return batch_limits(deployment_of(profile, model)).max_admitted_requests * copies


def _quotas(requests_per_min: float | None, tokens_per_min: float | None) -> dict[str, object]:
    """The options of the engine that keep quotas; none where there are none."""
    if requests_per_min is None and tokens_per_min is None:
        return {}
    return {"quotas": Quotas(Quota(requests_per_min, tokens_per_min), time.monotonic(), _estimated_tokens)}


def _estimated_tokens(request: GenerationRequest) -> int:
    characters = len(request.prompt) + sum(len(message.text) for message in request.history)
    return ceil(characters / CHARACTERS_A_TOKEN)
