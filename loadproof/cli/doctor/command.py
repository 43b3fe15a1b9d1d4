"""`loadproof doctor`: what this machine lacks for Loadproof, and for each lack the one command that mends it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loadproof.cli.doctor.looks import account, machine
from loadproof.cli.options import TextOrJson
from loadproof.cli.printing import print_json
from loadproof.errors import ExitCode
from loadproof.preflight.bootstrapped import bootstrap_qualifier
from loadproof.terminal import Terminal

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


def doctor(
    online: Annotated[
        bool, typer.Option("--online", help="ask AWS too: who we are, its clock, the CDK's bootstrap")
    ] = False,
    format: TextOrJson = "text",
) -> int:
    """Say what this machine lacks, and the command that mends it.

    Asks nobody outside of this machine, unless told to with --online.

    Exit 0, also with warnings; 3 with an error.
    """
    looks = list(chain(machine(), account(bootstrap_qualifier(Path.cwd())) if online else ()))
    wrong = sum(look.state == "error" for look in looks)
    if format == "json":
        print_json({"looks": [look._asdict() for look in looks], "errors": wrong})
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for look in looks:
            mark, style = MARKS[look.state]
            table.add_row(Text(mark, style=style), look.name, Text(look.found))
            if look.mend:
                table.add_row("", "", Text(f"$ {look.mend}", style="bold"))
        console = Terminal(highlight=False)
        console.print(table)
        warnings = sum(look.state == "warning" for look in looks)
        console.print(_summary(wrong, warnings, online))
    return ExitCode.COULD_NOT_RUN if wrong else ExitCode.OK


def _summary(errors: int, warnings: int, online: bool) -> str:
    unasked = "" if online else "; AWS was not asked (--online)"
    if errors or warnings:
        return f"{errors} to mend, {warnings} to look at{unasked}"
    return f"all well{unasked}"
