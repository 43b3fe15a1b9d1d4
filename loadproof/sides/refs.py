"""BASE and HEAD as somebody writes them: git refs, folders, or nothing for what lies here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loadproof.errors import InputError
from loadproof.sides.git import Repository
from loadproof.sides.names import readable_name
from loadproof.sides.tree import PROFILES, Tree, commit_tree, folder_tree, working_tree

_SHORT = 10  # hexadecimal digits of a commit that a person reads


@dataclass(frozen=True, slots=True)
class _Given:
    """One argument: a commit by its name, or a folder. `commit` None and `folder` None: the working tree."""

    name: str
    commit: str | None = None
    folder: Path | None = None


def find_trees(base: str, head: str | None, *, direct: bool) -> tuple[Tree, Tree, list[str]]:
    """Both sides' files, and what should be said about how they were found.

    A name that git knows is a ref; write `./name` for a folder of the same name. Two refs are compared as a pull
    request is: from where HEAD left BASE, not from what BASE has become since; `direct` compares the two as they are.
    Raises InputError with every argument that is neither.
    """
    repository = _repository(base, head)
    given = [_given(base, "BASE", repository), _given(head, "HEAD", repository)]
    problems = [one for one in given if isinstance(one, str)]
    if problems:
        raise InputError("\n".join(problems))
    before, after = (one for one in given if isinstance(one, _Given))
    notes: list[str] = []
    label = _label(before)
    if repository is not None and before.commit is not None and after.folder is None and not direct:
        before, label = _from_where_they_parted(repository, before, after, notes)
    project = _project(repository, [before, after])
    return (
        _tree(before, label, repository, project),
        _tree(after, _head_label(after, repository, project), repository, project),
        notes,
    )


def named_base(base: str, before: Tree) -> Tree:
    """BASE as it was named, where `before` is where HEAD left it."""
    repository = _repository(base, base)
    given = _given(base, "BASE", repository)
    if repository is None or isinstance(given, str) or given.commit is None:
        return before
    return _tree(given, _label(given), repository, before.folder.rstrip("/"))


def _repository(base: str, head: str | None) -> Repository | None:
    """None where both are folders and nothing else; then git is not asked at all."""
    if _is_folder_name(base) and head is not None and _is_folder_name(head):
        return None
    try:
        return Repository(Path.cwd())
    except InputError:
        if Path(base).is_dir() and (head is None or Path(head).is_dir()):
            return None
        raise


def _is_folder_name(name: str) -> bool:
    """A path by its look, as shells complete them."""
    return (name in (".", "..") or name.startswith(("/", "./", "../")) or name.endswith("/")) and Path(name).is_dir()


def _given(name: str | None, what: str, repository: Repository | None) -> _Given | str:
    """The argument, or what is wrong with it."""
    if name is None:
        if repository is None:
            return _Given("here", folder=_folder_around(Path.cwd()))
        return (
            _Given("working tree") if repository.top is not None else "HEAD: a bare repository; name a ref for it too"
        )
    if name.startswith("-"):
        shown = readable_name(name)
        return f"{what} {shown}: begins with a hyphen, as no ref does; write ./{shown} for a folder"
    if repository is not None and not _is_folder_name(name):
        commit = repository.commit(name)
        if commit is not None:
            return _Given(name, commit=commit)
    if Path(name).is_dir():
        return _Given(name, folder=Path(name).resolve())
    return _neither(readable_name(name), what, repository)


def _neither(name: str, what: str, repository: Repository | None) -> str:
    if repository is None:
        return f"{what} {name}: no such folder; name one that holds {PROFILES}"
    if ".." in name and not name.startswith("."):
        return f"{what} {name}: a range is two arguments; write `loadproof review BASE HEAD`"
    if repository.is_shallow():
        return (
            f"{what} {name}: neither a folder nor a ref that this shallow clone has; fetch it: "
            f"`git fetch --depth=1 origin {name.removeprefix('origin/')}` gives FETCH_HEAD to name instead"
        )
    known = ", ".join(readable_name(branch) for branch in repository.branches()) or "none"
    return (
        f"{what} {name}: neither a folder nor a ref of this repository; fetch it, or name one of its branches: {known}"
    )


def _from_where_they_parted(
    repository: Repository, before: _Given, after: _Given, notes: list[str]
) -> tuple[_Given, str]:
    head = after.commit or repository.head()
    assert before.commit is not None
    if head is None or head == before.commit:
        return before, _label(before)
    bases = repository.merge_bases(before.commit, head)
    if len(bases) != 1:
        why = "this shallow clone does not hold" if repository.is_shallow() else "there is no"
        found = f"{len(bases)} commits in which the two parted: whoever merged chose them" if bases else ""
        notes.append(f"{found or f'{why} common history of the two'}; compared as they are")
        return before, _label(before)
    [parted] = bases
    if parted == before.commit:
        return before, _label(before)
    return _Given(
        before.name, commit=parted
    ), f"{readable_name(before.name)}, from where HEAD left it ({parted[:_SHORT]})"


def _label(given: _Given) -> str:
    name = readable_name(given.name)
    if given.commit is None or given.commit.startswith(name):
        return name if given.commit is None else given.commit[:_SHORT]
    return f"{name} ({given.commit[:_SHORT]})"


def _head_label(given: _Given, repository: Repository | None, project: str) -> str:
    """The working tree is named as what it is: nobody else can see it."""
    if given.commit is not None or given.folder is not None or repository is None or repository.top is None:
        return _label(given)
    commit = repository.head()
    on = f" on {commit[:_SHORT]}" if commit else ""
    changes = "with uncommitted changes" if repository.is_dirty(repository.top / project) else "nothing uncommitted"
    return f"working tree{on}, {changes}"


def _project(repository: Repository | None, sides: list[_Given]) -> str:
    """The folder, from the top of the repository, that holds `deploy_profiles`: upward from here, on BASE's side; on
    HEAD's only where BASE has none, or a change could name another."""
    if repository is None or all(side.folder is not None for side in sides):
        return ""
    here = Path(os.path.relpath(Path.cwd().resolve(), repository.top.resolve())) if repository.top else Path()
    for side in sides:
        for candidate in (here, *here.parents):
            folder = "" if candidate == Path() else candidate.as_posix()
            if side.commit is not None and repository.has_folder(side.commit, f"{folder}/{PROFILES}".lstrip("/")):
                return folder
            if (
                side.commit is None
                and side.folder is None
                and (repository.top or Path()).joinpath(folder, PROFILES).is_dir()
            ):
                return folder
    names = " or ".join(_label(side) for side in sides if side.folder is None)
    raise InputError(f"no {PROFILES} folder here or above, in {names}; run it where the profiles are")


def _tree(given: _Given, label: str, repository: Repository | None, project: str) -> Tree:
    if given.folder is not None:
        return folder_tree(label, _project_in(given), repository.algorithm if repository else "sha1")
    assert repository is not None
    if given.commit is not None:
        return commit_tree(label, repository, given.commit, project)
    assert repository.top is not None
    return working_tree(label, repository, repository.top, project)


def _project_in(given: _Given) -> Path:
    """A folder that holds `deploy_profiles`, or is it."""
    assert given.folder is not None
    if (given.folder / PROFILES).is_dir():
        return given.folder
    if given.folder.name == PROFILES:
        return given.folder.parent
    raise InputError(f"{readable_name(given.name)}: no {PROFILES} folder in it; name the folder that holds one")


def _folder_around(here: Path) -> Path:
    return next((folder for folder in (here, *here.parents) if (folder / PROFILES).is_dir()), here)
