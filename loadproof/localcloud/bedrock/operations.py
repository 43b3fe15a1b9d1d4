"""What Bedrock's operations share: the store, the clock, tags."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterable
from datetime import UTC, datetime

from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.wire import Caller, add_tags, tag_map

_ID_CHARACTERS = string.ascii_lowercase + string.digits


class Operations:
    """`clock` turns the cloud's times into what clients are told."""

    def __init__(self, store: BedrockStore, clock: CloudClock) -> None:
        self._store = store
        self.lock = store.lock
        self._clock = clock

    def _tag(self, arn: str, tags: Iterable[dict[str, str]] | None) -> None:
        """Before the thing is kept. Raises AwsError for keys that Bedrock refuses."""
        kept = self._store.tags.setdefault(arn, {})
        add_tags(kept, tag_map(tags, "ValidationException", "key", "value"), "TooManyTagsException")

    def _time(self, cloud_s: float) -> datetime:
        return self._clock.wall(cloud_s).astimezone(UTC)


def new_id() -> str:
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(12))


def model_arn(caller: Caller, model_id: str, region: str | None = None) -> str:
    """The ARN of a foundation model; in the caller's own region unless another, or `""`, is asked for."""
    partition = caller.arn("bedrock", "").split(":")[1]
    return f"arn:{partition}:bedrock:{caller.region if region is None else region}::foundation-model/{model_id}"
