"""`loadproof schema [profile|environment|run|live]`: the JSON Schemas that editors and other programs read."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from loadproof.bench.live.schema import live_schema
from loadproof.bench.schema import summary_schema
from loadproof.errors import ExitCode
from loadproof.profiles.json_schema import environment_schema, profile_schema

Kind = Literal["profile", "environment", "run", "live"]


def schema(
    kind: Annotated[Kind, typer.Argument(help="which file the schema is for")] = "profile",
) -> int:
    """Print the JSON Schema of a file that is read or written.

    Of a profile, an environment, a run's summary or a line of `bench --live`.
    """
    schemas = {"profile": profile_schema, "environment": environment_schema, "run": summary_schema, "live": live_schema}
    print(json.dumps(schemas[kind](), indent=2))
    return ExitCode.OK
