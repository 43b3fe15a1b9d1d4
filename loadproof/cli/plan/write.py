"""`loadproof plan --write`: the recommendation as a reviewable edit of the profile's own file, checked before it is
kept."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE

import yaml

from loadproof.advice.changes import KeyChange
from loadproof.advice.comparison import Settled
from loadproof.errors import InputError
from loadproof.pages.file import write_whole
from loadproof.profiles import Profile, check_file, yaml_edit

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Edit:
    """What would become of one file; `text` equals `before` where there is nothing to change."""

    file: Path
    before: str
    text: str

    @property
    def diff(self) -> str:
        """Unified diff, as `git apply` takes it from here; empty where nothing changes."""
        here, file = Path.cwd(), self.file.absolute()
        name = (file.relative_to(here) if file.is_relative_to(here) else self.file).as_posix().lstrip("/")
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.text.splitlines(keepends=True),
            fromfile=f"a/{name}",
            tofile=f"b/{name}",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def edit_of(file: Path, profile: Profile, settled: Settled) -> Edit:
    """The edit of `file`, which holds `profile`, that makes it what was settled on.

    What a parent (`extends`) says is overridden in the child, never edited. Raises InputError where `loadproof check`
    would refuse the result, with its problems.
    """
    before = file.read_bytes().decode("utf-8")
    # A byte order mark is no part of the YAML: some scanners take it for a character, some do not.
    body = before.removeprefix(_BOM)
    try:
        body_after = _edited(file, body, _complete(profile, settled.profile, settled.changes))
    except yaml.YAMLError:
        raise _left(file, "no edit of its lines says what was recommended") from None
    _check(file, body_after, settled.profile)
    return Edit(file, before, before[: len(before) - len(body)] + body_after)


def write(edit: Edit) -> None:
    """Replace the file in one step: whoever reads it sees the old one or the new one. A link stays a link.

    Raises InputError where the file is read-only: a new file in its place would not ask.
    """
    target = edit.file.resolve()
    mode = S_IMODE(target.stat().st_mode)
    if not mode & 0o222:
        raise InputError(f"{edit.file}: left as it is, because it is read-only; allow writing (chmod u+w) first")
    write_whole(edit.text, target, mode)


def _complete(profile: Profile, wanted: Profile, changes: Sequence[KeyChange]) -> Sequence[KeyChange]:
    """The changes, and with another family everything its container says: it inherits nothing from the old one."""
    if profile.container is None or wanted.container is None or profile.container.family == wanted.container.family:
        return changes
    container = wanted.container
    named = [
        KeyChange(("container", "family"), None, container.family),
        *([KeyChange(("container", "version"), None, container.version)] if container.version else []),
        *(
            KeyChange(("container", "settings", name), None, value)
            for name, value in container.settings
            if value is not None
        ),
    ]
    gone = [change for change in changes if change.path[0] == "container" and change.after is None]
    return [*gone, *named, *(change for change in changes if change.path[0] != "container")]


def _edited(file: Path, text: str, changes: Sequence[KeyChange]) -> str:
    """Every change in the file's own text; a key that a parent still sets after its removal is set to null."""
    # What is new first: a map that is emptied on the way would go, and its comments with it.
    for change in sorted(changes, key=lambda change: change.after is None):
        if change.after is None:
            text = yaml_edit.remove_key(text, change.path)
        else:
            text = yaml_edit.set_value(text, change.path, change.after)
    for change in changes:
        left = check_file(file, text.encode("utf-8")).profile
        if change.after is None and left is not None and _value_at(left, change.path) is not None:
            text = yaml_edit.set_value(text, change.path, None)
    return text


def _value_at(profile: Profile, path: tuple[str, ...]) -> object:
    part: object = profile
    for step in path:
        part = getattr(part, step, None)
    return part


def _check(file: Path, text: str, wanted: Profile) -> None:
    checked = check_file(file, text.encode("utf-8"))
    if checked.profile is None:
        problems = "\n".join(map(str, checked.errors))
        raise InputError(f"{file}: left as it is, because `loadproof check` would refuse the edit:\n{problems}")
    if checked.profile != wanted:
        raise _left(file, "the edit would not say what was recommended")


def _left(file: Path, why: str) -> InputError:
    by_hand = "write the changes by hand (loadproof plan --format json lists them)"
    return InputError(f"{file}: left as it is, because {why}; {by_hand}")
