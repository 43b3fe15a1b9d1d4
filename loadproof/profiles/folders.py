"""Where profiles lie: the folder of a repository, and the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loadproof.errors import InputError
from loadproof.profiles.calibrating import is_calibration
from loadproof.profiles.signers import is_signers


def default_folder() -> Path:
    """`deploy_profiles` here or in a folder above, else that of the repository this package runs from."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "deploy_profiles").is_dir():
            found = folder / "deploy_profiles"
            return found.relative_to(here) if found.is_relative_to(here) else found
    own = Path(__file__).parents[2] / "deploy_profiles"
    if own.is_dir():
        return own
    raise InputError(f"no deploy_profiles folder in {here} or above; name a file or a folder")


def files_of(path: Path) -> Iterator[Path]:
    """The profiles and environments of a folder, sorted; else `path` itself, which the check says all about.

    Raises InputError for a folder that has none. Asks `os.path`, which never raises: names may be too long.
    """
    if not os.path.isdir(path):  # noqa: PTH112
        yield path
        return
    found = sorted(
        file
        for suffix in ("*.yaml", "*.yml")
        for file in path.rglob(suffix)
        if not is_calibration(file) and not is_signers(file) and not os.path.isdir(file)  # noqa: PTH112
    )
    if not found:
        raise InputError(f"{path}: no .yaml or .yml file in this folder; name another")
    yield from found
