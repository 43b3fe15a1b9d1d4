"""What Loadproof wrote into a repository, and what a newer one would write there: the team's own changes stay."""

from __future__ import annotations

import difflib
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from loadproof.errors import InputError
from loadproof.scaffold.merging import first_text, merged
from loadproof.scaffold.repository import WHEELS, CiKit, Place

MANIFEST: Final = ".loadproof.json"
_MAY_BE_THERE: Final = frozenset(("README.md", ".gitignore"))
_MOST_NAMED: Final = 8
State = Literal["new", "newer", "merged", "both changed", "removed here", "no longer written", "superseded"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`files`: SHA-256 of what was written, by path."""

    place: Place
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """What a newer Loadproof would do to one file: `before` is what stands there, or, where a person must choose, what
    both sides began with, as far as it is known. `new`, `newer` and `merged` may be written, and a
    wheel that another takes the place of may go."""

    path: str
    state: State
    before: bytes
    after: bytes

    @property
    def may_be_written(self) -> bool:
        return self.state in ("new", "newer", "merged", "superseded")

    @property
    def diff(self) -> str:
        """Unified; of a wheel one line, as git has it."""
        if b"\0" in self.before + self.after:
            return f"Binary files a/{self.path} and b/{self.path} differ\n"
        before, after = (
            text.decode("utf-8", "replace").splitlines(keepends=True) for text in (self.before, self.after)
        )
        lines = difflib.unified_diff(before, after, f"a/{self.path}", f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def write_new(folder: Path, place: Place, files: Mapping[str, bytes], once: Mapping[str, bytes]) -> list[str]:
    """Write all files into `folder`; those of `once` are the team's from then on. What was kept: a new repository on a
    hub brings a README and a .gitignore, which stay as they are.

    Raises InputError, with nothing written, where any other of them exists already; whatever else is raised (OSError
    of a full disk), what was written is taken back, so that the same command may be given again.
    """
    there = sorted(path for path in (*files, *once, MANIFEST) if (folder / path).exists())
    kept = [path for path in there if path in _MAY_BE_THERE]
    if in_the_way := [path for path in there if path not in _MAY_BE_THERE]:
        more = len(in_the_way) - _MOST_NAMED
        shown = ", ".join(in_the_way[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        mend = "--upgrade it" if MANIFEST in there else "take an empty folder, or move them away"
        raise InputError(f"{folder}: left as it is, because there already: {shown}; {mend}")
    written = {path: content for path, content in files.items() if path not in kept}
    new = [folder / path for path in (*once, *written, MANIFEST) if path not in kept]
    made = {parent for path in new for parent in path.parents if not parent.exists()}
    try:
        for path, content in {**once, **written}.items():
            if path not in kept:
                _write(folder / path, content)
        _remember(folder, place, {path: _hash(content) for path, content in written.items()})
    except BaseException:
        for one in new:
            one.unlink(missing_ok=True)
        for parent in sorted(made, reverse=True):  # the deepest first
            if parent.is_dir():
                parent.rmdir()
        raise
    return kept


def _remember(folder: Path, place: Place, hashes: Mapping[str, str]) -> None:
    document = {
        "loadproof": place.version,
        "ci": place.ci,
        "environment": place.environment,
        "files": dict(sorted(hashes.items())),
    }
    _write(folder / MANIFEST, (json.dumps(document, indent=2) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Raises InputError where the folder has none, or one that is no manifest."""
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_bytes())
        files = {str(name): str(digest) for name, digest in document["files"].items()}
        place = Place(str(document["loadproof"]), document["ci"], str(document["environment"]))
    except OSError:
        raise InputError(f"{path}: not there; `loadproof init {folder}` makes a repository") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: not as `loadproof init` writes it; take it back from version control") from None
    if place.ci not in get_args(CiKit):
        raise InputError(f"{path}: ci: expected {', '.join(get_args(CiKit))}, found `{place.ci}`")
    return Manifest(place, files)


def changes(folder: Path, manifest: Manifest, files: Mapping[str, bytes]) -> list[Change]:
    """What `files`, as a newer Loadproof writes them, would change in `folder`.

    A file that the team changed, and the newer one did not, is not among them. Where both did, git merges them from
    what was written first, if the repository's history has that text.
    """
    found = []
    for path in sorted({*files, *manifest.files}):
        now = _read(folder / path)
        after = files.get(path, b"")
        written = manifest.files.get(path)
        state = _state(now, written, _hash(after) if path in files else None)
        if state == "no longer written" and path.startswith(f"{WHEELS}/") and _hash(now or b"") == written:
            state = "superseded"
        if state in ("both changed", "removed here"):
            found.append(_merged(path, state, now, after, first_text(folder, path, written) if written else None))
        elif state is not None:
            found.append(Change(path, state, now or b"", after))
    return found


def _merged(path: str, state: State, now: bytes | None, after: bytes, base: bytes | None) -> Change:
    if base is None:
        return Change(path, state, now or b"", after)
    together = None if now is None else merged(now, base, after)
    if now is None or together is None:
        return Change(path, state, base, after)
    return Change(path, "merged", now, together)


def apply(folder: Path, manifest: Manifest, newer: Place, files: Mapping[str, bytes], found: Sequence[Change]) -> None:
    """Write what may be written, and remember it; what a person must look at stays remembered as it was."""
    left = {change.path for change in found if not change.may_be_written}
    for change in found:
        if change.state == "superseded":
            (folder / change.path).unlink()
        elif change.may_be_written:
            _write(folder / change.path, change.after)
    hashes = {path: _hash(content) for path, content in files.items() if path not in left}
    _remember(folder, newer, hashes | {path: manifest.files[path] for path in left if path in manifest.files})


def settle(
    folder: Path, manifest: Manifest, files: Mapping[str, bytes], found: Sequence[Change], paths: Iterable[str]
) -> Manifest:
    """Remember that the team has looked at `paths`, and that each is there as it wants it.

    Raises InputError for one that nothing was to be looked at for.
    """
    left = [change.path for change in found if not change.may_be_written]
    if unknown := [path for path in paths if path not in left]:
        raise InputError(
            f"--settled {unknown[0]}: expected one of {', '.join(left) or 'none: nothing is left to settle'}"
        )
    hashes = {path: digest for path, digest in manifest.files.items() if path not in paths}
    hashes |= {path: _hash(files[path]) for path in paths if path in files}
    _remember(folder, manifest.place, hashes)
    return Manifest(manifest.place, hashes)


def _state(now: bytes | None, written: str | None, newer: str | None) -> State | None:
    here = None if now is None else _hash(now)
    if newer in (here, written):
        return None
    if newer is None:
        return None if here is None else "no longer written"
    if written is None:
        return "new" if here is None else "both changed"
    if here is None:
        return "removed here"
    return "newer" if here == written else "both changed"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, so that an upgrade may go on. Raises OSError, which names the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    real = path.resolve()  # a link stays one
    unfinished = real.with_name(f".{real.name}.part")
    try:
        unfinished.write_bytes(content)
        if real.exists():
            shutil.copymode(real, unfinished)
        unfinished.replace(real)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        unfinished.unlink(missing_ok=True)
