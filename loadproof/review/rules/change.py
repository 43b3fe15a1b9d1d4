"""Both sides of a pair as rules read them: templates by stack, what is new on a side, and the profile's fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from loadproof.errors import Problem
from loadproof.profiles import Component, Environment, Profile, components_of
from loadproof.review.context import Context
from loadproof.review.model import Action, ResourceChange, Side
from loadproof.templates import Finding as TemplateFinding
from loadproof.templates import check_template
from loadproof.templates.template import Resource, Template

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[A-Za-z0-9.]+)?\}")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """One side. `synthesized` False: its templates are not known, and nothing may be said of them."""

    side: Side | None

    @property
    def synthesized(self) -> bool:
        return self.side is not None and bool(self.side.templates)

    @property
    def profile(self) -> Profile | None:
        return self.side.profile if self.side else None

    @property
    def environment(self) -> Environment | None:
        return self.side.environment if self.side else None

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.side.problems if self.side else ()

    @cached_property
    def templates(self) -> Mapping[str, Template]:
        """By stack name, in its order."""
        return {name: Template.read(raw) for name, raw in self._raw.items()}

    def of(self, *types: str) -> Iterator[Resource]:
        """Resources of these types, of every stack."""
        for template in self.templates.values():
            yield from template.of(*types)

    def placed(self, *types: str) -> Iterator[tuple[str, Resource]]:
        """The same with their stacks: two stacks may give the same logical id to different things."""
        for stack, template in self.templates.items():
            yield from ((stack, resource) for resource in template.of(*types))

    def find(self, stack: str, logical_id: str) -> Resource | None:
        """One resource of one stack."""
        return self._by_id.get((stack, logical_id))

    def named(self, logical_id: str) -> Resource | None:
        """A resource by its logical id alone, for references within the same stack."""
        return next((found for (_, name), found in self._by_id.items() if name == logical_id), None)

    def policy(self, stack: str, logical_id: str, attribute: str) -> str:
        """`DeletionPolicy` or `UpdateReplacePolicy` of a resource; `Delete` where nothing is written."""
        body = self._raw.get(stack, {}).get("Resources", {}).get(logical_id, {})
        return str(body.get(attribute) or "Delete")

    @cached_property
    def template_findings(self) -> tuple[tuple[str, TemplateFinding], ...]:
        """What the rules over templates (LS) find, by stack, with what profile and environment acknowledge."""
        acknowledged: dict[str, str] = {}
        for part in (self.environment, self.profile):
            acknowledged |= dict(part.acknowledged) if part is not None else {}
        return tuple((stack, found) for stack, raw in self._raw.items() for found in check_template(raw, acknowledged))

    @cached_property
    def _raw(self) -> Mapping[str, Mapping[str, Any]]:
        templates = self.side.templates if self.side else {}
        return {name: unconditional(templates[name]) for name in sorted(templates)}

    @cached_property
    def _by_id(self) -> Mapping[tuple[str, str], Resource]:
        return {
            (stack, resource.logical_id): resource
            for stack, template in self.templates.items()
            for resource in template.resources
        }


@dataclass(frozen=True)
class Change:
    """A pair as rules look at it."""

    context: Context
    before: View
    after: View

    @classmethod
    def of(cls, context: Context) -> Change:
        return cls(context, View(context.pair.before), View(context.pair.after))

    @property
    def profiles(self) -> tuple[Profile, Profile] | None:
        """The profile before and after; None unless both sides have a good one."""
        before, after = self.before.profile, self.after.profile
        return None if before is None or after is None else (before, after)

    @property
    def moved(self) -> bool:
        """True where the environment goes to another account or region: nothing of the old place is changed."""
        before, after = self.before.environment, self.after.environment
        if before is None or after is None:
            return False
        return (before.account, before.region) != (after.account, after.region)

    @property
    def has_after(self) -> bool:
        """True where it is known what will be deployed, and what it is compared with: an absent base is nothing."""
        return self.after.synthesized and (self.before.side is None or self.before.synthesized)

    @property
    def has_both(self) -> bool:
        """True where both sides were synthesized, for one place."""
        return self.after.synthesized and self.before.synthesized and not self.moved

    def resources(self, *types: str, action: Action | None = None) -> Iterator[ResourceChange]:
        """Changes of resources of these types, of the stacks that both sides have: CDK deletes no stack by itself."""
        for change in self.context.resources:
            shared = change.stack in self.after.templates and change.stack in self.before.templates
            if shared and self.has_both and change.type in types and action in (None, change.action):
                yield change

    def updated(self, *types: str) -> Iterator[tuple[ResourceChange, Resource, Resource]]:
        """Resources of these types that are updated in place, as they are and as they will be."""
        for one in self.resources(*types, action="update"):
            before, after = self.sides(one)
            if before is not None and after is not None:
                yield one, before, after

    def gone(self, *types: str) -> Iterator[tuple[ResourceChange, Resource, Resource | None]]:
        """Physical resources that leave their stack, with what takes their place; None for those that are removed."""
        for one in self.resources(*types):
            before, after = self.sides(one)
            if one.action in ("remove", "replace") and before is not None:
                yield one, before, after

    def sides(self, one: ResourceChange) -> tuple[Resource | None, Resource | None]:
        """The resource before and after; None where a side lacks it."""
        return self.before.find(one.stack, one.logical_id), self.after.find(one.stack, one.logical_id)

    def old(self, one: ResourceChange) -> Resource:
        """The resource as it was (of an added one: as it will be)."""
        before, after = self.sides(one)
        return before or after or Resource(one.logical_id, one.type, {}, {})

    def field(self, *paths: str, otherwise: str = "") -> str:
        """The first changed field at or under one of these paths: what a reader of the profile changed."""
        for path in paths:
            for change in self.context.fields:
                if change.path == path or change.path.startswith((f"{path}.", f"{path}[")):
                    return change.path
        return otherwise

    def fresh(self, look: Callable[[View], Iterable[tuple[K, T]]]) -> Iterator[T]:
        """What `look` sees after and not before, by its key. Nothing where the sides cannot be compared."""
        if self.has_after:
            known = {key for key, _ in look(self.before)}
            yield from (value for key, value in look(self.after) if key not in known)

    def fresh_problems(self) -> Iterator[Problem]:
        """Problems that the checks have with the head and had not with the base, by code and field."""
        known = {(problem.code, problem.path) for problem in self.before.problems}
        for problem in self.after.problems:
            if (problem.code, problem.path) not in known:
                yield problem


def models_by_name(profile: Profile) -> Mapping[str, tuple[str, Component]]:
    """Every model of an endpoint by its component's name, with where its fields begin (`components[0].`)."""
    if profile.backend == "bedrock":
        return {}
    parts = components_of(profile)
    return {part.name: (f"components[{at - 1}]." if at else "", part) for at, part in enumerate(parts)}


def unconditional(value: Any) -> Any:
    """The value without `Fn::If`: in a list both branches, elsewhere the first that is something.

    What is deployed under some condition is looked at as if it always were: a review would rather ask once too often.
    """
    if isinstance(value, list):
        branches = [_branches(item) for item in value]
        return [unconditional(item) for items in branches for item in items]
    if isinstance(value, Mapping):
        if _is_if(value):
            branch = next(iter(_branches(value)), None)
            return unconditional(branch)
        return {key: unconditional(item) for key, item in value.items()}
    return value


def _branches(value: Any) -> list[Any]:
    """The branches of an `Fn::If` that are something; of anything else, itself."""
    if not _is_if(value):
        return [value]
    return [branch for branch in value["Fn::If"][1:] if branch != {"Ref": "AWS::NoValue"}]


def _is_if(value: object) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get("Fn::If"), list)


def rendered(value: object) -> str:
    """A value as text, references as `${LogicalId}` or `${LogicalId.Attribute}`: equal texts mean the same thing."""
    if isinstance(value, dict) and len(value) == 1:
        ((function, argument),) = value.items()
        if function == "Ref":
            return f"${{{argument}}}"
        if function == "Fn::GetAtt":
            return f"${{{'.'.join(map(str, argument)) if isinstance(argument, list) else argument}}}"
        if function == "Fn::Sub":
            return _substituted(argument)
        if function == "Fn::Join" and isinstance(argument, list) and isinstance(argument[1], list):
            return str(argument[0]).join(rendered(part) for part in argument[1])
    return "" if value is None else str(value)


def _substituted(argument: object) -> str:
    """The text of an `Fn::Sub`, with what its own variables stand for."""
    text, own = argument if isinstance(argument, list) and len(argument) == 2 else (argument, {})
    text = str(text[0] if isinstance(text, list) and text else text)
    for name, value in own.items() if isinstance(own, Mapping) else ():
        text = text.replace(f"${{{name}}}", rendered(value))
    return text


def references(value: object) -> tuple[str, ...]:
    """The logical ids that a rendered value refers to."""
    return tuple(_REFERENCE.findall(rendered(value)))


def is_literal(text: str) -> bool:
    """True for a text that is known before deployment, and is one."""
    return bool(text) and "${" not in text
