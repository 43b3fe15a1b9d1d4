"""A sample of `make fuzz-profiles`: whatever stands in a profile, the answer is findings or none, never a traceback."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml
from profile_mutants import Mutant, Mutator, checked, originals

MUTANTS = 2000


@pytest.fixture(scope="module")
def mutator() -> Mutator:
    return Mutator(originals())


def test_mutants_are_answered_by_findings(mutator: Mutator) -> None:
    """Most are refused with an error, some are still profiles."""
    came: Counter[bool] = Counter()
    for seed in range(MUTANTS):
        file, mutant = mutator.mutant(seed)
        try:
            came[checked(file, mutant).ok] += 1
        except Exception as error:
            raise AssertionError(f"mutant {seed} of {file}: {'; '.join(mutant.done)}") from error
    assert came[False] > came[True] > MUTANTS / 20


def test_originals_are_good() -> None:
    """What is refused of a mutant is what was done to it."""
    assert len(originals()) > 15


def test_a_wrong_name_of_a_workload_leaves_no_sizes_to_look_at() -> None:
    """Found so: the rules over sizes ran, and fell over what was not there."""
    file = originals()[0]
    tree = {**yaml.safe_load(file.read_text()), "workload": {"name": "a", "output_tokens": 2}}
    assert "workload.name" in {problem.path for problem in checked(file, Mutant(tree, ())).problems}
