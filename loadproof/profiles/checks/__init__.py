"""Numbered rules across fields and against the catalog. `RULES` is the whole book; docs/checks.md is made from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from loadproof.profiles.checks.rule import MAIN, RULES, AbsentError, Finding, Placed, Rule, Subject
from loadproof.profiles.schema import Component, Environment, Part, Profile
from loadproof.profiles.secrets import redacted, shown_path
from loadproof.profiles.tree import Node, Problems, place_of

__all__ = ["RULES", "Placed", "Subject", "check_rules", "errors_of"]


def check_rules(part: Profile | Environment, tree: Node, problems: Problems, environment: Environment | None) -> None:
    """Run every rule that applies to `part` and report at the place in `tree`.

    `part` may lack fields that were wrong (`building.build_part`): a rule that reaches one is passed over there.
    """
    for one in _findings(part, environment, RULES):
        problems.add(place_of(tree, one.place), one.code, one.place, one.message, one.mend, one.severity)


def errors_of(profile: Profile, environment: Environment | None = None) -> list[str]:
    """Why `loadproof check` would refuse a profile that is in memory, a line each; empty when it would not."""
    return [
        f"{one.code} {shown_path(one.place)}: {one.message}; {one.mend}"
        for one in _findings(profile, environment, _refusing())
        if one.severity == "error"
    ]


@cache
def _refusing() -> tuple[Rule, ...]:
    """The rules that may find an error: a search asks of thousands of profiles, and nobody reads warnings."""
    return tuple(rule for rule in RULES if "error" in (rule.severity, *rule.also))


def _findings(part: Profile | Environment, environment: Environment | None, rules: Iterable[Rule]) -> Iterator[Finding]:
    subjects: tuple[object, ...] = (part,)
    if isinstance(part, Profile):
        components = _placed(part)
        subjects = (Subject(part, components, environment), *components)
    for rule in rules:
        for subject in subjects:
            if isinstance(subject, rule.takes):
                yield from _readable(rule.findings(subject))


def _readable(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Up to the first wrong field. A rule quotes what it finds, whatever the field: each may hold a pasted token."""
    try:
        for one in findings:
            yield replace(one, message=redacted(one.message), mend=redacted(one.mend))
    except AbsentError:
        return
    except AttributeError as missing:
        if not _is_wrong_field(missing):
            raise


def _is_wrong_field(missing: AttributeError) -> bool:
    """True when a part was built without this field because the file has it wrong: its problem is reported."""
    return isinstance(missing.obj, Part) and missing.name in type(missing.obj).model_fields


def _placed(profile: Profile) -> tuple[Placed, ...]:
    """The profile's models. Parts are taken over as they are, wrong fields left out."""
    own = profile.__dict__
    if "container" in own and own["container"] is None:
        return ()  # bedrock, or LP201
    main = Component.model_construct(name=MAIN)
    for name in Component.model_fields:
        if name == "name":
            continue
        main.__dict__.pop(name, None)
        if name in own:
            main.__dict__[name] = own[name]
    further = own.get("components", ())
    return (
        Placed(main, (), profile),
        *(Placed(component, ("components", at), profile) for at, component in enumerate(further)),
    )
