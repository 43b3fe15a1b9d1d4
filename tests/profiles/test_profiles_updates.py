"""What an update does when the profile says little, and how long it only waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiles_samples import CHAT

from loadproof.profiles import check_file
from loadproof.profiles.schema import BlueGreenUpdate, Copies, CopiesUpdate, Endpoint, RollingUpdate
from loadproof.profiles.updates import batch_copies, copies_update, endpoint_update, waiting_s


@pytest.mark.parametrize(("instances", "kind"), [(0, "blue_green"), (1, "blue_green"), (2, "rolling"), (9, "rolling")])
def test_variant_rolls_from_two_instances_on(instances: int, kind: str) -> None:
    """Half of one instance is none."""
    assert endpoint_update(Endpoint(min_instances=instances, max_instances=9)).type == kind


def test_components_roll_from_two_copies_on() -> None:
    """One copy has no batches; two go one by one, and what is written wins."""
    assert copies_update(Copies(min=1, max=4)) is None
    assert copies_update(Copies(min=2, max=4)) == CopiesUpdate(wait_s=600, rollback_on_alarms=True)
    own = CopiesUpdate(batch_copies=1)
    assert copies_update(Copies(min=2, max=4, update=own)) is own


@pytest.mark.parametrize(
    ("copies", "update", "batch"),
    [
        (5, CopiesUpdate(), 2),  # half of 5, rounded down
        (3, CopiesUpdate(batch_percent=5), 1),  # 0.15 copies are one
        (8, CopiesUpdate(batch_percent=25), 2),
        (8, CopiesUpdate(batch_copies=3), 3),
    ],
)
def test_batch_in_copies(copies: int, update: CopiesUpdate, batch: int) -> None:
    """A share is rounded down, and a batch is at least one copy."""
    assert batch_copies(Copies(min=copies, max=copies), update) == batch


@pytest.mark.parametrize(
    ("update", "seconds"),
    [
        (BlueGreenUpdate(type="blue_green", wait_s=100, termination_wait_s=7), 107),
        (BlueGreenUpdate(type="blue_green", traffic="canary", step_percent=10, wait_s=100, termination_wait_s=7), 207),
        (BlueGreenUpdate(type="blue_green", traffic="linear", step_percent=30, wait_s=100, termination_wait_s=0), 400),
        (RollingUpdate(type="rolling", batch_percent=50, wait_s=100), 200),
        (RollingUpdate(type="rolling", batch_percent=30, wait_s=100), 400),
        (CopiesUpdate(wait_s=100), 200),
        (CopiesUpdate(batch_copies=2, wait_s=100), 300),
    ],
)
def test_seconds_that_an_update_only_waits(
    update: BlueGreenUpdate | RollingUpdate | CopiesUpdate, seconds: int
) -> None:
    """One wait a step: 30, 60, 90 and 100 percent are four; five copies by two are three batches."""
    assert waiting_s(update, Copies(min=5, max=5)) == seconds


@pytest.mark.parametrize(
    ("endpoint", "copies", "codes"),
    [
        ("{update: {type: rolling}}", "{}", ["LP227"]),  # components are the default
        ("{hosting: plain_variant, update: {type: rolling}}", "{}", ["LP227"]),  # one instance
        ("{hosting: plain_variant, min_instances: 2, max_instances: 2, update: {type: rolling}}", "{}", []),
        ("{hosting: plain_variant, update: {type: blue_green, traffic: canary}}", "{}", ["LP228"]),
        ("{hosting: plain_variant, update: {type: blue_green, step_percent: 10}}", "{}", ["LP228"]),
        ("{max_instances: 4}", "{min: 2, max: 2, update: {batch_copies: 2}}", ["LP228"]),
        ("{max_instances: 3}", "{min: 2, max: 2, update: {batch_copies: 1, batch_percent: 50}}", ["LP228"]),
        # 40 batches of an hour are more than the 490 minutes that CloudFormation waits for a component.
        ("{max_instances: 41}", "{min: 40, max: 40, update: {batch_copies: 1, wait_s: 3600}}", ["LP228"]),
        ("{max_instances: 2}", "{min: 2, max: 2}", ["LP229"]),
        ("{max_instances: 3}", "{min: 2, max: 2}", []),
    ],
)
def test_updates_that_cannot_go(tmp_path: Path, endpoint: str, copies: str, codes: list[str]) -> None:
    """Each is refused or warned of by its rule, and by no other."""
    written = f"copies: {copies}\nendpoint: {{instance_type: ml.g5.2xlarge, {endpoint[1:]}\n"
    text = CHAT.replace("endpoint:\n  instance_type: ml.g5.2xlarge\n", written)
    (tmp_path / "chat.yaml").write_text(text)
    assert sorted({problem.code for problem in check_file(tmp_path / "chat.yaml").problems}) == codes
