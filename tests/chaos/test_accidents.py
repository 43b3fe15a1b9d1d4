"""A few accidents of each verb; tests/chaos/accidents.py does a hundred kills of each."""

from __future__ import annotations

import random
from itertools import product

import pytest
from accidents import LIMITS, VERBS, killed, limited

DISK = [limit for limit in LIMITS if "disk" in limit]


@pytest.mark.parametrize("name", VERBS)
def test_what_a_killed_verb_leaves_is_true_and_the_second_time_is_whole(name: str) -> None:
    """Nothing on the disk that the server did not see, nothing lost but what was in flight."""
    assert killed(name, random.Random(name)) in ("nothing yet", "begun", "partial", "whole")


@pytest.mark.parametrize(("name", "limit"), [*product(("run",), LIMITS), *product(("bench", "queue", "learn"), DISK)])
def test_a_verb_short_of_something_ends_with_a_word_and_an_exit_code(name: str, limit: str) -> None:
    """A full disk is said, and --resume completes what was stored before; with the others it ends as ever."""
    came = limited(name, limit)
    assert ("cannot be written" in came) == ("disk" in limit), came
