"""Numbered rules across fields and against the catalog. `RULES` is the whole table; docs/checks.md is made from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from loadproof.profiles.checks import (
    buffering,
    calibrated,
    catalogued,
    fitting,
    hosting,
    on_bedrock,
    proving,
    reading,
    scaling,
    scheduling,
    security,
    servers,
    updating,
)
from loadproof.profiles.checks.rule import MAIN, Finding, Placed, Rule, Subject
from loadproof.profiles.schema import Component, Environment, Part, Profile
from loadproof.profiles.secrets import redacted, shown_path
from loadproof.profiles.tree import Node, Problems, place_of

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (
            *reading.RULES,
            *hosting.RULES,
            *updating.RULES,
            *servers.RULES,
            *scaling.RULES,
            *scheduling.RULES,
            *buffering.RULES,
            *proving.RULES,
            *security.RULES,
            *fitting.RULES,
            *catalogued.RULES,
            *calibrated.RULES,
            *on_bedrock.RULES,
        ),
        key=lambda rule: rule.code,
    )
)

__all__ = ["RULES", "Finding", "Placed", "Rule", "Subject", "check_rules", "errors_of"]


def check_rules(part: Profile | Environment, tree: Node, problems: Problems, environment: Environment | None) -> None:
    """Run every rule that applies to `part` and report at the place in `tree`.

    `part` may lack fields that were wrong (`building.build_part`): a rule that reaches one is passed over there.
    """
    for rule, finding in _findings(part, environment):
        problems.add(
            place_of(tree, finding.path),
            rule.code,
            finding.path,
            finding.message,
            finding.mend,
            finding.severity or rule.severity,
        )


def errors_of(profile: Profile, environment: Environment | None = None) -> list[str]:
    """Why `loadproof check` would refuse a profile that is in memory, a line each; empty when it would not."""
    return [
        f"{rule.code} {shown_path(finding.path)}: {finding.message}; {finding.mend}"
        for rule, finding in _findings(profile, environment)
        if (finding.severity or rule.severity) == "error"
    ]


def _findings(part: Profile | Environment, environment: Environment | None) -> Iterator[tuple[Rule, Finding]]:
    if isinstance(part, Environment):
        for rule in RULES:
            if rule.scope == "environment":
                yield from _run(rule, part)
        return
    subject = Subject(part, _placed(part), environment)
    for rule in RULES:
        if rule.scope == "component":
            for placed in subject.components:
                yield from _run(rule, placed)
        elif rule.scope == "profile" or (rule.scope == "placement" and environment is not None):
            yield from _run(rule, subject)


def _run(rule: Rule, argument: Any) -> Iterator[tuple[Rule, Finding]]:
    try:
        for finding in rule.function(argument):
            # A rule quotes what it finds, whatever the field: a token may have been pasted into any of them.
            yield rule, replace(finding, message=redacted(finding.message), mend=redacted(finding.mend))
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
