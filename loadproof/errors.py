"""Every error Loadproof raises on purpose. The exit code is part of the contract (docs/decisions/0002)."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

Severity = Literal["error", "warning"]
_USER: Final = re.compile(r"(:/{1,2})[^/\s@'\"]+@")  # and password, of an address


class ExitCode(IntEnum):
    """What a shell or a pipeline reads after any `loadproof` verb."""

    OK = 0
    MISSED = 1  # objectives missed, or findings at the chosen severity
    BAD_INPUT = 2  # bad profile, bad usage
    COULD_NOT_RUN = 3  # endpoint unreachable, no capacity, tool missing
    NOT_JUDGED = 4  # all well, but nothing was asked of it: a benchmark without objectives
    INTERRUPTED = 130


class LoadproofError(Exception):
    """Base of all errors that are shown to a person as one message, without a traceback."""

    exit_code = ExitCode.COULD_NOT_RUN

    def __str__(self) -> str:
        """Without the user and password of an address: libraries quote whole addresses."""
        return _USER.sub(r"\1***@", super().__str__())


def mend_of(error: OSError) -> str:
    """What is to be added to the error's own words: of a limit on open files that it is one, and how it is raised."""
    many = error.errno in (errno.EMFILE, errno.ENFILE)
    return (
        " (this shell allows too few files and connections: raise it, for example by `ulimit -n 1024`)" if many else ""
    )


class InputError(LoadproofError):
    """What the user gave is wrong: the message says place, found, allowed and how to mend it."""

    exit_code = ExitCode.BAD_INPUT


class CouldNotRunError(LoadproofError):
    """The input is fine, but the world is not: unreachable endpoint, missing tool, no capacity."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding in one file. `line` and `column` count from 1; `path` is the dotted YAML path ('' = whole file).

    `message` says what was found and what is allowed; `mend` says how to repair it.
    Never put a secret's value into either.
    """

    file: str
    line: int
    column: int
    code: str
    path: str
    message: str
    mend: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        subject = f" {self.path}:" if self.path else ""
        mark = "" if self.severity == "error" else " (warning)"
        return f"{where} {self.code}{mark}{subject} {self.message}; {self.mend}"


class ProfileError(InputError):
    """One or more profiles or environments cannot be used; carries every problem found, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))
