"""Every pair gives exactly the findings that its expected.yaml lists: all of them, and no more."""

from __future__ import annotations

import pytest
import review_pairs

from loadproof.review.assemble import review_pair
from loadproof.review.rules import RULES

CODES = {rule.code for rule in RULES}


@pytest.mark.parametrize("name", review_pairs.names())
def test_a_pair_gives_its_findings_and_no_more(name: str) -> None:
    """What the review finds in a pair is what a person wrote down beside it."""
    findings = review_pair(review_pairs.pair(name), ()).findings
    assert sorted((one.code, one.severity, one.subject) for one in findings) == list(review_pairs.expected(name))
