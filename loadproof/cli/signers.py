"""Whose signatures count, where verbs about evidence ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loadproof.errors import InputError
from loadproof.profiles.folders import default_folder
from loadproof.profiles.signers import FILE_NAME, Signers, read_signers

SignersFile = Annotated[
    Path | None,
    typer.Option("--signers", help="YAML of whose signatures count; default: deploy_profiles/signers.yaml"),
]


def signers_here(given: Path | None) -> Signers | None:
    """None where nobody is listed. Raises InputError for a named file that is missing, ProfileError."""
    if given is None:
        try:
            return read_signers(default_folder() / FILE_NAME)
        except InputError as error:
            if "no deploy_profiles" in str(error):
                return None
            raise
    if (found := read_signers(given)) is None:
        raise InputError(f"--signers {given}: not found; name the file that lists who may sign")
    return found
