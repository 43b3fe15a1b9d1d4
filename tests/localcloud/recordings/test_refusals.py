"""What AWS documents that it refuses, put to the local cloud; the ledger names what comes otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fact_replay import accepted
from fact_tables import Fact, bases, ledger, refused

FACTS = refused()
LEDGER = ledger("refused")  # "accepted", or "otherwise": refused with another code


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.key)
def test_the_local_cloud_refuses_as_aws_does(fact: Fact, faults: Callable[[Fact], list[str]]) -> None:
    found = faults(fact)
    outcome = "accepted" if accepted(found) else "otherwise" if found else None
    assert outcome == LEDGER.get(fact.key, (None, ""))[0], found


@pytest.mark.parametrize("fact", [one for one in bases() if "error" not in one.said], ids=lambda fact: fact.key)
def test_what_a_row_changes_is_accepted_as_it_is(fact: Fact, faults: Callable[[Fact], list[str]]) -> None:
    """Else a row would be refused for another reason than its own."""
    assert not faults(fact)


def test_the_ledger_names_refusals() -> None:
    assert not LEDGER.keys() - {fact.key for fact in FACTS}


def test_there_are_at_least_300() -> None:
    assert len(FACTS) >= 300
