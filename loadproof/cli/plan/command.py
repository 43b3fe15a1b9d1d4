"""`loadproof plan PROFILE`: what the profile will do, before anything is deployed. Everything shown is predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Final, Literal, cast, get_args

import typer
from rich.status import Status

from loadproof.advice.alternatives import Alternatives, Goal
from loadproof.advice.comparison import Constraints, find_alternatives, settle
from loadproof.advice.document import plan_document
from loadproof.advice.page import page_of
from loadproof.capacity import Plan
from loadproof.capacity.bedrock import quota_outlook
from loadproof.capacity.cost import priced_elsewhere
from loadproof.cli.endings import format_by_ending, no_format
from loadproof.cli.pictures import ENDINGS, browser_for, write_page
from loadproof.cli.plan import text as plan_text
from loadproof.cli.plan import write as plan_write
from loadproof.cli.plan.bedrock import as_json, as_text
from loadproof.cli.printing import NARROWEST, no_place, print_parts, tables_on, write_file
from loadproof.cli.profile_names import ProfileFile
from loadproof.errors import ExitCode, InputError
from loadproof.profiles import Profile, load_profile
from loadproof.profiles.loader import environment_beside
from loadproof.simulation.plan import make_plan
from loadproof.terminal import Terminal, tell

Format = Literal["text", "json", "html"]
_LOG_COLUMNS: Final = 120
_FITTED: Final = (
    "requests, their turns and their mean rate are as fitted to the workload's trace, which `loadproof simulate` plays "
    "as it is"
)
GoalName = Literal[
    "minimum-latency",
    "maximum-throughput",
    "least-cost-per-hour",
    "least-cost-per-million-tokens",
    "least-cost-that-meets-the-objectives",
]


def plan(
    profile: ProfileFile,
    format: Annotated[
        Format | None,
        typer.Option(help="text for people, json for programs, html: a page; default: by the file's ending, else text"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="file to write instead (.json .txt .html .png .pdf); default of html: plan-<profile>.html"),
    ] = None,
    goal: Annotated[
        GoalName, typer.Option(help="what alternatives are ranked by")
    ] = "least-cost-that-meets-the-objectives",
    instances: Annotated[
        str | None, typer.Option(metavar="TYPE,...", help="compare these instance types only; default: all GPU types")
    ] = None,
    max_usd_per_hour: Annotated[
        float | None, typer.Option(min=0, help="leave out alternatives whose instances cost more an hour")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="change the profile to the recommendation; prints the diff")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="with --write: print the diff, change nothing")] = False,
) -> int:
    """Predict fit, latency, throughput, cost and objectives.

    Of a profile, and ranks what else could serve its workload.

    Of a model on Bedrock: what AWS's published quotas let through.

    Exit 1 when it does not fit, or when --write has nothing to recommend.
    """
    if dry_run and not write:
        raise InputError("--dry-run goes with --write; add it, or leave --dry-run out")
    if write and (output is not None or format not in (None, "text")):
        found = f"--format {format}" if output is None else f"--output {output}"
        raise InputError(f"--write prints a diff, found {found}; leave one of them out")
    format = _format_of(format, output)
    loaded = load_profile(profile)
    if loaded.backend == "bedrock":
        if write or instances is not None or max_usd_per_hour is not None or format == "html":
            raise InputError(f"{profile}: Bedrock shows no machines to choose from; only --format text and json apply")
        return _show_quotas(profile, loaded, format, output)
    types = tuple(dict.fromkeys(name.strip() for name in (instances or "").split(",") if name.strip()))
    if instances is not None and not types:
        raise InputError("--instances: expected instance types, found none; leave it out to compare all GPU types")
    constraints, best = Constraints(types, max_usd_per_hour), cast("Goal", goal.replace("-", " "))
    reckoned = _with_its_trace(profile, loaded)
    if write:
        return _write(profile, loaded, reckoned, best, constraints, dry_run=dry_run)
    return _show(profile, reckoned, best, constraints, format, output, fitted=reckoned is not loaded)


def _format_of(format: Format | None, output: Path | None) -> Format:
    """Refused before anything is predicted. Raises InputError; CouldNotRunError where a picture has no browser."""
    if output is None:
        return format or "text"
    chosen = format or format_by_ending(output, get_args(Format))
    if chosen is None:
        raise InputError(no_format(output, get_args(Format)))
    if output.suffix in ENDINGS and chosen != "html":
        raise InputError(f"--output {output}: is a picture of the page, found --format {chosen}; leave one of them out")
    if problem := no_place(output, "--output"):
        raise InputError(problem)
    browser_for(output)
    return cast("Format", chosen)


def _with_its_trace(file: Path, profile: Profile) -> Profile:
    """With the lengths, turns and rate of the trace that its arrivals name, where it is there. Raises InputError."""
    trace = profile.workload.arrivals.trace
    if trace is None:
        return profile
    from loadproof.bench.learn.traced import own_trace, planned_as  # noqa: PLC0415  most profiles name none

    with Terminal(stderr=True).status(f"reading {trace}"):
        traced = own_trace(file, profile)
    return profile if traced is None or traced.learned is None else planned_as(profile, traced.learned)


def _show_quotas(file: Path, profile: Profile, format: Format, output: Path | None) -> int:
    environment = environment_beside(file)
    outlook = quota_outlook(profile, environment.region if environment is not None else None)
    _put(as_json(outlook) if format == "json" else as_text(outlook), output)
    return ExitCode.OK


def _show(
    file: Path,
    profile: Profile,
    goal: Goal,
    constraints: Constraints,
    format: Format,
    output: Path | None,
    *,
    fitted: bool,
) -> int:
    with _searching():
        made = make_plan(profile)
        if fitted:
            made = replace(made, notes=(_FITTED, *made.notes))
        environment = environment_beside(file)
        if environment is not None and (elsewhere := priced_elsewhere(made.deployment.instance, environment.region)):
            made = replace(made, notes=(*made.notes, elsewhere))
        alternatives = find_alternatives(profile, goal, constraints, environment)
    if format == "json":
        _put(json.dumps(plan_document(made, alternatives), indent=2, allow_nan=False), output)
    elif format == "html":
        target = output or Path(f"plan-{made.profile_name}.html")
        write_page(page_of(made, alternatives, str(file)), target)
        print(target)
    else:
        _print_text(made, alternatives, str(file), output)
    return ExitCode.MISSED if made.memory.fits == "no" else ExitCode.OK


def _write(
    file: Path, profile: Profile, reckoned: Profile, goal: Goal, constraints: Constraints, *, dry_run: bool
) -> int:
    """The diff on standard output, so that it can be piped; words about it on standard error."""
    with _searching():
        settled = settle(reckoned, goal, constraints, environment_beside(file))
        back = settled.profile.model_copy(update={"workload": profile.workload})  # nothing of it is recommended
        settled = replace(settled, profile=back)
    if settled.recommendation.alternative is None:
        tell(f"{file}: left as it is: {goal}: {settled.recommendation.reason}")
        return ExitCode.MISSED
    edit = plan_write.edit_of(file, profile, settled)
    if not edit.diff:
        tell(f"{file}: nothing to change: {goal}: {settled.recommendation.reason}")
        return ExitCode.OK
    print(edit.diff, end="", flush=True)
    if not dry_run:
        plan_write.write(edit)
    done = "would change" if dry_run else "changed"
    tell(f"{file}: {done} for {goal}; all figures behind it are predicted")
    return ExitCode.OK


def _searching() -> Status:
    """A line on a terminal while hundreds of instances take their seconds; gone once it is done."""
    return Terminal(stderr=True).status("comparing machines, degrees, copies and servers")


def _put(text: str, output: Path | None) -> None:
    if output is None:
        print(text)
    else:
        write_file(output, f"{text}\n", "--output")
        print(output)


def _print_text(made: Plan, alternatives: Alternatives, profile: str, output: Path | None) -> None:
    if output is None:
        console, lines = tables_on(_LOG_COLUMNS, NARROWEST), None
    else:
        lines = StringIO()
        console = Terminal(file=lines, width=_LOG_COLUMNS, highlight=False)
    ascii_only = lines is None and console.options.ascii_only
    print_parts(plan_text.render(made, alternatives, profile, width=console.width, ascii_only=ascii_only), console)
    if lines is not None:
        _put(lines.getvalue().rstrip("\n"), output)
