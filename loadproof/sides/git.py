"""What a review asks of git, by plumbing: no checkout, hook, filter or pager, and names never meet a shell.

What a stranger pushed decides how much there is to read, so every answer is bounded before it is held.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Final

from loadproof.errors import CouldNotRunError, InputError

if sys.platform == "linux":
    import resource

LINK, SUBMODULE = "120000", "160000"
MOST_ANSWER_BYTES: Final = 64 * 2**20  # of names: some 600,000 files; a tree of trees can list without an end
MOST_BLOB_BYTES: Final = 16 * 2**20  # of one file, which a small push can make as large as it likes
PATIENCE_S: Final = 120.0  # for one answer that is no blob
# Of a commit's names, where 300,000 take a second and trees of trees no end, and of their attributes, where patterns
# are held against each.
PATIENCE_FOR_S: Final = {"ls-tree": 20.0, "check-attr": 8.0}
MOST_MEMORY_MIB: Final = 512  # of git itself: an index of a million files takes half of it
_ATTRIBUTE: Final = re.compile(rb"([^\0]*)\0([^\0]*)\0([^\0]*)\0")  # path, name, value
OVERSIZED: Final = b"too large for a review\n"  # what stands in place of a larger blob
# Programs that a repository's configuration, or attributes which a push brings, would have git start.
_STARTS_NOTHING: Final = (("core.fsmonitor", "false"), ("core.hooksPath", os.devnull), ("diff.external", ""))
# This machine's own attributes count for nothing, and names that another system would not take are read all the same.
_OF_ATTRIBUTES: Final = (
    ("core.attributesFile", os.devnull),
    ("core.protectNTFS", "false"),
    ("core.protectHFS", "false"),
)


class TooMuchError(InputError):
    """What git was asked takes more time, memory or room than a review gives it."""


@dataclass(frozen=True, slots=True)
class Blob:
    """One entry of a tree. Sizes are not asked for: in a partial clone each would be fetched."""

    mode: str
    id: str


class Repository:
    """The git repository around a folder. `top` is None for a bare one."""

    def __init__(self, here: Path) -> None:
        """Raises InputError outside a repository, CouldNotRunError without git."""
        if shutil.which("git") is None:
            raise CouldNotRunError("git is not on the path; install it, or name two folders")
        self.here = here
        inside = self._asked("rev-parse", "--is-inside-work-tree")
        if inside is None:
            raise InputError(f"{here} is in no git repository ({self._why}); run it inside one, or name two folders")
        _refuse_planted(Path(self._asked("rev-parse", "--absolute-git-dir") or ""), here.resolve())
        top = self._asked("rev-parse", "--show-toplevel") if inside == "true" else None
        self.top = None if top is None else Path(top)
        self.algorithm = self._asked("rev-parse", "--show-object-format") or "sha1"

    def commit(self, name: str) -> str | None:
        """The full id of the commit that `name` stands for, in any way git lets one say it; None without one."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            return None
        return self._asked("rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}")

    def head(self) -> str | None:
        """The commit of the working tree; None before the first one."""
        return self.commit("HEAD")

    def origin(self) -> str | None:
        """The address that this repository was cloned from, as git keeps it."""
        return self._asked("config", "--get", "remote.origin.url")

    def merge_bases(self, base: str, head: str) -> list[str]:
        """Where two commits parted; none where their history, as far as it is here, does not meet."""
        return (self._asked("merge-base", "--all", base, head) or "").split()

    def is_shallow(self) -> bool:
        return self._asked("rev-parse", "--is-shallow-repository") == "true"

    def branches(self) -> list[str]:
        """Names to suggest: branches here and of remotes."""
        said = self._asked("for-each-ref", "--count=20", "--format=%(refname:short)", "refs/heads", "refs/remotes")
        return [name for name in (said or "").split("\n") if name]

    def tree(self, commit: str, folder: str) -> dict[str, Blob]:
        """Every entry below `folder` ('' is the whole), by its path from there. Empty without such a folder."""
        return _entries(
            self._run("ls-tree", "--full-tree", "-r", "-z", f"{commit}:{folder}", unless="Not a valid object name")
        )

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, Blob]:
        """Those of these paths, from the top, that a commit has."""
        return _entries(self._run("ls-tree", "--full-tree", "-z", commit, "--", *paths)) if paths else {}

    def attributes(self, files: Mapping[str, str | bytes], paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """(path, attribute, value) of paths from the top, by `.gitattributes` of these ids or contents, all by path.

        Of this machine's own only those of `.git/info` count. Raises TooMuchError.
        """
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder, "work")
            work.mkdir()
            variables = {
                **_with_configuration(self._variables, _OF_ATTRIBUTES),
                "GIT_ATTR_NOSYSTEM": "1",
                "GIT_DIR": self._asked("rev-parse", "--absolute-git-dir") or "",
                "GIT_WORK_TREE": str(work),
                "GIT_INDEX_FILE": str(Path(folder, "index")),
            }
            for path, content in files.items():
                if isinstance(content, bytes):
                    (work / path).parent.mkdir(parents=True, exist_ok=True)
                    (work / path).write_bytes(content)
            # An index of them alone: git reads them from there as of a commit only since 2.40.
            ids = {path: one for path, one in files.items() if isinstance(one, str)}
            rows = b"".join(b"100644 %s\t%s\0" % (one.encode(), os.fsencode(path)) for path, one in ids.items())
            self._run("update-index", "-z", "--index-info", folder=work, variables=variables, told=rows)
            source = ("--cached",) if ids else ()
            said = self._run("check-attr", "-z", "--stdin", "-a", *source, folder=work, variables=variables, told=asked)
        for found in _ATTRIBUTE.finditer(said):  # never all of them as texts: they could be millions
            path, name, value = map(os.fsdecode, found.groups())
            yield path, name, value

    def has_folder(self, commit: str, folder: str) -> bool:
        return self._asked("cat-file", "-t", f"{commit}:{folder}") == "tree"

    def contents(self, ids: Iterable[str], most_bytes: int = MOST_BLOB_BYTES) -> Iterator[tuple[str, bytes]]:
        """Id and content of every blob, raw as git keeps it, one in memory at a time; OVERSIZED for a larger one."""
        wanted = list(dict.fromkeys(ids))
        small = []
        for one, size_bytes in zip(wanted, self.sizes(wanted), strict=True):
            if size_bytes > most_bytes:
                yield one, OVERSIZED
            else:
                small.append(one)
        with self._batch("--batch", small) as answers:
            for one in small:
                size_bytes = _size(answers.readline(), one)
                content = answers.read(size_bytes)
                answers.read(1)
                yield one, content

    def sizes(self, ids: Sequence[str]) -> Iterator[int]:
        """Bytes of every blob, of which nothing is read."""
        with self._batch("--batch-check", ids) as answers:
            for one in ids:
                yield _size(answers.readline(), one)

    @contextmanager
    def _batch(self, kind: str, ids: Sequence[str]) -> Iterator[IO[bytes]]:
        if not ids:
            yield io.BytesIO()
            return
        with subprocess.Popen(
            ["git", "cat-file", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.here,
            env=self._variables,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            _bound_memory(process)
            # Asked from a thread of its own: git answers while it is still being asked, and neither may wait.
            asking = threading.Thread(target=_ask, args=(process.stdin, ids), daemon=True)
            asking.start()
            try:
                yield process.stdout
            finally:
                process.kill()
                asking.join()

    def working_ids(self, folder: Path) -> dict[str, str | None]:
        """Tracked and untracked files below `folder` that git does not ignore; None for one that differs from its id.

        A path that is gone from the disk is left out. An id is what git keeps of an unchanged file, whatever filters
        (line ends, LFS) made of it on the disk.
        """
        ids: dict[str, str | None] = {}
        for mode, blob, stage, name in self._staged(folder):
            if mode != SUBMODULE:
                ids[name] = blob if stage == "0" else None
        for row in self._lines("ls-files", "-m", "-o", "--exclude-standard", folder=folder):
            ids[os.fsdecode(row)] = None
        for row in self._lines("ls-files", "-d", folder=folder):
            ids.pop(os.fsdecode(row), None)
        return ids

    def submodules(self, folder: Path) -> dict[str, str]:
        """Commits of other repositories below `folder`, by the path that each has here."""
        return {name: commit for mode, commit, _, name in self._staged(folder) if mode == SUBMODULE}

    def _staged(self, folder: Path) -> Iterator[tuple[str, str, str, str]]:
        """Mode, id, stage and path of all that git's index has below `folder`."""
        for row in self._lines("ls-files", "-s", folder=folder):
            facts, _, name = row.partition(b"\t")
            mode, one, stage = facts.decode().split()
            yield mode, one, stage, os.fsdecode(name)

    def is_dirty(self, folder: Path) -> bool:
        """True with changes to commit below `folder`, untracked files included; of a submodule, another commit.

        Git looks into none of them: it would start what their own configurations name.
        """
        asked = ("--porcelain=v1", "--no-renames", "--ignore-submodules=dirty", "--", ".")
        return next(iter(self._lines("status", *asked, folder=folder)), b"") != b""

    def _lines(self, *arguments: str, folder: Path) -> Iterator[bytes]:
        command, *rest = arguments
        return (row for row in self._run(command, "-z", *rest, folder=folder).split(b"\0") if row)

    def _asked(self, *arguments: str) -> str | None:
        """What git prints, without the last line end; None where it refuses (`_why` then has its words)."""
        done = self._started(arguments, self.here)
        self._why = done.stderr.decode(errors="replace").strip().partition("\n")[0] or "git refuses"
        return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else None

    def _run(
        self,
        *arguments: str,
        folder: Path | None = None,
        unless: str | None = None,
        variables: Mapping[str, str] | None = None,
        told: bytes = b"",
    ) -> bytes:
        """What git prints; nothing where it refuses with the words `unless`. Raises CouldNotRunError."""
        done = self._started(arguments, folder or self.here, variables, told)
        why = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        if done.returncode == 0 or (unless is not None and unless in why):
            return done.stdout
        if "maximum allowed tree depth" in why:
            raise TooMuchError(f"git {arguments[0]}: {why}; take the folders away that are so deep")
        raise CouldNotRunError(f"git {arguments[0]} failed: {why}")

    def _started(
        self, arguments: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None, told: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """`told` is its standard input. Raises TooMuchError."""
        command = ["git", "--no-pager", "--literal-pathspecs", *arguments]
        with (
            tempfile.TemporaryFile() as words,
            _file_of(told) as asked,
            subprocess.Popen(
                command,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=words,
                cwd=folder,
                env=self._variables if variables is None else variables,
            ) as process,
        ):
            assert process.stdout is not None
            _bound_memory(process)
            patience_s = PATIENCE_FOR_S.get(arguments[0], PATIENCE_S)
            watch = threading.Timer(patience_s, process.kill)
            began_s = time.monotonic()  # before the watch starts: what it ends was waited for
            watch.start()
            try:
                said = process.stdout.read(MOST_ANSWER_BYTES + 1)
                if len(said) > MOST_ANSWER_BYTES:
                    process.kill()
                    raise TooMuchError(
                        f"git {arguments[0]}: more than {MOST_ANSWER_BYTES // 2**20} MiB of names; a review reads "
                        "no more of one side: name the project's folder, or take the files away that made it so many"
                    )
                code = process.wait()
                if code < 0 and time.monotonic() - began_s >= patience_s:
                    raise TooMuchError(
                        f"git {arguments[0]}: no end within {patience_s:g} s; name the project's folder, or take the "
                        "folders away that made it so long"
                    )
            finally:
                watch.cancel()
            words.seek(0)
            why = words.read(64 * 1024)
            if code == -signal.SIGSEGV or (code != 0 and b"out of memory" in why.lower()):
                raise TooMuchError(
                    f"git {arguments[0]}: needs more than {MOST_MEMORY_MIB} MiB of memory; take the files away that "
                    "are so large, or the folders that are so deep"
                )
            return subprocess.CompletedProcess(command, code, said, why)

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        """For git: no question on a terminal, no lock in a repository that is only read, messages in English, and no
        program of the configuration's. A filter that is emptied leaves what lies on the disk as it is."""
        plain = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        plain["GIT_NO_REPLACE_OBJECTS"] = "1"  # what was pushed, and not what stands in for it here
        asked = ("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process|required)$")
        named = os.fsdecode(self._started(asked, self.here, plain).stdout).split("\0")
        filters = [(name, "false" if name.endswith(".required") else "") for name in dict.fromkeys(named) if name]
        return _with_configuration(plain, (*_STARTS_NOTHING, *filters))


def _with_configuration(variables: Mapping[str, str], lines: Sequence[tuple[str, str]]) -> dict[str, str]:
    """For git: these names and values after those that are there already."""
    try:
        count = int(variables.get("GIT_CONFIG_COUNT") or 0)  # a job's own come first
    except ValueError:
        count = 0
    found = {**variables, "GIT_CONFIG_COUNT": str(count + len(lines))}
    for number, (name, value) in enumerate(lines, start=count):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _bound_memory(process: subprocess.Popen[bytes]) -> None:
    """Git holds a commit, a tree and a file of attributes whole, and a small push makes one of any size. Packs, which
    it maps, do not count. Linux alone has such a bound."""
    if sys.platform == "linux":
        with suppress(OSError, ValueError):  # it has ended already, or has a lower one
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MOST_MEMORY_MIB << 20, MOST_MEMORY_MIB << 20))


def _refuse_planted(found: Path, here: Path) -> None:
    """Raises InputError for a bare repository that lies among the files of another: anybody can push one, and git,
    asked from within, would take its refs for the branches here, and start what its configuration names."""
    if found in (here, *here.parents) and ".git" not in found.parts:  # which nobody can push
        around = next((one for one in found.parents if os.path.lexists(one / ".git")), None)
        if around is not None:
            raise InputError(
                f"{found}: a git repository without a working tree, among the files of {around}: git would ask that "
                f"one, and run what it configures; delete its HEAD, or run it from {around}"
            )


def _entries(listed: bytes) -> dict[str, Blob]:
    found = {}
    for row in listed.split(b"\0"):
        if row:
            facts, _, name = row.partition(b"\t")
            mode, _, blob = facts.decode().split()
            found[os.fsdecode(name)] = Blob(mode, blob)
    return found


@contextmanager
def _file_of(content: bytes) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _size(facts: bytes, one: str) -> int:
    """Of an object, by git's line about it. Raises CouldNotRunError for one that is not there."""
    words = facts.split()
    if len(words) != 3:
        raise CouldNotRunError(f"git does not have object {one}; run `git fsck`, or fetch it")
    return int(words[2])


def _ask(stream: IO[bytes], ids: Sequence[str]) -> None:
    """A reader that went away has its own word to say."""
    with suppress(OSError), stream:
        for one in ids:
            stream.write(f"{one}\n".encode())


def hosted_at(folder: Path, path: str) -> str | None:
    """Where a browser finds `path` of the newest commit, by the address of `origin`: on GitHub and GitLab, whose pages
    have that form. None for any other host, and where `folder` is in no repository."""
    try:
        origin = Repository(folder).origin()
    except (InputError, CouldNotRunError):
        return None
    found = re.fullmatch(
        r"(?:(?:https|ssh)://(?:[^@/]*@)?|[^@/]+@)([\w.-]+)(?::\d+)?[:/](.+?)(?:\.git)?/?", origin or ""
    )
    if found is None or not re.search(r"\bgit(hub|lab)\b", found[1]):
        return None
    return f"https://{found[1]}/{found[2]}/blob/HEAD/{path}"
