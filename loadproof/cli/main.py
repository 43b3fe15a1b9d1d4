"""`loadproof <verb>`: one module a verb. Errors end as one message and the contract's exit code, never a traceback."""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from loadproof.cli.help import Group, VerbCommand, VerbGroup, by_group
from loadproof.cli.streams import hold_streams, said_of
from loadproof.errors import CouldNotRunError, ExitCode, LoadproofError

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter  # Typer carries its own Click


class Verb(NamedTuple):
    """Where a verb is, and the line that `loadproof --help` shows of it: asked for help, nothing is imported."""

    place: str  # module:name, a function or a Typer of more verbs
    line: str  # of 60 characters at most
    group: Group


VERBS = {
    "doctor": Verb("doctor.command:doctor", "Say what this machine lacks, and the command that mends it.", "Set up"),
    "init": Verb("init.command:init", "Write a repository of your own.", "Set up"),
    "check": Verb("check.command:check", "Check deploy profiles and environments.", "Predict"),
    "preflight": Verb(
        "preflight.command:preflight", "Look at the account before a deployment; only reads.", "Provision"
    ),
    "plan": Verb("plan.command:plan", "Predict fit, latency, throughput, cost and objectives.", "Predict"),
    "predict": Verb("predict.command:predict", "Predict each row of a CSV file.", "Predict"),
    "simulate": Verb("simulate.command:simulate", "Simulate a profile's endpoint under traffic.", "Predict"),
    "bench": Verb("bench.command:bench", "Load a deployed endpoint, then judge it, with evidence.", "Prove"),
    "run": Verb("run.command:run", "Invoke a model for every line of a file.", "Prove"),
    "compare": Verb("compare:compare", "Hold runs against each other.", "Prove"),
    "report": Verb("report:report", "Show a run again; nothing is sent or judged.", "Prove"),
    "verify": Verb("report:verify", "Check that a run is what was judged.", "Prove"),
    "import": Verb("import_results:import_results", "Turn another program's results into a run.", "Prove"),
    "calibrate": Verb("calibrate.command:calibrate", "Refit the planner to measured levels.", "Predict"),
    "demo": Verb("demo.command:demo", "Deploy, drive, judge and take down, on this machine.", "Prove"),
    "review": Verb("review.command:review", "Say what a change does to what is deployed.", "Review"),
    "schema": Verb("schema:schema", "Print the JSON Schema of a file that is read or written.", "Set up"),
    "queue": Verb("queue.command:app", "The buffer in front of a deployed profile.", "Prove"),
    "evidence": Verb("evidence.command:app", "Runs that are kept: what they prove, how they differ.", "Review"),
    "learn": Verb("learn.command:learn", "Fit a profile's workload to recorded traffic.", "Predict"),
    "catalog": Verb("catalog.command:app", "Accelerators, instances, models and container images.", "Predict"),
    "local": Verb("local:app", "AWS on loopback: deploy and benchmark with no account.", "Provision"),
}


def verb(name: str) -> Command:
    """A verb itself, imported."""
    module, attribute = VERBS[name].place.split(":")
    found = getattr(import_module(f"loadproof.cli.{module}"), attribute)
    group = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        for one in found.registered_commands:
            one.cls = VerbCommand
        group.add_typer(found, name=name, cls=VerbGroup)
    else:
        group.command(name, cls=VerbCommand)(found)
    return get_group(group).commands[name]


class Verbs(TyperGroup):
    """Knows every verb by its line of help, and imports the one that is asked."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        command = verb(name) if name else None
        if not gc.isenabled():  # by `main`: a test's process is left as it is
            gc.freeze()
            gc.set_threshold(100_000, 20, 100)
            gc.enable()
        return name, command, rest

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        for group, lines in by_group({name: (verb.group, verb.line) for name, verb in VERBS.items()}):
            with formatter.section(group):
                formatter.write_dl(lines)


app = typer.Typer(
    name="loadproof",
    cls=Verbs,
    help="LLM endpoints as code, proven under load.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version as installed  # noqa: PLC0415  nobody else asks

        print(f"loadproof {installed('loadproof')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of all verbs."""


for _name, _verb in VERBS.items():
    app.command(_name, help=_verb.line)(lambda: None)


def main() -> None:
    """Entry point of the `loadproof` script."""
    hold_streams()
    # Verbs multiply small matrices only, and numpy's threads for that spin while they wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Pydantic would read every installed package's metadata in search of plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # What is imported stays: to walk it again and again, at the exit too, is a tenth and more of a short run.
    gc.disable()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except CouldNotRunError as error:
        _say(f"loadproof: {error}")
        code = ExitCode.COULD_NOT_RUN
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one verb and return its exit code (see `ExitCode`)."""
    try:
        result = app(arguments, standalone_mode=False)
    except LoadproofError as error:
        _say(f"loadproof: {error}")
        return int(error.exit_code)
    except typer.Exit as leaving:
        return leaving.exit_code
    except TyperException as usage:
        # Typer carries its own Click, whose usage errors show themselves: usage line, hint, message.
        show = getattr(usage, "show", None)
        if show is None:
            _say(f"loadproof: {usage.format_message()}")
        else:
            show(shown := io.StringIO())
            _say(shown.getvalue().removesuffix("\n"))
        return int(ExitCode.BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return int(ExitCode.INTERRUPTED)
    except OSError as error:  # a full disk, a folder that may not be written
        _say(f"loadproof: {said_of(error)}")
        return int(ExitCode.COULD_NOT_RUN)
    return int(result or 0)


def _say(message: str) -> None:
    from loadproof.terminal import tell  # noqa: PLC0415  Rich takes long to load, and most runs say no error

    tell(message)
