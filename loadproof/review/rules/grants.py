"""What a policy allows or denies, statement by statement, and whether one of them holds all that another does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from loadproof.review.rules.change import View, rendered
from loadproof.review.rules.words import label, listing
from loadproof.templates.template import Resource, listed

EVERYBODY: Final = "everybody"
_WILD: Final = re.compile(r"[*?]")
_REFERRED: Final = re.compile(r"\$\{(\w+)(?:\.Arn)?\}")
_IF_EXISTS: Final = "IfExists"
# Policies on a resource -> the property that holds the document, and the one that names what it is on.
ON_RESOURCES: Final = {
    "AWS::SQS::QueuePolicy": ("PolicyDocument", "Queues"),
    "AWS::SNS::TopicPolicy": ("PolicyDocument", "Topics"),
    "AWS::S3::BucketPolicy": ("PolicyDocument", "Bucket"),
    "AWS::KMS::Key": ("KeyPolicy", ""),
    "AWS::SecretsManager::ResourcePolicy": ("ResourcePolicy", "SecretId"),
    "AWS::ECR::Repository": ("RepositoryPolicyText", ""),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """One thing that is allowed or denied: `who` may `action` on `place`, under `condition`.

    The condition is canonical JSON, '' without one; `but` and `but_places`: what NotAction and NotResource leave out.
    """

    who: str
    action: str
    place: str
    condition: str = ""
    but: frozenset[str] = frozenset()
    but_places: frozenset[str] = frozenset()

    def covers(self, other: Grant) -> bool:
        """True where whoever has this has the other too."""
        return (
            self.who in (other.who, EVERYBODY)
            and _matches(other.action.lower(), self.action.lower())
            and _matches(other.place, self.place)
            and _leaves_out_no_more(self.but, other.but, other.action.lower())
            and _leaves_out_no_more(self.but_places, other.but_places, other.place)
            and _no_wider(other.condition, self.condition)
        )

    def meets(self, other: Grant) -> bool:
        """True where both may speak of the same thing, whoever does it."""
        return _overlap(self.action.lower(), other.action.lower()) and _overlap(self.place, other.place)

    @property
    def sweeping(self) -> bool:
        """True for all actions, or all of a service."""
        return self.action == "*" or self.action.endswith(":*")

    @property
    def public(self) -> bool:
        """True where no principal and no condition holds anybody off (but a few that are named, at most)."""
        return self.who.startswith(EVERYBODY) and not self.condition

    def __str__(self) -> str:
        return f"{self.what} on {self.where}"

    @property
    def what(self) -> str:
        """The action in words."""
        return f"everything but {listing(sorted(self.but))}" if self.but else self.action

    @property
    def where(self) -> str:
        """The resource in words."""
        return f"{self.place} but {listing(sorted(self.but_places))}" if self.but_places else self.place


def grants(who: str, document: Any, effect: str = "Allow") -> Iterator[Grant]:
    """What a policy gives `who`, or with `effect` Deny refuses."""
    for statement in listed(document or {}, "Statement"):
        if statement.get("Effect") != effect:
            continue
        but = frozenset(rendered(one).lower() for one in listed(statement, "NotAction"))
        but_places = frozenset(rendered(one) for one in listed(statement, "NotResource"))
        for action in listed(statement, "Action") or ["*"]:
            for place in listed(statement, "Resource") or ["*"]:
                condition = _condition(statement)
                yield Grant(who, rendered(action), rendered(place) or "*", condition, but, but_places)


def principals(document: Any, effect: str = "Allow") -> Iterator[Grant]:
    """What a policy on a resource or a trust gives, by principal."""
    for statement in listed(document or {}, "Statement"):
        for who in _who(statement):
            yield from grants(who, {"Statement": [statement]}, effect)


def place_of(place: str, view: View) -> str:
    """A resource with the names of what it refers to: `chat-in` for `${Queue.Arn}`."""
    for name in _REFERRED.findall(place):
        held = view.named(name)
        if held is not None:
            place = re.sub(rf"\$\{{{name}(\.Arn)?\}}", label(held), place)
    return place


def on_its_resource(policy: Resource, grant: Grant) -> Grant:
    """The grant by what of the policy's own resource it speaks of: however its ARN is written, it is no other."""
    if policy.type == "AWS::S3::BucketPolicy":
        _, slash, key = grant.place.partition("/")
        place = f"/{key}" if slash else "*" if grant.place.endswith("*") else "bucket"
    else:
        place = "*"
    return Grant(grant.who, grant.action, place, grant.condition, grant.but, grant.but_places)


def _who(statement: Mapping[str, object]) -> list[str]:
    named = _names(statement.get("Principal"))
    if "NotPrincipal" in statement:
        return [f"{EVERYBODY} but {listing(sorted(_names(statement['NotPrincipal'])))}"]
    return [EVERYBODY if who == "*" else who for who in named]


def _names(principal: object) -> list[str]:
    if isinstance(principal, Mapping):
        return [rendered(each) for kind in sorted(principal) for each in listed(principal, kind)]
    return [rendered(principal)]


def _condition(statement: Mapping[str, object]) -> str:
    condition = statement.get("Condition")
    return json.dumps(condition, sort_keys=True) if condition else ""


def _no_wider(condition: str, than: str) -> bool:
    """True where whoever meets `condition` meets `than` too: no test fewer, and none that lets more through."""
    if than in ("", condition):
        return True
    have: dict[str, Any] = json.loads(condition or "{}")
    return all(
        any(
            key in have.get(stricter, {}) and _lets_no_more(operator, listed(have[stricter], key), listed(tests, key))
            for stricter in {operator, operator.removesuffix(_IF_EXISTS)}
        )
        for operator, tests in json.loads(than).items()
        for key in tests
    )


def _lets_no_more(operator: str, values: list[object], than: list[object]) -> bool:
    """Any of the values will do, so fewer are stricter; of those that must not be (`StringNotEquals`) more are."""
    own, other = [rendered(value) for value in values], [rendered(value) for value in than]
    if "Not" in operator:
        own, other = other, own
    wild = "Like" in operator or "Arn" in operator
    return all(any(_matches(value, each) if wild else value == each for each in other) for value in own)


def same_tests(one: str, two: str) -> bool:
    """True where two conditions ask for the same keys in the same way, whatever the values; not for what excludes."""
    first, second = (json.loads(condition or "{}") for condition in (one, two))
    alike = {operator: set(tests) for operator, tests in first.items()} == {
        operator: set(tests) for operator, tests in second.items()
    }
    return alike and all("Not" not in operator or second[operator] == tests for operator, tests in first.items())


def _leaves_out_no_more(own: frozenset[str], other: frozenset[str], of: str) -> bool:
    """True where what `own` leaves out of a wildcard is left out by the other too, or lies outside it (`of`)."""
    return all(any(_matches(name, pattern) for pattern in other) or not _overlap(name, of) for name in own)


def _overlap(one: str, two: str) -> bool:
    """True where two patterns may name the same thing: rather once too often."""
    both_wild = bool(_WILD.search(one) and _WILD.search(two))
    return _matches(one, two) or _matches(two, one) or (both_wild and _begin_alike(one, two))


def _begin_alike(one: str, two: str) -> bool:
    first, second = (_WILD.split(text, maxsplit=1)[0] for text in (one, two))
    return first.startswith(second) or second.startswith(first)


def _matches(text: str, pattern: str) -> bool:
    """IAM's wildcards: `*` and `?`, and no other sign means anything."""
    return text == pattern or (("*" in pattern or "?" in pattern) and fnmatchcase(text, _escaped(pattern)))


@cache
def _escaped(pattern: str) -> str:
    return re.sub(r"\[", "[[]", pattern)
