"""The cloud's clock: one for everything, as fast as it is told, and told to clients in the wall's time."""

from __future__ import annotations

import pytest

from loadproof.errors import InputError
from loadproof.localcloud import local
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricKey, MetricStore
from loadproof.localcloud.controlplane.cloudwatch.queries import Queries, metric_query
from loadproof.localcloud.wire import Caller

CALLER = Caller("123456789012", "us-east-1", "AKIA")


def test_two_seconds_of_the_wall_are_a_minute_at_speed_thirty() -> None:
    """It begins with the wall's time; what it shows after 2 s of the wall is 60 s on, and 2 s on when told."""
    passed = [100.0]
    clock = CloudClock(30.0, seconds=lambda: passed[0], epoch_s=1_000_000.0)
    assert clock.now_s() == 1_000_000.0
    passed[0] += 2.0
    assert clock.now_s() == 1_000_060.0
    assert clock.wall_s(clock.now_s()) == 1_000_002.0
    assert clock.cloud_s(1_000_001.0) == 1_000_030.0
    assert clock.wall(1_000_060.0).timestamp() == 1_000_002.0
    assert clock.calendar(1_000_060.0).timestamp() == 1_000_060.0


def test_counts_of_a_short_minute_stand_for_a_whole_one() -> None:
    """10 invocations in the 2 s that a minute takes at speed 30 are 300 a minute; a concurrency of 4 stays 4."""
    store = MetricStore()
    key = MetricKey("123456789012", "us-east-1", "N", "m", ())
    store.put(key, 30.0, 10.0)
    metric = {"Namespace": "N", "MetricName": "m"}

    def seen(statistic: str) -> list[float | None]:
        queries = Queries((metric_query(CALLER, "m", metric, statistic, 60),), (), ("m",))
        return queries.points(store, [0.0, 60.0], speed=30.0)["m"]

    assert (seen("Sum"), seen("SampleCount"), seen("Maximum")) == ([300.0], [30.0], [10.0])


@pytest.mark.parametrize("found", ["0.5", "101", "fast", "nan"])
def test_speed_that_no_clock_can_have(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADPROOF_LOCAL_SPEED", found)
    with pytest.raises(InputError, match=f"LOADPROOF_LOCAL_SPEED: found {found}, allowed are 1 to 100"):
        local.start("no-such-cloud")
