"""What a profile promises of its endpoint: its objectives, and those that classes of its traffic have of their own.

Whoever judges, predicts or compares objectives goes by these, so that no verb forgets a class.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.profiles.schema import Objectives, Profile
from loadproof.profiles.secrets import shown_path
from loadproof.profiles.tree import Path
from loadproof.sessions import label_of


@dataclass(frozen=True, slots=True)
class Promise:
    """One bound at the objectives' concurrency; the unit is in its name. `part` is the class whose requests it is of,
    empty: of all requests. `place` is where the profile writes it."""

    name: str
    bound: float
    place: Path
    part: str = ""

    @property
    def path(self) -> str:
        """The place in dotted form."""
        return shown_path(self.place)

    @property
    def label(self) -> str:
        return label_of(self.name, self.part)


def promises_of(profile: Profile) -> tuple[Promise, ...]:
    """The profile's own in the schema's order, then those of each class."""
    own = [Promise(name, bound, ("objectives", name)) for name, bound in profile.objectives.bounds.items()]
    of_classes = [
        Promise(name, one.objectives[name], ("workload", "classes", place, "objectives", name), one.name)
        for place, one in enumerate(profile.workload.classes)
        for name in Objectives.model_fields
        if name in one.objectives
    ]
    return (*own, *of_classes)
