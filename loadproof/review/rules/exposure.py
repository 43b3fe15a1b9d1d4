"""What anybody may reach: buckets, policies, function addresses, security groups (LR043)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from loadproof.review.rules.change import Change, View, references, rendered
from loadproof.review.rules.grants import ON_RESOURCES, place_of, principals
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import number
from loadproof.review.rules.words import label, listing
from loadproof.templates.template import listed

_PUBLIC: Final = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
_ANYWHERE: Final = ("0.0.0.0/0", "::/0")
_EVERY_PORT: Final = (0, 65535)


@rule(
    "LR043",
    "Open to the public",
    reason="Anybody, in any account or from any address, could reach what only the platform should.",
    mend="Name the accounts, roles or networks that need it; keep the four switches that block public access on.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html; of a "
    "security group, 0.0.0.0/0 and ::/0 count as every address, no smaller network does",
    severity="risk",
)
def opened(change: Change) -> Iterator[Found]:
    yield from change.fresh(_public)
    if change.has_after:
        known = list(_doors(change.before))
        for door in _doors(change.after):
            if not any(old.covers(door) for old in known):
                message = f"security group {door.group} lets in every address ({door.where})"
                yield Found(door.logical_id, message, "name the networks that need it")


@dataclass(frozen=True, slots=True)
class _Door:
    """An entry of a security group that lets everybody in: protocol (`-1`: all), from and to port."""

    stack: str
    group: str
    logical_id: str
    source: str
    protocol: str
    ports: tuple[int, int]

    def covers(self, other: _Door) -> bool:
        same = (self.stack, self.group, self.source) == (other.stack, other.group, other.source)
        inside = self.ports[0] <= other.ports[0] and other.ports[1] <= self.ports[1]
        return same and (self.protocol == "-1" or (self.protocol == other.protocol and inside))

    @property
    def where(self) -> str:
        if self.protocol == "-1":
            return "every protocol and port"
        first, last = self.ports
        ports = "every port" if self.ports == _EVERY_PORT else f"port {first}" if first == last else f"{first}-{last}"
        return f"{self.protocol}, {ports}"


def _doors(view: View) -> Iterator[_Door]:
    for stack, group in view.placed("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"):
        named = group.properties.get("GroupId")
        name = next(iter(references(named)), rendered(named)) or group.logical_id
        for entry in (group.properties, *listed(group.properties, "SecurityGroupIngress")):
            source = rendered(entry.get("CidrIp") or entry.get("CidrIpv6"))
            if source in _ANYWHERE:
                protocol = rendered(entry.get("IpProtocol")) or "-1"
                yield _Door(stack, name, group.logical_id, source, protocol, _ports(entry))


def _ports(entry: Any) -> tuple[int, int]:
    """What only the deployment knows counts as every port."""
    first, last = number(entry.get("FromPort")), number(entry.get("ToPort"))
    return _EVERY_PORT if first is None or last is None else (first, last)


def _public(view: View) -> Iterator[tuple[tuple[str, str, str], Found]]:
    for stack, bucket in view.placed("AWS::S3::Bucket"):
        switches = bucket.properties.get("PublicAccessBlockConfiguration") or {}
        off = [name for name in _PUBLIC if switches.get(name) is not True]
        if off:
            message = f"bucket {label(bucket)} does not block public access ({listing(off)})"
            yield (stack, bucket.logical_id, "block"), Found(bucket.logical_id, message, "keep all four switches true")
    for stack, resource in view.placed(*ON_RESOURCES):
        for grant in principals(resource.properties.get(ON_RESOURCES[resource.type][0])):
            if grant.public:
                allowed = f"{grant.what} on {place_of(grant.where, view)}"
                message = f"{label(resource)} allows {grant.who} {allowed}"
                yield (
                    (stack, resource.logical_id, f"{grant.who} {grant}"),
                    Found(resource.logical_id, message, "name who needs it"),
                )
    for stack, url in view.placed("AWS::Lambda::Url"):
        if url.properties.get("AuthType") == "NONE":
            message = f"function address {url.logical_id} asks nobody who they are"
            yield (stack, url.logical_id, "url"), Found(url.logical_id, message, "use AuthType AWS_IAM")
