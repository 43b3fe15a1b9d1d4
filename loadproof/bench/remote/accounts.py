"""Who sent what of a run: each host's share, what is recorded of it and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadproof.bench.measure.records import MISSING, RequestRecord


@dataclass(frozen=True, slots=True)
class HostAccount:
    """One host's part. `requests` are the measured ones it should have sent, `missing` those nobody heard of.

    Of a level that ends by time `requests` counts what was sent and what a lost host had in flight. `lost` is None
    for a host that took part to the end.
    """

    host: str
    share: float
    requests: int
    missing: int
    lost: str | None

    @property
    def words(self) -> str:
        """`sent its 40 requests, a share of 0.5`, or what is missing and why."""
        if not self.missing and self.lost is None:
            return f"sent its {self.requests} requests, a share of {self.share:.3g}"
        return f"{self.missing} of {self.requests} requests missing, its share being {self.share:.3g}: it {self.lost}"


def host_accounts(
    hosts: Sequence[str], turns: int, records: Sequence[RequestRecord], lost: Mapping[str, str]
) -> list[HostAccount]:
    """Who sends what follows from the plan (`batches.places_of`): a conversation goes with its slot or due time."""
    requests, missing = [0] * len(hosts), [0] * len(hosts)
    for record in records:
        if record.phase == "measured":
            place = _place(record, turns, len(hosts))
            requests[place] += 1
            missing[place] += record.outcome == MISSING
    return [
        HostAccount(name, round(1 / len(hosts), 6), requests[place], missing[place], lost.get(name))
        for place, name in enumerate(hosts)
    ]


def _place(record: RequestRecord, turns: int, hosts: int) -> int:
    conversation = record.index // turns
    return (conversation % record.concurrency if record.concurrency else conversation) % hosts
