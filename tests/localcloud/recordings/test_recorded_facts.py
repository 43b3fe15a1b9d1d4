"""What AWS was recorded to answer, put to the local cloud; the ledger names all that does not come alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fact_tables import Fact, ledger, recorded

FACTS = recorded()
LEDGER = ledger("recorded")


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.key)
def test_the_local_cloud_answers_as_aws_did(fact: Fact, faults: Callable[[Fact], list[str]]) -> None:
    found = faults(fact)
    told = LEDGER.get(fact.key)
    if told is None:
        assert not found
    else:
        assert found, f"it matches: take it out of the ledger, which says {told[0]}: {told[1]}"


def test_the_ledger_names_facts() -> None:
    assert not LEDGER.keys() - {fact.key for fact in FACTS}
