"""`loadproof schema [profile|environment|run]`: the JSON Schemas that editors and other programs read."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from loadproof.bench.schema import summary_schema
from loadproof.errors import ExitCode
from loadproof.profiles.json_schema import environment_schema, profile_schema


class Kind(StrEnum):
    """Which kind of file."""

    PROFILE = "profile"
    ENVIRONMENT = "environment"
    RUN = "run"


def schema(
    kind: Annotated[Kind, typer.Argument(help="which file the schema is for")] = Kind.PROFILE,
) -> int:
    """Print the JSON Schema of a profile, an environment or a run."""
    schemas = {Kind.PROFILE: profile_schema, Kind.ENVIRONMENT: environment_schema, Kind.RUN: summary_schema}
    print(json.dumps(schemas[kind](), indent=2))
    return ExitCode.OK
