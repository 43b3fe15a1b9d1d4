"""`loadproof catalog list|show|refresh|audit`: the rows every prediction and every template is made from."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from loadproof.cli.catalog.audit import audit_rows
from loadproof.cli.catalog.find import find_row
from loadproof.cli.catalog.refresh import refresh_rows
from loadproof.cli.catalog.rows import KINDS
from loadproof.cli.catalog.text import page, table
from loadproof.cli.options import TextOrJson
from loadproof.errors import ExitCode
from loadproof.terminal import Terminal, wanted_width

app = typer.Typer(
    help="Accelerators, instances, models and container images.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


Kind = Literal["accelerators", "instances", "models", "containers"]


@app.command("list")
def list_rows(
    kind: Annotated[Kind | None, typer.Argument(help="one table; default: all four")] = None,
    format: TextOrJson = "text",
) -> int:
    """List the rows of the catalog.

    Figures whose source says so are marked unverified, prices also derived.
    """
    kinds = [kind] if kind else list(KINDS)
    rows = {name: KINDS[name]() for name in kinds}
    if format == "json":
        _print_json({"schema_version": 1, **rows})
    else:
        width = wanted_width(Terminal())
        print("\n\n".join(table(name, rows[name], width) for name in kinds))
    return ExitCode.OK


@app.command("show")
def show(
    name: Annotated[
        str, typer.Argument(help="ml.g5.2xlarge, H100, Qwen/Qwen3-32B, vllm:0.30.0, or a path to a config.json")
    ],
    format: TextOrJson = "text",
) -> int:
    """Show one row, or your own model's shape, in full.

    A model of your own is read from its Hugging Face config.json.
    """
    kind, document = find_row(name)
    if format == "json":
        _print_json({"schema_version": 1, "kind": kind, **document})
    else:
        print(page(kind, document))
    return ExitCode.OK


@app.command("refresh")
def refresh(
    write: Annotated[
        bool, typer.Option("--write", help="change the rows; default: only show what would change")
    ] = False,
) -> int:
    """Compare rows with the installed SDKs.

    Enumerations (botocore), regions (cfn-lint), images (extra `sagemaker`). Exit 1 when they differ.
    """
    return refresh_rows(write=write)


@app.command("audit")
def audit(
    format: TextOrJson = "text",
    strict: Annotated[
        bool, typer.Option("--strict", help="exit 1 on any finding, not only on what is missing")
    ] = False,
) -> int:
    """Say what is missing, stale, or from memory.

    Exit 1 where the installed SDK knows more.
    """
    return audit_rows(as_json=format == "json", strict=strict)


def _print_json(document: dict[str, object]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
