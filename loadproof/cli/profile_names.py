"""A profile where a verb asks for one: its file, or its name (`chat`, `prod/chat`), which completion knows too."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from loadproof.errors import InputError


def named(given: Path | None) -> Path | None:
    """The file of a profile that was named; what is or looks like a path stays as it is.

    Raises InputError for a name that no profile has, or several have.
    """
    if given is None or os.path.exists(given) or given.suffix or len(given.parts) > 2:  # noqa: PTH110  never raises
        return given
    wanted = given.as_posix()
    known = dict(_known())
    found = [file for name, file in known.items() if wanted in (name, name.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        names = sorted(name for name, file in known.items() if file in found)
        raise InputError(f"`{wanted}` is the name of {len(found)} profiles; say which: {', '.join(names)}")
    near = difflib.get_close_matches(wanted, [*known, *(name.partition("/")[2] for name in known)], n=3, cutoff=0.4)
    raise InputError(
        f"no profile or environment is called `{wanted}`; "
        + (
            f"did you mean {', '.join(dict.fromkeys(near))}?"
            if near
            else f"known: {', '.join(sorted(known)) or 'none'}"
        )
    )


def complete(incomplete: str) -> list[str]:
    """Profiles' names that begin so, with their environment or without."""
    try:
        whole = [name for name, _ in _known()]
    except InputError:
        return []
    short = sorted({name.partition("/")[2] for name in whole})
    return [name for name in whole if name.startswith(incomplete)] or [
        name for name in short if name.startswith(incomplete)
    ]


def complete_environment(incomplete: str) -> list[str]:
    """Environments' names that begin so."""
    return [name for name in environments() if name.startswith(incomplete)]


def complete_place(incomplete: str) -> list[str]:
    """Names of environments and of profiles that begin so."""
    return [*complete_environment(incomplete), *complete(incomplete)]


def environments() -> list[str]:
    """Folders of `deploy_profiles` that have an environment.yaml, by name; none where there is no such folder."""
    from loadproof.profiles.folders import default_folder  # noqa: PLC0415  as below
    from loadproof.profiles.loader import ENVIRONMENT_FILE  # noqa: PLC0415  as below

    try:
        return sorted(file.parent.name for file in default_folder().glob(f"*/{ENVIRONMENT_FILE}"))
    except InputError:
        return []


def _known() -> Iterator[tuple[str, Path]]:
    from loadproof.profiles.folders import default_folder, files_of  # noqa: PLC0415  a --target needs no pydantic

    folder = default_folder()
    for file in files_of(folder):
        if file.stem != "environment" and file.parent != folder:
            yield f"{file.parent.name}/{file.stem}", file


def place_of(given: Path) -> Path:
    """The folder of an environment or the file of a profile, where it is the name of one; a path as it was given.

    Raises InputError for a single word, or one behind an environment's name, that is the name of none, or of several.
    """
    if os.path.exists(given) or given.suffix:  # noqa: PTH110  never raises
        return given
    from loadproof.profiles.folders import default_folder  # noqa: PLC0415  as above

    try:
        folder = default_folder() / given
        return folder if folder.is_dir() else named(given) or given
    except InputError:
        if len(given.parts) == 1 or given.parts[0] in environments():
            raise
        return given


def argument(help: str) -> typer.models.ArgumentInfo:
    info: typer.models.ArgumentInfo = typer.Argument(
        help=f"{help}: its file, or its name", callback=named, autocompletion=complete
    )
    return info


def option(help: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(help=help, callback=named, autocompletion=complete)
    return info


ProfileFile = Annotated[Path, argument("profile")]
