"""`loadproof plan PROFILE`: what the profile will do, before anything is deployed. Everything shown is predicted."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadproof.errors import ExitCode, InputError

if TYPE_CHECKING:
    from loadproof.capacity import Plan


NARROWEST = 80  # columns


class Format(StrEnum):
    """How the plan is printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def plan(
    profile: Annotated[Path, typer.Argument(help="profile file, for example deploy_profiles/dev/chat.yaml")],
    format: Annotated[Format, typer.Option(help="text for people, json for programs, html: a page")] = Format.TEXT,
    output: Annotated[
        Path | None, typer.Option(help="where --format html writes; default: plan-<profile>.html here")
    ] = None,
) -> int:
    """Predict memory, latency, throughput, cost and objectives of a profile. Exit 1 when it does not fit."""
    from loadproof.capacity import make_plan
    from loadproof.profiles import load_profile

    if output is not None and format is not Format.HTML:
        raise InputError(f"--output goes with --format html, found --format {format.value}; leave one of them out")
    loaded = load_profile(profile)
    made = make_plan(loaded)
    if format is Format.JSON:
        from loadproof.capacity.document import plan_document

        print(_json(plan_document(made)))
    elif format is Format.HTML:
        from loadproof.capacity.comparison import find_alternatives
        from loadproof.cli.plan_page import write_page

        target = output or Path(f"plan-{made.profile_name}.html")
        write_page(made, target, find_alternatives(loaded))
        print(target)
    else:
        _print_text(made)
    return ExitCode.MISSED if made.memory.fits == "no" else ExitCode.OK


def _json(document: dict[str, object]) -> str:
    import json

    return json.dumps(document, indent=2, allow_nan=False)


def _print_text(made: Plan) -> None:
    from rich.console import Console

    from loadproof.cli import plan_text

    console = Console(highlight=False)
    if not console.is_terminal:  # a log or a file: no reason to fold the table
        console = Console(highlight=False, width=120)
    elif console.width < NARROWEST:  # better a wrapped line than a figure cut away
        console = Console(highlight=False, width=NARROWEST)
    for part in plan_text.render(made, ascii_only=console.options.ascii_only):
        console.print(part, soft_wrap=isinstance(part, str))
