"""`loadproof <verb>`: one module a verb. Errors end as one message and the contract's exit code, never a traceback."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from loadproof.errors import ExitCode, LoadproofError

if TYPE_CHECKING:
    from typer._click import Command, Context  # Typer carries its own Click


class Verb(NamedTuple):
    """Where a verb is, and the line that `loadproof --help` shows of it: asked for help, nothing is imported."""

    place: str  # module:name, a function or a Typer of more verbs
    line: str


VERBS = {
    "check": Verb("check.command:check", "Check deploy profiles and environments. Exit 0 (warnings allowed) or 2."),
    "preflight": Verb(
        "preflight.command:preflight",
        "Look at the account before a deployment: quotas, weights, keys, names, addresses, images, alarms. Only reads.",
    ),
    "plan": Verb(
        "plan.command:plan",
        "Predict memory, latency, throughput, cost and objectives of a profile, and rank what else could serve it.",
    ),
    "predict": Verb(
        "predict.command:predict",
        "Predict throughput, latency and TTFT for each row of a CSV file; a row it cannot predict gets a reason.",
    ),
    "simulate": Verb(
        "simulate.command:simulate",
        "Simulate a profile's endpoint under traffic: waiting, time-outs, copies coming and going, cost.",
    ),
    "bench": Verb(
        "bench.command:bench",
        "Load a deployed endpoint level by level, then judge it: PASS, FAIL, INCONCLUSIVE or INVALID, with evidence.",
    ),
    "run": Verb(
        "run.command:run",
        "Invoke a model for every line of a file: in parallel, tried again where that helps, never paid for twice.",
    ),
    "compare": Verb(
        "compare:compare", "Hold runs against each other: containers, batching strategies, instance types, versions."
    ),
    "report": Verb(
        "report:report",
        "Show a run again: its table, verdict, page and files for other programs. Nothing is sent or judged again.",
    ),
    "verify": Verb(
        "report:verify",
        "Check that a run's files are those that were judged, that its verdict follows from them, and what it is for.",
    ),
    "import": Verb(
        "import_results:import_results",
        "Turn another program's results into a run folder: summary and report, requests too where the files hold them.",
    ),
    "calibrate": Verb(
        "calibrate.command:calibrate",
        "Refit server and fabric parameters to measured levels, with the shipped ones as priors, and write them down.",
    ),
    "demo": Verb(
        "demo:demo", "Local cloud up, check, plan, cdk deploy, benchmark every profile, verdicts, reports, down."
    ),
    "review": Verb(
        "review.command:review",
        "Say what a change does to what is deployed: resources, costs, objectives, findings. Offline, no credentials.",
    ),
    "schema": Verb(
        "schema:schema",
        "Print the JSON Schema of a profile, an environment, a run's summary or a line of `bench --live`.",
    ),
    "queue": Verb("queue.command:app", "The buffer in front of a deployed profile: its queue and dead letters."),
    "evidence": Verb(
        "evidence.command:app", "Runs that are kept: what they prove of which profile, and how they differ."
    ),
    "catalog": Verb(
        "catalog.command:app",
        "Accelerators, instances, models and container images: figures with their source and date.",
    ),
    "local": Verb("local:app", "AWS on loopback: deploy and benchmark with no account."),
}


def verb(name: str) -> Command:
    """A verb itself, imported."""
    module, attribute = VERBS[name].place.split(":")
    found = getattr(import_module(f"loadproof.cli.{module}"), attribute)
    group = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        group.add_typer(found, name=name)
    else:
        group.command(name)(found)
    return get_group(group).commands[name]


class Verbs(TyperGroup):
    """Knows every verb by its line of help, and imports the one that is asked."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, verb(name) if name else None, rest


app = typer.Typer(
    name="loadproof",
    cls=Verbs,
    help="LLM endpoints as code, proven under load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _verb in VERBS.items():
    app.command(_name, help=_verb.line)(lambda: None)


def main() -> None:
    """Entry point of the `loadproof` script."""
    # A terminal that cannot show a character gets a `?` in its place, never a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # No verb multiplies matrices, and numpy's threads for that spin while they wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is imported stays: to walk it again and again on the way is a tenth of a short run's start.
    gc.set_threshold(10_000)
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # said already, or a reader that went away; the interpreter must not try again
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or ExitCode.COULD_NOT_RUN
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one verb and return its exit code (see `ExitCode`)."""
    try:
        result = app(arguments, standalone_mode=False)
    except LoadproofError as error:
        _say(error)
        return int(error.exit_code)
    except typer.Exit as leaving:
        return leaving.exit_code
    except TyperException as usage:
        # Typer carries its own Click, whose usage errors show themselves: usage line, hint, message.
        show = getattr(usage, "show", None)
        if show is None:
            _say(usage.format_message())
        else:
            with suppress(OSError):
                show()
        return int(ExitCode.BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return int(ExitCode.INTERRUPTED)
    except OSError as error:  # a full disk, a folder that may not be written
        _say(error)
        return int(ExitCode.COULD_NOT_RUN)
    return int(result or 0)


def _say(message: object) -> None:
    from loadproof.terminal import Terminal  # noqa: PLC0415  Rich takes long to load, and most runs say no error

    with suppress(OSError):  # where nobody can be told, the exit code still says it
        Terminal(stderr=True, highlight=False).print(f"loadproof: {message}", markup=False, soft_wrap=True)
