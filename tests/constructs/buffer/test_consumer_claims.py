"""The claims' table and the shared pace in DynamoDB, beside the plain words that the other tests use for them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from consumer_memory import Life, MemoryBoard, MemoryClaims, World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from loadproof.constructs.buffer.runtime.consumer.claims import Claim, Claims, Taken
from loadproof.constructs.buffer.runtime.consumer.pace import TableBoard
from loadproof.constructs.buffer.runtime.consumer.stores import StoreDownError, persevere
from loadproof.wire.pace import Record

steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("ab"), st.sampled_from("xyz")),
        st.tuples(st.sampled_from(("renew", "release")), st.sampled_from("ab"), st.sampled_from("xyz")),
        st.tuples(st.sampled_from(("done", "reopen")), st.sampled_from("ab"), st.just("")),
        st.tuples(st.just("wait"), st.sampled_from(("1", "59", "61", "2700000")), st.just("")),
    ),
    max_size=15,
)
board_steps = st.lists(
    st.tuples(
        st.sampled_from(("cut", "answered", "close", "close_lonely", "probe", "open", "count")),
        st.integers(1, 40),
        st.integers(1, 40),
        st.sampled_from(("unavailable", "no_capacity")),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    keys = {"aws_access_key_id": "example", "aws_secret_access_key": "example"}
    with mock_aws():
        yield boto3.client("dynamodb", region_name="us-east-1", **keys)


_numbers = count()


def table(dynamodb: Any) -> str:
    """A new empty table."""
    name = f"claims-{next(_numbers)}"
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


def played(claims: Any, world: World, script: list[tuple[str, str, str]]) -> list[Any]:
    """What each step answers; renewing and releasing are done with the claim that the owner took last."""
    held: dict[tuple[str, str], Claim] = {}
    answers: list[Any] = []
    for step, key, owner in script:
        if step == "wait":
            world.clock.time_s += float(key)
        elif step == "take":
            taken: Taken = claims.take(key, owner, 60.0)
            if taken.claim is not None:
                held[key, owner] = taken.claim
                taken.claim.attempts += 1
            answers.append(
                (taken.state, round(taken.free_s, 3), taken.claim and (taken.claim.fresh, taken.claim.attempts))
            )
        elif step == "done":
            claims.done(key)
        elif step == "reopen":
            claims.reopen(key)
        elif (key, owner) in held:
            claim = held[key, owner]
            answers.append(claims.renew(claim, 60.0) if step == "renew" else claims.release(claim))
    return answers


@given(steps)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_table_keeps_the_contract_of_claims(dynamodb: Any, script: list[tuple[str, str, str]]) -> None:
    """Any script of takes, renewals, releases and time gives the same answers in DynamoDB as in plain words."""
    in_words, in_table = World(), World()
    expected = played(MemoryClaims(in_words, Life()), in_words, script)
    assert played(Claims(dynamodb, table(dynamodb), in_table.clock), in_table, script) == expected


def moved(board: Any, script: list[tuple[str, int, int, str]]) -> list[Any]:
    answers: list[Any] = []
    for step, started_ms, now_ms, gate in script:
        if step == "cut":
            cut = Record(peak=now_ms / 40, low=now_ms / 50, cut_ms=now_ms, answered_ms=now_ms)
            answers.append(board.cut(cut, started_ms=started_ms))
        elif step == "answered":
            answers.append(board.answered(now_ms, not_since_ms=started_ms))
        elif step.startswith("close"):
            lonely_ms = started_ms if step == "close_lonely" else None
            closed = Record(gate=gate, gate_ms=now_ms, probe_ms=now_ms + 5)
            answers.append(board.close(closed, started_ms=started_ms, lonely_since_ms=lonely_ms))
        elif step == "probe" and board.read().gate_ms:
            answers.append(board.take_probe(board.read().probe_ms, now_ms))
            answers.append(board.take_probe(now_ms + 1, 0))
        elif step == "count":
            answers.append(board.count(started_ms, now_ms % 3, now_ms))
        elif step == "open":
            answers.append(board.open(now_ms, started_ms=started_ms))
        answers.append(board.read())
    return answers


@given(board_steps)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_table_keeps_the_shared_pace(dynamodb: Any, script: list[tuple[str, int, int, str]]) -> None:
    """The same for cuts, gates and probes."""
    world = World()
    expected = moved(MemoryBoard(world, Life()), script)
    assert moved(TableBoard(dynamodb, table(dynamodb), world.clock), script) == expected


def client_error(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Any")


@pytest.mark.parametrize(
    "error",
    [
        client_error("InternalServerError", 500),
        client_error("ThrottlingException", 400),
        client_error("SlowDown", 503),
        client_error("ConditionalRequestConflict", 409),
        EndpointConnectionError(endpoint_url="https://example"),
    ],
)
def test_what_passes_is_repeated_until_it_works(error: Exception) -> None:
    """Two failures and an answer, within the few seconds that an operation is given."""
    clock, failures = World().clock, [error, error]

    def call() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert persevere("the table", call, clock) == "done"


def test_a_store_that_stays_down_is_given_up_in_time() -> None:
    """Three seconds by default, or until the time it is given; the words name the store and the code."""
    clock = World().clock
    begun_s = clock.now_s()

    def call() -> None:
        raise client_error("InternalServerError", 500)

    with pytest.raises(StoreDownError, match=r"^the table is down \(InternalServerError\)$"):
        persevere("the table", call, clock)
    assert 1 < clock.now_s() - begun_s <= 3
    with pytest.raises(StoreDownError):
        persevere("the table", call, clock, begun_s + 60)
    assert 50 < clock.now_s() - begun_s <= 60


def test_what_cannot_pass_is_not_repeated() -> None:
    """A right that is missing stays missing."""
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise client_error("AccessDeniedException", 400)

    with pytest.raises(ClientError):
        persevere("the table", call, World().clock)
    assert len(calls) == 1
