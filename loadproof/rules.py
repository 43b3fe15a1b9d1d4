"""The one engine of numbered rules: checks of profiles, rules over templates, findings of a review.

A rulebook is a package. `@rule(...)` above a function in one of its modules is all that a rule needs: whoever reads the
book has every module of the package imported first, and a rule that stands elsewhere is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Generic, TypeAlias, TypeVar

Subject = TypeVar("Subject")  # what a rule looks at: a profile, a template, a change
Other = TypeVar("Other")
Place = TypeVar("Place")  # where in it something is found: a field's path, a resource's logical id
Severity = TypeVar("Severity", bound=str)


# Without slots: before Python 3.13 a frozen class with slots cannot be called by an alias such as `Found[Path, str]`.
@dataclass(frozen=True)
class Found(Generic[Place, Severity]):
    """What a rule's function yields: where, what was found and is allowed, how to mend it, what shows it."""

    place: Place
    message: str
    mend: str
    severity: Severity | None = None  # None: the rule's own
    evidence: str = ""
    needed: str = ""  # what is allowed or missing, where `message` says only what was found


@dataclass(frozen=True)
class Finding(Generic[Place, Severity]):
    """What is reported. `acknowledged` is the reason that somebody gave for leaving it so, None without one."""

    code: str
    severity: Severity
    place: Place
    message: str
    mend: str
    evidence: str = ""
    acknowledged: str | None = None
    needed: str = ""

    @property
    def stops(self) -> bool:
        """True for what may not be deployed."""
        return self.severity == "error" and self.acknowledged is None

    def __str__(self) -> str:
        mark = "" if self.severity == "error" else f" ({self.severity})"
        place = f" {self.place}:" if self.place else ""
        needed = f"; needed: {self.needed}" if self.needed else ""
        return f"{self.code}{mark}{place} {self.message}{needed}; {self.mend}"


@dataclass(frozen=True, slots=True)
class Rule(Generic[Place, Severity]):
    """One numbered rule with the words of its page. `source`: where it is known from, or how well; `also`: what other
    severities it gives."""

    code: str
    title: str
    reason: str
    mend: str
    severity: Severity
    source: str
    takes: type[Any]
    function: Callable[[Any], Iterable[Found[Place, Severity]]]  # of what it takes, as `Rulebook.rule` saw to
    also: tuple[Severity, ...] = ()

    def findings(self, subject: object) -> Iterator[Finding[Place, Severity]]:
        """What it finds; nothing in what it does not take."""
        if isinstance(subject, self.takes):
            for one in self.function(subject):
                severity = one.severity or self.severity
                yield Finding(self.code, severity, one.place, one.message, one.mend, one.evidence, needed=one.needed)


Look: TypeAlias = Callable[[Subject], Iterator[Found[Place, Severity]]]


class Rulebook(Generic[Subject, Place, Severity]):
    """The rules of one package, in the order of their codes: `prefix` and three digits, never given twice.

    `takes` is what its rules look at, `severity` what a rule has that says none.
    """

    def __init__(self, prefix: str, package: str, takes: type[Subject], severity: Severity) -> None:
        self._prefix, self._package, self._takes, self._severity = prefix, package, takes, severity
        self._rules: dict[str, Rule[Place, Severity]] = {}
        self._is_read = False

    def over(self, takes: type[Other]) -> Rulebook[Other, Place, Severity]:
        """The same book, to register rules that look at something else."""
        book: Rulebook[Other, Place, Severity] = Rulebook(self._prefix, self._package, takes, self._severity)
        book._rules = self._rules
        return book

    def rule(
        self,
        code: str,
        title: str,
        *,
        reason: str,
        mend: str,
        severity: Severity | None = None,
        source: str = "",
        also: tuple[Severity, ...] = (),
    ) -> Callable[[Look[Subject, Place, Severity]], Look[Subject, Place, Severity]]:
        """Make a function a rule. Raises ValueError for one that nobody would run."""

        def register(function: Look[Subject, Place, Severity]) -> Look[Subject, Place, Severity]:
            if function.__module__.rpartition(".")[0] != self._package:
                raise ValueError(f"{code} stands in {function.__module__}: put it into a module of {self._package}")
            own = severity or self._severity
            self._add(Rule(code, title, reason, mend, own, source, self._takes, function, also))
            return function

        return register

    def reported_elsewhere(
        self, code: str, title: str, *, reason: str, mend: str, severity: Severity | None = None, source: str = ""
    ) -> None:
        """Register a code that no rule finds, only its page: whoever meets it reports it."""
        self._add(Rule(code, title, reason, mend, severity or self._severity, source, type(None), lambda _: ()))

    def _add(self, rule: Rule[Place, Severity]) -> None:
        if not re.fullmatch(rf"{self._prefix}\d{{3}}", rule.code):
            raise ValueError(f"{rule.code} is no code of this book: expected {self._prefix} and three digits")
        if rule.code in self._rules:
            raise ValueError(f"{rule.code} is given twice: {self._rules[rule.code].title}, {rule.title}")
        self._rules[rule.code] = rule

    @property
    def by_code(self) -> Mapping[str, Rule[Place, Severity]]:
        """Every rule of the package by its code, in order."""
        if not self._is_read:
            package = import_module(self._package)
            for module in walk_packages(package.__path__, f"{self._package}."):
                import_module(module.name)
            self._is_read = True
        return dict(sorted(self._rules.items()))

    def __iter__(self) -> Iterator[Rule[Place, Severity]]:
        return iter(self.by_code.values())
