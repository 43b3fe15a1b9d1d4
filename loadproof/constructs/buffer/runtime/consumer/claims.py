"""Who works on which key: one DynamoDB record a key, `claimed` for a lease, `released`, or `done`.

`done` is what was so when it was written. Results go after 30 days or by hand: the bucket says what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from botocore.exceptions import ClientError

from loadproof.wire.answers import code_of
from loadproof.wire.documents import Document

from .stores import Time, persevere

KEPT_S: Final = 29 * 86400  # about as long as results: after them a record tells nothing more
_FREE: Final = (
    "attribute_not_exists(id) OR phase = :released OR (phase = :claimed AND lease_ms < :now_ms)"
    " OR holder = :me OR expires_s < :now_s"
)
_MINE: Final = "holder = :me AND phase = :claimed"


@dataclass(slots=True)
class Claim:
    """A key that is ours until its lease ends. What was tried is written with the next renewal or release."""

    key: str
    owner: str
    fresh: bool  # no record was there before: so no result either
    attempts: int = 0
    suspicion: int = 0  # of its time-outs, added up (suspicion.py)
    lost: bool = False  # somebody else has it: what is under way may end, and nothing more is begun


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of asking for a key. `free_s` is when a lease held elsewhere ends (Unix time)."""

    state: Literal["ours", "held", "done"]
    claim: Claim | None = None
    free_s: float = 0.0


class Claims:
    """The table. Every write says what it expects to find, so each may be repeated and none can be lost to a crash."""

    def __init__(self, dynamodb: Any, table: str, clock: Time) -> None:
        self._dynamodb = dynamodb
        self._table = table
        self._clock = clock

    def take(self, key: str, owner: str, lease_s: float) -> Taken:
        """One conditional write. Raises StoreDownError."""
        now_s = self._clock.now_s()
        try:
            before = self._update(
                key,
                "SET phase = :claimed, holder = :me, lease_ms = :lease_ms, expires_s = :expires_s",
                _FREE,
                {
                    ":released": "released",
                    ":claimed": "claimed",
                    ":me": owner,
                    ":now_ms": int(now_s * 1000),
                    ":now_s": int(now_s),
                    ":lease_ms": int((now_s + lease_s) * 1000),
                    ":expires_s": int(now_s + KEPT_S),
                },
            )
        except _ConditionError as error:
            if error.found.get("phase") == "done":
                return Taken("done")
            return Taken("held", free_s=int(error.found.get("lease_ms", 0)) / 1000)
        spent = before if before.get("phase") != "done" else {}
        counts = int(spent.get("attempts", 0)), int(spent.get("suspicion", 0))
        return Taken("ours", Claim(key, owner, not before, *counts))

    def renew(self, claim: Claim, lease_s: float) -> bool:
        """Hold it for another lease. False: somebody else has it, and the put will decide. Raises StoreDownError."""
        lease_ms = int((self._clock.now_s() + lease_s) * 1000)
        return self._mine(claim, "SET lease_ms = :lease_ms", {":lease_ms": lease_ms})

    def release(self, claim: Claim) -> bool:
        """Let the next owner have it at once. Raises StoreDownError."""
        return self._mine(claim, "SET phase = :released", {":released": "released"})

    def done(self, key: str) -> None:
        """Its result is stored. True whoever says it. Raises StoreDownError."""
        values: dict[str, str | int] = {":done": "done", ":expires_s": int(self._clock.now_s() + KEPT_S)}
        self._update(key, "SET phase = :done, expires_s = :expires_s REMOVE holder, lease_ms", None, values)

    def reopen(self, key: str) -> None:
        """It is done, but its result is there no more: its life begins anew. Raises StoreDownError.

        Nothing changes where somebody works on it already.
        """
        change = "SET phase = :released REMOVE attempts, suspicion"
        try:
            self._update(key, change, "phase = :done", {":released": "released", ":done": "done"})
        except _ConditionError:
            return

    def _mine(self, claim: Claim, change: str, values: Mapping[str, str | int]) -> bool:
        spent: dict[str, str | int] = {":attempts": claim.attempts, ":suspicion": claim.suspicion}
        owned: dict[str, str | int] = {":me": claim.owner, ":claimed": "claimed"}
        try:
            self._update(
                claim.key,
                f"{change}, attempts = :attempts, suspicion = :suspicion",
                _MINE,
                {**owned, **spent, **values},
            )
        except _ConditionError:
            return False
        return True

    def _update(
        self, key: str, change: str, condition: str | None, values: Mapping[str, str | int]
    ) -> dict[str, str | int]:
        """Returns the record as it was. Raises _ConditionError, StoreDownError."""
        more: Document = {"ConditionExpression": condition} if condition else {}
        try:
            answer = persevere(
                "the claims table",
                lambda: self._dynamodb.update_item(
                    TableName=self._table,
                    Key={"id": {"S": key}},
                    UpdateExpression=change,
                    ExpressionAttributeValues={name: _typed(value) for name, value in values.items()},
                    ReturnValues="ALL_OLD",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **more,
                ),
                self._clock,
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            raise _ConditionError(_plain(error.response.get("Item", {}))) from None
        return _plain(answer.get("Attributes", {}))


class _ConditionError(Exception):
    """The record is not what the write expected."""

    def __init__(self, found: dict[str, str | int]) -> None:
        super().__init__("condition failed")
        self.found = found


def _typed(value: str | int) -> dict[str, str]:
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def _plain(item: dict[str, dict[str, str]]) -> dict[str, str | int]:
    return {
        name: int(value["N"]) if "N" in value else value["S"]
        for name, value in item.items()
        if "N" in value or "S" in value
    }
