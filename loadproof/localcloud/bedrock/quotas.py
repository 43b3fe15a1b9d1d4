"""Quotas: what Service Quotas lists of Bedrock, and the buckets that hold requests to it.

A bucket holds one minute's quota and refills steadily. A request takes its input + max_tokens when it is admitted and
settles for what it used: input + output · burndown. Source: Bedrock user guide, quotas-token-burndown.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from loadproof.catalog.bedrock import NO_PREFIX, BedrockModel, Unit, bedrock_models, default_quota, quota_names
from loadproof.localcloud.bedrock.errors import BedrockError
from loadproof.localcloud.bedrock.models import Target
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.wire import Caller

# Where no row of the catalog tells a default, the local cloud has one of its own.
_STAND_IN: Final[dict[Unit, float]] = {"requests": 1000.0, "tokens": 1_000_000.0}
_UNITS: Final[tuple[Unit, ...]] = ("requests", "tokens")


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota of an account in a region. The code of a quota that AWS does not publish is made of its name."""

    name: str
    code: str
    value: float
    adjustable: bool


def quota_of(store: BedrockStore, caller: Caller, model: BedrockModel, prefix: str, unit: Unit) -> Quota:
    """The quota of a model over a prefix, as it is now."""
    published = default_quota(model, prefix, unit, caller.region)
    name = published.name if published else quota_names(prefix, unit, model.title)[0]
    default = published.value if published else _STAND_IN[unit]
    value = store.quota_values.get((caller.account, caller.region, name), default)
    code = (published.code if published else None) or f"L-{zlib.crc32(name.encode()):08X}"
    return Quota(name, code, value, published is not None and published.adjustable)


def listed_quotas(store: BedrockStore, caller: Caller) -> list[Quota]:
    """Every quota of the catalog's models, by name."""
    quotas = [
        quota_of(store, caller, model, prefix, unit)
        for model in bedrock_models().values()
        for prefix in ((NO_PREFIX,) if model.on_demand else ()) + model.prefixes
        for unit in _UNITS
    ]
    return sorted({quota.name: quota for quota in quotas}.values(), key=lambda quota: quota.name)


class Bucket:
    """A minute's allowance that refills steadily; more may be taken at settlement than was there."""

    __slots__ = ("_at_s", "_left")

    def __init__(self, size: float, now_s: float) -> None:
        self._left, self._at_s = size, now_s

    def has(self, amount: float, size: float, now_s: float) -> bool:
        """Whether it holds `amount`; `size` is the quota as it is now."""
        self._left = min(size, self._left + (now_s - self._at_s) * size / 60.0)
        self._at_s = now_s
        return self._left >= amount

    def take(self, amount: float) -> None:
        self._left -= amount


class Admission:
    """Admits requests of all accounts and regions. Belongs to one thread."""

    def __init__(self, store: BedrockStore) -> None:
        self._store = store
        self._buckets: dict[tuple[str, str, str], Bucket] = {}

    def reserve(self, caller: Caller, target: Target, tokens: int) -> Reservation:
        """Take one request and `tokens` (input + max_tokens). Raises BedrockError; provisioned throughput has none."""
        if target.units is not None:
            return Reservation(None, target.model, 0)
        taken: list[Bucket] = []
        amounts: dict[Unit, float] = {"requests": 1.0, "tokens": float(tokens)}
        for unit, amount in amounts.items():
            quota = quota_of(self._store, caller, target.model, target.prefix, unit)
            bucket = self._bucket(caller, quota)
            if not bucket.has(amount, quota.value, self._store.now_s()):
                raise BedrockError("ThrottlingException", f"Too many {unit}, please wait before trying again.")
            taken.append(bucket)
        for bucket, amount in zip(taken, amounts.values(), strict=True):
            bucket.take(amount)
        return Reservation(taken[1], target.model, tokens)

    def _bucket(self, caller: Caller, quota: Quota) -> Bucket:
        key = (caller.account, caller.region, quota.name)
        if key not in self._buckets:
            self._buckets[key] = Bucket(quota.value, self._store.now_s())
        return self._buckets[key]


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a request took of the tokens' bucket."""

    bucket: Bucket | None
    model: BedrockModel
    tokens: int

    def settle(self, input_tokens: int, output_tokens: int) -> float:
        """Give back what was not used, or take what was used beyond it; returns the quota tokens used."""
        used = input_tokens + output_tokens * self.model.output_burndown
        if self.bucket is not None:
            self.bucket.take(used - self.tokens)
        return used
