"""The consumer's own code under composed faults, in virtual time: what a night of them does, 2,000 of them here."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from sim_cloud import DynamoDb, Table
from sim_mutants import PLANTED, caught
from sim_package import replaced, source
from sim_run import Run, violations
from sim_schedule import Schedule, composed, shrunk
from sim_themes import drawn
from sim_versions import versions
from sim_world import Version, World

_PARTS, _SCHEDULES = 8, 2000
_WORDS = (
    "IfNoneMatch",
    "return None\n                raise NotNow",
    "lease_s * 2",
    "return Ending.POSTPONED",
    "_TOGETHER_S",
)
SOON = [one for one in PLANTED if any(words in one.now + one.instead for words in _WORDS)]


@pytest.mark.parametrize("part", range(_PARTS))
def test_the_contract_holds_under_composed_faults(part: int) -> None:
    """Nothing lost, nothing stored twice, nobody healthy buried, no repeat without a reason; else the least run."""
    for seed in range(part, _SCHEDULES, _PARTS):
        if violations(drawn(seed), versions()):
            least = shrunk(drawn(seed), lambda schedule: bool(violations(schedule, versions())))
            pytest.fail(f"seed {seed}: {violations(least, versions())} in {least}")


# Each broke the contract once: copies of a message that multiplied from crash to crash (1223150), requests after their
# deadline when the pace was read slowly (90348635), what a clock ahead called later (90935816), and excuses that the
# contract lacked: dead before the first heartbeat, a claim refused and yet made, dead letters that the queue did not
# take, attempts that failed on a frozen machine.
@pytest.mark.parametrize(
    "seed",
    [
        *(1223150, 1087563, 3000777, 1173164, 3034424, 1196681, 1111900, 3029319, 40023773, 40051352, 60046577),
        *(60039966, 90111075, 90348635, 90433888, 90599396, 90935816),
    ],
)
def test_what_broke_once_holds(seed: int) -> None:
    assert violations(composed(seed), versions()) == []


def history(schedule: Schedule) -> list[Any]:
    world = World(schedule, versions())
    run = Run(world)
    run.begin()
    world.kernel.run()
    asked = [(key, ask.began_s, ask.ended_s) for key, asks in world.asks.items() for ask in asks]
    seen = [world.kernel.now_s, asked, world.table.items, world.objects]
    run.end()
    return seen


def test_a_seed_says_all() -> None:
    """The same schedule gives the same run to the microsecond."""
    for seed in range(20):
        assert history(drawn(seed)) == history(drawn(seed))


def test_a_run_that_breaks_the_contract_is_made_small() -> None:
    """A result that is written over takes one key with two owners: a few faults are left of up to six."""
    put = replaced("consumer/results.py", '                    IfNoneMatch="*",\n', "")
    version = Version({"consumer/results.py": put})

    def fails(schedule: Schedule) -> bool:
        return any("written over" in words for words in violations(schedule, (version, version)))

    broken = next(schedule for schedule in map(drawn, range(3000)) if fails(schedule))
    least = shrunk(broken, fails)
    assert fails(least)
    assert len(least.sends) <= 2
    assert len(least.faults) <= 3


@pytest.mark.parametrize("planted", SOON, ids=lambda planted: planted.place)
def test_a_planted_defect_is_seen(planted: Any) -> None:
    """Some of those that `make chaos` tries; the others are there to be tried."""
    assert caught({planted.place: replaced(*planted)}, schedules=1000)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.place)
def test_every_defect_has_its_line_to_break(planted: Any) -> None:
    assert source(planted.place).count(planted.now) == 1


_CONDITIONS = (
    None,
    "attribute_not_exists(id) OR phase = :free OR (phase = :held AND lease_ms < :now) OR holder = :me",
    "holder = :me AND phase = :held",
)
_CHANGES = (
    "SET phase = :held, holder = :me, lease_ms = :now",
    "SET phase = :free REMOVE holder, lease_ms",
    "ADD answers :now SET phase = :held",
)


def test_the_simulated_table_answers_as_dynamodb_does() -> None:
    """400 random updates of three keys, answer by answer, beside moto's."""
    random, table = Random(5), Table(lambda *_: None)
    world, process = SimpleNamespace(table=table, kernel=SimpleNamespace(now_s=0.0)), SimpleNamespace(lost={})
    calls: Any = SimpleNamespace(do=lambda store, effect: effect(), world=world, process=process)
    keys = {"aws_access_key_id": "example", "aws_secret_access_key": "example"}
    with mock_aws():
        moto = boto3.client("dynamodb", region_name="us-east-1", **keys)
        moto.create_table(
            TableName="claims",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for _ in range(400):
            asked = _update(random)
            assert _answer(DynamoDb(calls), asked) == _answer(moto, asked), asked


def _update(random: Random) -> dict[str, Any]:
    change, condition = random.choice(_CHANGES), random.choice(_CONDITIONS)
    values: dict[str, Any] = {":free": {"S": "free"}, ":held": {"S": "held"}, ":me": {"S": random.choice("xy")}}
    values[":now"] = {"N": str(random.randrange(5))}
    used = {name: value for name, value in values.items() if name in f"{change} {condition}"}
    more = {"ConditionExpression": condition} if condition else {}
    key = {"id": {"S": random.choice("abc")}}
    return {"Key": key, "UpdateExpression": change, "ExpressionAttributeValues": used, **more}


def _answer(dynamodb: Any, asked: dict[str, Any]) -> Any:
    """What was there, and whether it was changed."""
    old = "ALL_OLD"
    try:
        found = dynamodb.update_item(
            TableName="claims", ReturnValues=old, ReturnValuesOnConditionCheckFailure=old, **asked
        )
    except ClientError as refused:
        return "refused", refused.response.get("Item")
    return "changed", found.get("Attributes")
