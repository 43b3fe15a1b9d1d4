"""Lists and numbers in messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from loadproof.pages.wording import joined
from loadproof.review.rules.change import is_literal, rendered
from loadproof.review.schemas import identity_of
from loadproof.templates.template import Resource

_SHOWN: Final = 4
_HASH: Final = re.compile(r"(?<=[a-z])[0-9A-F]{8}\Z")  # that CDK ends a logical id with
# Names that AWS's schema does not count as what a resource is known by.
_NAMES: Final = {"AWS::SQS::Queue": "QueueName", "AWS::SNS::Topic": "TopicName"}


def label(resource: Resource) -> str:
    """What a person knows the resource by: its own name, else the logical id without CDK's hash."""
    names = (*sorted(identity_of(resource.type)), _NAMES.get(resource.type, ""))
    texts = (rendered(resource.properties.get(name)) for name in names)
    named = next((text for text in texts if is_literal(text) and not text.startswith("arn:")), None)
    return named or _HASH.sub("", resource.logical_id)


def listing(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and 3 more`: a message stays one line."""
    if len(names) > _SHOWN:
        return f"{', '.join(names[: _SHOWN - 1])} and {len(names) - _SHOWN + 1} more"
    return joined(names, "and")
