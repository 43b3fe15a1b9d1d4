"""One side's files: what each holds by its id, read or laid out when somebody needs them.

Ids are git's (the hash of a blob), so that a ref, the working tree and a plain folder can be held against each other
without reading what is the same. A symbolic link's id is that of what it leads to.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from loadproof.errors import InputError
from loadproof.sides.attributes import of_commit, of_working_tree
from loadproof.sides.git import LINK, SUBMODULE, Blob, Repository, TooMuchError
from loadproof.sides.links import make_link, through_links
from loadproof.sides.names import MOST_FOLDERS, digest_of, is_plain, readable_name, unwritable

PROFILES: Final = "deploy_profiles"
ENTRY: Final = "app.py"
_NO_CODE: Final = frozenset(
    {PROFILES, "docs", "tests", "scripts", "evidence", "runs", "site", "node_modules", "cdk.out"}
)
_NEVER: Final = frozenset({".git", "__pycache__", "node_modules", "cdk.out"})
MOST_FILES: Final = 300_000  # of a commit's project
MOST_PROFILE_FILES: Final = 20_000  # of it below `deploy_profiles`, where each is laid out
MOST_SIDE_BYTES: Final = 512 * 2**20  # laid out of one commit
# Too long, a file in the place of a folder or the other way about, a link to nothing.
_OF_NAMES: Final = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOENT, errno.EINVAL)


class Source(Protocol):
    """Where a tree's files come from."""

    def each(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Path and content, one in memory at a time; the content of a link is the path that it leads to."""
        ...

    def write(self, paths: Iterable[str], target: Path) -> dict[str, str]:
        """Copies of files that are no links, below `target`; why not, of those whose name no disk here takes."""
        ...

    @property
    def links(self) -> frozenset[str]: ...

    @property
    def folder(self) -> Path | None:
        """Where the files lie on this machine; None for a commit's."""
        ...


@dataclass(frozen=True, slots=True)
class Tree:
    """The project folder (where `deploy_profiles` lies) of one side. `ids` are by path from there.

    `folder` is the project's in its repository (`infra/`), so that files can be named as the repository does.
    `submodules` are paths in `ids` that have a commit of another repository in the place of a content. `converted` are
    those that a checkout writes otherwise than git keeps them, with how.
    """

    label: str
    source: Source
    ids: Mapping[str, str]
    folder: str = ""
    submodules: frozenset[str] = frozenset()
    converted: Mapping[str, str] = field(default_factory=dict)
    code: tuple[str, ...] = field(init=False)  # paths that synthesis may read beside the profiles, sorted
    code_id: str = field(init=False)

    def __post_init__(self) -> None:
        code = tuple(sorted(_code_of(self.ids)))
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "code_id", digest_of((path, self.ids[path]) for path in code))

    @property
    def has_own_code(self) -> bool:
        """True for a CDK app of its own; else this installation's code synthesizes the profiles."""
        return ENTRY in self.ids and "cdk.json" in self.ids

    @property
    def profile_paths(self) -> tuple[str, ...]:
        """Everything below `deploy_profiles`."""
        return tuple(sorted(path for path in self.ids.keys() - self.submodules if path.startswith(f"{PROFILES}/")))

    def without_compiled(self) -> Tree:
        """The same files; what Python compiled of them here is left alone, since others may have left it there."""
        if isinstance(self.source, CommitSource):
            return replace(self, source=replace(self.source, checked_out=None))
        return self

    def lay_out(self, paths: Iterable[str], target: Path) -> dict[str, str]:
        """Write files below `target`. Links are made last, and only those that stay inside it.

        Returns why not, by path: a made-up tree may hold names and links that no checkout could make.
        """
        chosen = [path for path in paths if is_plain(path) and path not in self.submodules]
        left_out = {path: why for path in chosen if (why := unwritable(target, path))}
        chosen = [path for path in chosen if path not in left_out]
        links = {path for path in chosen if path in self.source.links}
        left_out |= self.source.write((one for one in chosen if one not in links), target)
        for path, content in sorted(self.source.each(links)):
            try:
                make_link(target, path, os.fsdecode(content))
            except ValueError:
                left_out[path] = "a link to a name with a NUL in it"
            except OSError as error:
                left_out[path] = _why_none_takes(error)
        return left_out


@dataclass(frozen=True, slots=True)
class CommitSource:
    """The files of a commit, in git's store. `checked_out` is where the working tree has the project; None if bare."""

    repository: Repository
    blobs: Mapping[str, Blob]
    links: frozenset[str]
    checked_out: Path | None

    def write(self, paths: Iterable[str], target: Path) -> dict[str, str]:
        """What Python compiled of the same content in the working tree comes along: each side would compile it.

        Raises InputError for more than MOST_SIDE_BYTES.
        """
        left_out: dict[str, str] = {}
        compiled = self._compiled()
        room_bytes = MOST_SIDE_BYTES
        for path, content in self.each(paths):
            room_bytes -= len(content)
            if room_bytes < 0:
                raise InputError(
                    f"{path}: with it more than {MOST_SIDE_BYTES // 2**20} MiB of files are read of one commit; "
                    f"keep what is no code in one of {', '.join(sorted(_NO_CODE - _NEVER - {PROFILES}))}"
                )
            if why := write_below(target, path, content):
                left_out[path] = why
            elif path in compiled and compiled[path].stat().st_size == len(content):
                _bring_compiled(compiled[path], target / path)
        return left_out

    def _compiled(self) -> dict[str, Path]:
        """Python files that the working tree holds as the commit does."""
        if self.checked_out is None or not self.checked_out.is_dir():
            return {}
        try:
            known = self.repository.working_ids(self.checked_out)
        except TooMuchError:  # what lies here does without, and so does a review
            return {}
        return {
            path: self.checked_out / path
            for path, blob in self.blobs.items()
            if path.endswith(".py") and known.get(path) == blob.id and (self.checked_out / path).is_file()
        }

    def each(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        by_id: dict[str, list[str]] = {}
        for path in paths:
            if path in self.blobs:
                by_id.setdefault(self.blobs[path].id, []).append(path)
        for blob, content in self.repository.contents(by_id):
            for path in by_id[blob]:
                yield path, content

    @property
    def folder(self) -> Path | None:
        return None


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Files of this machine."""

    root: Path
    links: frozenset[str]

    def each(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((path, _content(self.root / path)) for path in paths)

    def write(self, paths: Iterable[str], target: Path) -> dict[str, str]:
        for path in paths:
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(self.root / path, file)
            except OSError as error:
                raise _unreadable(self.root / path, error) from None
            if path.endswith(".py"):
                _bring_compiled(self.root / path, file)
        return {}

    @property
    def folder(self) -> Path | None:
        return self.root


def commit_tree(label: str, repository: Repository, commit: str, folder: str) -> Tree:
    """The tree of a commit; of submodules it has the commit, and no content. `folder` is the project's, '' for the top.

    Raises InputError for more files than a review reads.
    """
    entries = repository.tree(commit, folder)
    of_profiles = sum(path.startswith(f"{PROFILES}/") for path in entries)
    for what, count, most in (("it", len(entries), MOST_FILES), (PROFILES, of_profiles, MOST_PROFILE_FILES)):
        if count > most:
            raise InputError(
                f"{label}: {count:,} files in {what}, and a review reads {most:,} at the most; keep the project in a "
                "folder of its own, and what is no profile elsewhere"
            )
    plain = {path: entry for path, entry in entries.items() if is_plain(path)}
    blobs = {path: entry for path, entry in plain.items() if entry.mode != SUBMODULE}
    links = frozenset(path for path, blob in blobs.items() if blob.mode == LINK)
    source = CommitSource(repository, blobs, links, None if repository.top is None else repository.top / folder)
    ids = {path: entry.id for path, entry in plain.items()}
    ids |= through_links(ids, links, source.each, outside=commit)
    converted = of_commit(repository, commit, folder, blobs, blobs.keys() - links)
    return Tree(label, source, ids, _slashed(folder), frozenset(plain.keys() - blobs), converted)


def working_tree(label: str, repository: Repository, top: Path, folder: str) -> Tree:
    """What git sees below `folder`, uncommitted changes and untracked files included, ignored ones not."""
    root = top / folder
    known = repository.working_ids(root)
    chosen = [path for path in known if is_plain(path) and _is_file(root / path)]
    submodules = {path: one for path, one in repository.submodules(root).items() if is_plain(path)}
    made = _folder_tree(
        label, root, {path: known[path] for path in chosen}, repository.algorithm, _slashed(folder), submodules
    )
    paths = set(chosen) - made.source.links
    converted = of_working_tree(
        repository, top, folder, known, paths, lambda file: _blob_id(file, repository.algorithm)
    )
    return replace(made, converted=converted)


def folder_tree(label: str, root: Path, algorithm: str) -> Tree:
    """What lies below `root`, git or not, without what tools leave there: none of them leaves any of the profiles."""
    found: dict[str, str | None] = {}
    for here, folders, files in os.walk(root):
        below = Path(here).relative_to(root)
        if len(below.parts) > MOST_FOLDERS:
            raise InputError(
                f"{label}: {readable_name('/'.join(below.parts[:3]))}/…: more than {MOST_FOLDERS} folders deep; take "
                "the folder away"
            )
        kept = below.parts[:1] == (PROFILES,)
        folders[:] = sorted(
            one
            for one in folders
            if one != ".git" and (kept or not (one in _NEVER or _is_virtual_environment(Path(here) / one)))
        )
        found |= {(below / one).as_posix(): None for one in (*files, *folders) if _is_file(Path(here) / one)}
    return _folder_tree(label, root, found, algorithm)


def _is_virtual_environment(folder: Path) -> bool:
    """One that has its Python, too: a file of that name alone would hide a folder from a review."""
    programs = (folder / "bin" / "python", folder / "Scripts" / "python.exe")
    return (folder / "pyvenv.cfg").is_file() and any(os.path.lexists(one) for one in programs)


def _slashed(folder: str) -> str:
    return f"{folder}/" if folder else ""


def _folder_tree(
    label: str,
    root: Path,
    known: Mapping[str, str | None],
    algorithm: str,
    folder: str = "",
    submodules: Mapping[str, str] = MappingProxyType({}),
) -> Tree:
    """Ids are computed where they are not known, and somebody asks. What Python compiled here is nobody's code."""
    links = frozenset(path for path in known if (root / path).is_symlink())
    source = FolderSource(root, links)
    counted = {path: one for path, one in known.items() if path.startswith(f"{PROFILES}/") or not path.endswith(".pyc")}
    ids = _FolderIds(root, {**counted, **submodules}, algorithm)
    ids.known.update(through_links(ids, links, source.each, outside=label))
    return Tree(label, source, ids, folder, frozenset(submodules))


@dataclass(frozen=True, slots=True, eq=False)
class _FolderIds(Mapping[str, str]):
    """Ids of files of this machine: any may be named by a profile, and few are."""

    root: Path
    known: dict[str, str | None]
    algorithm: str

    def __getitem__(self, path: str) -> str:
        found = self.known[path] or _blob_id(self.root / path, self.algorithm)
        self.known[path] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def _code_of(paths: Iterable[str]) -> set[str]:
    """What synthesis may read beside the profiles: all of the project but for documents, tests and what tools leave."""
    return {path for path in paths if _may_be_read(path)}


def _may_be_read(path: str) -> bool:
    top, slash, _ = path.partition("/")
    if slash:
        return top not in _NO_CODE and not top.startswith(".")
    return not path.endswith(".md") and not path.startswith(".git")


def write_below(target: Path, path: str, content: bytes) -> str:
    """Write a file whose name somebody made up. Returns why not: a file where a folder would be, or no name at all."""
    if why := unwritable(target, path):
        return why
    file = target / path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        return _why_none_takes(error)
    return ""


def _why_none_takes(error: OSError) -> str:
    """A name that no file can have. Raises the error where it is the machine's, such as a full disk."""
    if error.errno not in _OF_NAMES:
        raise error
    return os.strerror(error.errno)


def _is_file(path: Path) -> bool:
    """A regular file, or a link of any kind: a pipe or a socket would never end."""
    return path.is_symlink() or path.is_file()


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return os.fsencode(path.readlink())
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be read ({error.strerror}); look at its permissions")


def _bring_compiled(source: Path, copy: Path) -> None:
    """Python takes what it compiled where time and size of the source are those that it noted."""
    facts = source.stat()
    os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    for compiled in source.parent.glob(f"__pycache__/{glob.escape(source.stem)}.*.pyc"):
        folder = copy.parent / "__pycache__"
        folder.mkdir(exist_ok=True)
        with suppress(OSError):
            shutil.copyfile(compiled, folder / compiled.name)


def _blob_id(path: Path, algorithm: str) -> str:
    """As `git hash-object` has it. Whatever lies untracked may be large: it is read in pieces."""
    if path.is_symlink():
        target = _content(path)
        return hashlib.new(algorithm, b"blob %d\0" % len(target) + target, usedforsecurity=False).hexdigest()
    try:
        with path.open("rb") as file:
            digest = hashlib.new(algorithm, b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False)
            while piece := file.read(1024 * 1024):
                digest.update(piece)
    except OSError as error:
        raise _unreadable(path, error) from None
    return digest.hexdigest()
