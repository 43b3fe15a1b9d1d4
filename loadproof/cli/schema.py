"""`loadproof schema [profile|environment]`: the JSON Schema that editors read."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from loadproof.errors import ExitCode


class Kind(StrEnum):
    """Which kind of file."""

    PROFILE = "profile"
    ENVIRONMENT = "environment"


def schema(
    kind: Annotated[Kind, typer.Argument(help="which file the schema is for")] = Kind.PROFILE,
) -> int:
    """Print the JSON Schema of a profile or of an environment."""
    import json

    from loadproof.profiles.json_schema import environment_schema, profile_schema

    print(json.dumps(profile_schema() if kind is Kind.PROFILE else environment_schema(), indent=2))
    return ExitCode.OK
