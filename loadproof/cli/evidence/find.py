"""Which run and which profiles somebody means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from loadproof.bench.evidence.names import MARKS
from loadproof.bench.evidence.places import places_of
from loadproof.bench.evidence.status import TreeProfile
from loadproof.bench.evidence.store import StoredRun, read_stored
from loadproof.cli.profile_names import place_of
from loadproof.errors import InputError, ProfileError
from loadproof.profiles import load_profile
from loadproof.profiles.folders import default_folder, files_of

_ENVIRONMENT = "environment.yaml"


def find_run(text: str, places: Sequence[str]) -> StoredRun:
    """A run by its folder, its URI, its id (or a beginning that only it has), or the newest one of a profile.

    Raises InputError with what there is instead.
    """
    if text.startswith("s3://") or any((Path(text) / mark).is_file() for mark in MARKS):
        found = [run for run in read_stored(places_of([text])) if run.name == "."]
        if not found:
            raise InputError(f"{text}: no run there (no plan.json); loadproof evidence list {text} shows what there is")
        return _usable(found[0])
    runs = read_stored(places_of(places))
    if (named := _of_profile(text, runs)) or (named := [run for run in runs if run.run_id == text]):
        return _usable(named[0])
    begun = {run.run_id: run for run in reversed(runs) if text and run.run_id.startswith(text)}
    if len(begun) == 1:
        return _usable(next(iter(begun.values())))
    known = sorted(begun or {run.run_id for run in runs}, reverse=True)
    where = ", ".join(dict.fromkeys(run.place.name for run in runs)) or ", ".join(places) or "evidence or runs"
    what = "several runs begin so" if begun else "no run or profile of that name"
    more = f" and {len(known) - 5} more" if len(known) > 5 else ""
    raise InputError(f"{text}: {what} in {where}; there are {', '.join(known[:5]) or 'none'}{more}")


def _usable(run: StoredRun) -> StoredRun:
    if run.problem:
        raise InputError(f"{run.where}: {run.problem}")
    return run


def _of_profile(text: str, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Those of `prod/chat`, or of deploy_profiles/prod/chat.yaml; the newest first."""
    path = Path(text)
    name = f"{path.absolute().parent.name}/{path.stem}" if path.suffix in (".yaml", ".yml") else text
    return [
        run for run in runs if run.profile and f"{run.profile.get('environment')}/{run.profile.get('name')}" == name
    ]


def profiles_of(files: Sequence[Path] | None, runs: Iterable[StoredRun]) -> tuple[TreeProfile, ...]:
    """Profiles of the tree that some run is of; others are not read. Raises InputError for a file that is none."""
    measured = {(run.profile.get("environment"), run.profile.get("name")) for run in runs}
    if files:
        return tuple(_read(file) for file in _profile_files(files))
    try:
        everywhere = _profile_files(None)
    except InputError:  # evidence may be listed where there are no profiles
        return ()
    return tuple(_read(file) for file in everywhere if (file.parent.name, file.stem) in measured)


def profiles_to_prove(paths: Sequence[Path] | None) -> tuple[TreeProfile, ...]:
    """Those of files and folders, without any of deploy_profiles; all have objectives, or the checks refuse them."""
    return tuple(_read(file) for file in _profile_files(paths))


def _profile_files(given: Sequence[Path] | None) -> list[Path]:
    paths = [place_of(path) for path in given or ()]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError("\n".join(f"{path}: not found; name a profile or a folder of them" for path in missing))
    files = list(dict.fromkeys(file for path in paths or [default_folder()] for file in files_of(path)))
    named = set(paths)
    stray = [file for file in files if file in named and not (file.parent / _ENVIRONMENT).is_file()]
    if stray:
        raise InputError("\n".join(f"{file}: lies in no environment (no {_ENVIRONMENT} beside it)" for file in stray))
    return [file for file in files if file.name != _ENVIRONMENT and (file.parent / _ENVIRONMENT).is_file()]


def _read(file: Path) -> TreeProfile:
    try:
        profile = load_profile(file)
    except ProfileError:
        profile = None
    return TreeProfile(file, file.absolute().parent.name, file.stem, profile)
