"""What policies on resources deny and after the change deny no longer: the other half of LR040, and TLS for LR042."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.review.rules.grants import ON_RESOURCES, Grant, on_its_resource, principals
from loadproof.review.rules.words import label
from loadproof.templates.template import listed


@dataclass(frozen=True, slots=True)
class Denial:
    """`grant` is denied on the resource of this stack and logical id, which people know by `words`."""

    stack: str
    logical_id: str
    words: str
    grant: Grant

    @property
    def place(self) -> tuple[str, str]:
        return self.stack, self.logical_id

    @property
    def tls(self) -> bool:
        """True for what refuses requests without TLS."""
        tests = json.loads(self.grant.condition or "{}")
        return any(
            rendered(value).lower() == "false"
            for operator in ("Bool", "BoolIfExists")
            for key, values in (tests.get(operator) or {}).items()
            if key.lower() == "aws:securetransport"
            for value in (values if isinstance(values, list) else [values])
        )


def denials_lost(change: Change) -> list[Denial]:
    """Of resources that stay; by the resource, since policies are renamed freely."""
    if not change.has_both:
        return []
    kept, there, stays = list(_denials(change.after)), _ids(change.before), _ids(change.after)
    return [
        denial
        for denial in _denials(change.before)
        if not any(one.place == denial.place and one.grant.covers(denial.grant) for one in kept)
        and (denial.place not in there or denial.place in stays)
    ]


def _denials(view: View) -> Iterator[Denial]:
    for stack, policy in view.placed(*ON_RESOURCES):
        held, on = ON_RESOURCES[policy.type]
        targets = listed(policy.properties, on) if on else [{"Ref": policy.logical_id}]
        for grant in principals(policy.properties.get(held), "Deny"):
            for target in targets:
                for name in references(target) or (rendered(target),):
                    resource = view.find(stack, name)
                    words = label(resource) if resource is not None else name
                    yield Denial(stack, name, words, on_its_resource(policy, grant))


def _ids(view: View) -> set[tuple[str, str]]:
    return {(stack, one.logical_id) for stack, template in view.templates.items() for one in template.resources}
