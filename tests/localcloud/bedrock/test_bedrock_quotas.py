"""Token buckets: what a request takes, gives back, and waits for."""

from __future__ import annotations

import pytest

from loadproof.localcloud.bedrock.errors import BedrockError
from loadproof.localcloud.bedrock.models import resolve
from loadproof.localcloud.bedrock.quotas import Admission, Bucket, listed_quotas
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.clock import StillClock
from loadproof.localcloud.wire import Caller

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
HAIKU = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
CALLER = Caller("123456789012", "us-east-1", "")
TOKENS = "On-demand model inference tokens per minute for Meta Llama 3.1 8B Instruct"
REQUESTS = "On-demand model inference requests per minute for Meta Llama 3.1 8B Instruct"


class World:
    """An account with the published quotas on a clock that stands still."""

    def __init__(self) -> None:
        self.clock = StillClock(1000.0)
        self.store = BedrockStore(now_s=self.clock.now_s)
        self.admission = Admission(self.store)

    def reserve(self, tokens: int, model_id: str = LLAMA):  # type: ignore[no-untyped-def]
        return self.admission.reserve(CALLER, resolve(self.store, CALLER, model_id), tokens)

    def allow(self, name: str, value: float) -> None:
        self.store.quota_values[(CALLER.account, CALLER.region, name)] = value


@pytest.fixture
def world() -> World:
    return World()


def test_a_bucket_refills_its_size_in_a_minute() -> None:
    """600 a minute are 10 a second: empty, it holds 30 after 3 s and never more than 600."""
    bucket = Bucket(600, 0)
    bucket.take(600)
    assert not bucket.has(31, 600, 3.0)
    assert bucket.has(30, 600, 3.0)
    assert not bucket.has(601, 600, 1000.0)
    assert bucket.has(600, 600, 1000.0)


def test_requests_beyond_the_quota_are_throttled(world: World) -> None:
    """With 2 requests a minute the third within a second is refused, and one is let in 30 s later."""
    world.allow(REQUESTS, 2)
    world.reserve(1)
    world.reserve(1)
    with pytest.raises(BedrockError, match="Too many requests") as refused:
        world.reserve(1)
    assert refused.value.code == "ThrottlingException"
    world.clock.advance(30)
    world.reserve(1)


def test_admission_takes_what_was_reserved(world: World) -> None:
    """Of 1000 tokens a minute, 600 reserved leave no room for 401, though nothing is used yet."""
    world.allow(TOKENS, 1000)
    world.reserve(600)
    with pytest.raises(BedrockError, match="Too many tokens"):
        world.reserve(401)
    world.reserve(400)


def test_what_was_not_used_comes_back(world: World) -> None:
    """600 reserved, 10 + 90 used: 900 of 1000 are left at once."""
    world.allow(TOKENS, 1000)
    assert world.reserve(600).settle(10, 90) == 100
    world.reserve(900)
    with pytest.raises(BedrockError):
        world.reserve(1)


def test_output_burns_five_times_down_for_claude(world: World) -> None:
    """200 in and 100 out are 200 + 5 x 100 quota tokens, more than the 300 that were reserved."""
    name = "Cross-region model inference tokens per minute for Anthropic Claude Haiku 4.5"
    world.allow(name, 1000)
    assert world.reserve(300, HAIKU).settle(200, 100) == 700
    with pytest.raises(BedrockError):
        world.reserve(301, HAIKU)
    world.reserve(300, HAIKU)


def test_a_refused_request_takes_nothing(world: World) -> None:
    """A request that the tokens' bucket refuses leaves the requests' bucket as it was."""
    world.allow(TOKENS, 100)
    world.allow(REQUESTS, 1)
    with pytest.raises(BedrockError, match="tokens"):
        world.reserve(101)
    world.reserve(100)


def test_regions_and_profiles_have_buckets_of_their_own(world: World) -> None:
    """The same model over `us.` and in another region is not held back by what its own region used."""
    world.allow(TOKENS, 100)
    world.reserve(100)
    world.reserve(100, f"us.{LLAMA}")
    other = Caller(CALLER.account, "us-west-2", "")
    world.admission.reserve(other, resolve(world.store, other, LLAMA), 100)


def test_the_list_has_the_published_values() -> None:
    """Llama 3.1 8B: 800 requests and 300,000 tokens on demand, 600,000 across regions under AWS's own code."""
    world = World()
    by_name = {quota.name: quota for quota in listed_quotas(world.store, CALLER)}
    assert by_name[REQUESTS].value == 800
    assert by_name[TOKENS].value == 300_000
    crossing = by_name["Cross-region model inference tokens per minute for Meta Llama 3.1 8B Instruct"]
    assert (crossing.value, crossing.code, crossing.adjustable) == (600_000, "L-9782749C", True)
    assert len({quota.code for quota in by_name.values()}) == len(by_name)
