"""Whose fault a time-out is, by hand and by chance."""

from __future__ import annotations

import random

import pytest

from loadproof.constructs.buffer.runtime.consumer.suspicion import MOST, Met, suspicion


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (Met(0, 0), 0),  # nobody to compare with
        (Met(1, 0), 82),  # log10(0.3 / 2) = -0.824
        (Met(99, 0), 252),  # log10(0.3 / 100) = -2.523
        (Met(9, 1), 68),  # log10(2.3 / 11) = -0.680
        (Met(91, 9), 91),  # log10(12.3 / 101) = -0.914
        (Met(0, 9), 0),  # 12.3 / 10 is more than all
    ],
)
def test_suspicion_is_how_rare_a_time_out_was(others: Met, expected: int) -> None:
    """Worked by hand."""
    assert suspicion(others) == expected


def test_what_was_met_since_is_never_negative() -> None:
    """A record that somebody deleted begins again at nothing."""
    assert Met(5, 2).since(Met(3, 4)) == (2, 0)


def others_of(chance: random.Random, share: float, number: int) -> Met:
    struck = sum(chance.random() < share for _ in range(number))
    return Met(number - struck, struck)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.08, 0.3, 0.7])
@pytest.mark.parametrize("number", [3, 30, 300])
def test_a_healthy_message_is_not_buried_by_what_strikes_all(share: float, number: int) -> None:
    """10,000 messages, each request of which times out with the same chance as all others: two at most.

    Three others are few to compare with: then it is ten at most.
    """
    chance, buried = random.Random(f"{share} {number}"), 0
    for _ in range(10_000):
        against = 0
        while against < MOST and chance.random() < share:
            against += suspicion(others_of(chance, share, number))
        buried += against >= MOST
    assert buried <= (10 if number == 3 else 2)


@pytest.mark.parametrize(("share", "number", "most"), [(0.0, 30, 2), (0.01, 300, 3), (0.08, 100, 5), (0.3, 30, 12)])
def test_a_poisonous_message_is_buried_soon(share: float, number: int, most: int) -> None:
    """It times out every time; the others only now and then."""
    chance = random.Random(1)
    against, times = 0, 0
    while against < MOST:
        against, times = against + suspicion(others_of(chance, share, number)), times + 1
    assert times <= most
