"""What a rule is: a number, words for people, and one small function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from loadproof.errors import Severity
from loadproof.profiles.schema import Component, Endpoint, Environment, Profile
from loadproof.profiles.tree import Path

Scope = Literal["reading", "profile", "component", "environment", "placement"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule found: where, what was found and is allowed, how to mend it."""

    path: Path
    message: str
    mend: str
    severity: Severity | None = None  # None: the rule's own


@dataclass(frozen=True, slots=True)
class Placed:
    """One model of an endpoint (`main` or a further component) with its place in the file."""

    component: Component
    path: Path
    profile: Profile

    @property
    def endpoint(self) -> Endpoint:
        """The instances under it. Raises AttributeError where the profile has none: the rule is passed over."""
        if self.profile.endpoint is None:
            raise AttributeError("endpoint", name="endpoint", obj=self.profile)
        return self.profile.endpoint

    def at(self, *steps: str | int) -> Path:
        """The path of one of its fields."""
        return (*self.path, *steps)


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules look at: a profile, its models, and the environment of its folder where there is one."""

    profile: Profile
    components: tuple[Placed, ...]
    environment: Environment | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One numbered check. `scope` says what `function` takes: Subject, Placed (once a model), or Environment."""

    code: str
    title: str
    reason: str
    fix: str
    scope: Scope
    severity: Severity
    function: Callable[[Any], Iterable[Finding]]


def rule(
    code: str, title: str, *, reason: str, fix: str, scope: Scope = "profile", severity: Severity = "error"
) -> Callable[[Callable[[Any], Iterator[Finding]]], Rule]:
    """Make a function a numbered rule."""

    def numbered(function: Callable[[Any], Iterator[Finding]]) -> Rule:
        return Rule(code, title, reason, fix, scope, severity, function)

    return numbered


def _reads_nothing(_: Any) -> Iterable[Finding]:
    return ()


def reading(code: str, title: str, *, reason: str, fix: str) -> Rule:
    """A code that the reader or the builder reports: no function, only its page."""
    return Rule(code, title, reason, fix, "reading", "error", _reads_nothing)


MAIN: Final = "main"
