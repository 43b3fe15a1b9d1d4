"""The book of checks (LP001 ...), and what they look at: a profile, each of its models, or an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from loadproof import rules
from loadproof.errors import Severity
from loadproof.profiles.schema import Component, Endpoint, Environment, Profile
from loadproof.profiles.tree import Path

Found: TypeAlias = rules.Found[Path, Severity]
Finding: TypeAlias = rules.Finding[Path, Severity]

MAIN: Final = "main"


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


RULES: Final = rules.Rulebook[Subject, Path, Severity]("LP", "loadproof.profiles.checks", Subject, "error")
rule = RULES.rule
component_rule = RULES.over(Placed).rule
environment_rule = RULES.over(Environment).rule
reading = RULES.reported_elsewhere  # by the reader, the builder or the planner
