"""`loadproof <verb>`: one file a verb. Errors end as one message and the contract's exit code, never a traceback."""

from __future__ import annotations

import io
import os
import sys

import typer
from typer.exceptions import TyperException

from loadproof.cli import (
    bench,
    calibrate,
    catalog,
    check,
    compare,
    demo,
    evidence,
    import_results,
    local,
    plan,
    predict,
    report,
    schema,
    simulate,
)
from loadproof.cli import queue as queue_verbs
from loadproof.cli import review as review_verb
from loadproof.cli import run as run_verb
from loadproof.errors import ExitCode, LoadproofError
from loadproof.terminal import Terminal

app = typer.Typer(
    name="loadproof",
    help="LLM endpoints as code, proven under load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("check")(check.check)
app.command("plan")(plan.plan)
app.command("predict")(predict.predict)
app.command("simulate")(simulate.simulate)
app.command("bench")(bench.bench)
app.command("run")(run_verb.run)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("verify")(report.verify)
app.command("import")(import_results.import_results)
app.command("calibrate")(calibrate.calibrate)
app.command("demo")(demo.demo)
app.command("review")(review_verb.review)
app.command("schema")(schema.schema)
app.add_typer(queue_verbs.app, name="queue")
app.add_typer(evidence.app, name="evidence")
app.add_typer(catalog.app, name="catalog")
app.add_typer(local.app, name="local")


def main() -> None:
    """Entry point of the `loadproof` script."""
    # A terminal that cannot show a character gets a `?` in its place, never a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # said already, or a reader that went away; the interpreter must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
            show()
        return int(ExitCode.BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return int(ExitCode.INTERRUPTED)
    except OSError as error:  # a full disk, a folder that may not be written
        _say(error)
        return int(ExitCode.COULD_NOT_RUN)
    return int(result or 0)


def _say(message: object) -> None:
    Terminal(stderr=True, highlight=False).print(f"loadproof: {message}", markup=False, soft_wrap=True)
