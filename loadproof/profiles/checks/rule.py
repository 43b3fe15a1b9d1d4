"""The book of checks (LP001 ...), and what they look at: a profile, each of its models, or an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from loadproof import rules
from loadproof.errors import Severity
from loadproof.profiles.on_bedrock import bedrock_settings
from loadproof.profiles.schema import Bedrock, Buffer, Component, Endpoint, Environment, Part, Profile, ToZero
from loadproof.profiles.tree import Path

Found: TypeAlias = rules.Found[Path, Severity]
Finding: TypeAlias = rules.Finding[Path, Severity]
Rule: TypeAlias = rules.Rule[Path, Severity]

MAIN: Final = "main"
P = TypeVar("P", bound=Part)


class AbsentError(Exception):
    """What a rule looks at is not there: the rule is passed over."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One model of an endpoint (`main` or a further component) with its place in the file."""

    component: Component
    path: Path
    profile: Profile

    @property
    def is_main(self) -> bool:
        """False for one of `components`."""
        return not self.path

    @property
    def endpoint(self) -> Endpoint:
        """The instances under it. Raises AbsentError where the profile has none."""
        return _there(self.profile.endpoint)

    @property
    def to_zero(self) -> ToZero | None:
        """How it goes to no copy; None where it does not."""
        scaling = self.component.scaling
        return scaling.to_zero if scaling is not None else None

    def at(self, *steps: str | int) -> Path:
        """The path of one of its fields."""
        return (*self.path, *steps)


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules look at: a profile, its models, and the environment of its folder where there is one."""

    profile: Profile
    components: tuple[Placed, ...]
    environment: Environment | None = None

    @property
    def main(self) -> Placed | None:
        """The profile's own model; None on Bedrock."""
        return self.components[0] if self.components else None

    @property
    def endpoint(self) -> Endpoint:
        """The profile's instances. Raises AbsentError where it has none."""
        return _there(self.profile.endpoint)

    @property
    def buffer(self) -> Buffer:
        """The profile's buffer. Raises AbsentError where it has none that is in use."""
        return _there(self.profile.buffer if self.profile.buffer and self.profile.buffer.enabled else None)

    @property
    def bedrock(self) -> Bedrock:
        """What only Bedrock has, its defaults included. Raises AbsentError for another backend."""
        return _there(bedrock_settings(self.profile) if self.profile.backend == "bedrock" else None)

    @property
    def region(self) -> str:
        """Where it is deployed. Raises AbsentError where no environment says so."""
        return _there(self.environment).region


def _there(part: P | None) -> P:
    if part is None:
        raise AbsentError
    return part


RULES: Final = rules.Rulebook[Subject, Path, Severity]("LP", "loadproof.profiles.checks", Subject, "error")
rule = RULES.rule
component_rule = RULES.over(Placed).rule
environment_rule = RULES.over(Environment).rule
reading = RULES.reported_elsewhere  # by the reader, the builder or the planner
