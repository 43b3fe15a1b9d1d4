"""Whatever is chosen for the objectives keeps those of classes of the traffic, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixed_profiles import mixed

from loadproof.advice.comparison import Constraints, find_alternatives, settle
from loadproof.simulation.plan import make_plan

# An L40S at 864 GB/s takes 19 ms to read 15.3 GiB of weights, an H100 at 3,350 GB/s 4.9 ms; the first costs less.
TWO = Constraints(("ml.g6e.4xlarge", "ml.p5.4xlarge"))
GOAL = "least cost that meets the objectives"


@pytest.mark.parametrize(("bound_ms", "machine"), [(12, "ml.p5.4xlarge"), (50, "ml.g6e.4xlarge")])
def test_what_misses_a_class_s_bound_does_not_meet_the_objectives(
    tmp_path: Path, bound_ms: float, machine: str
) -> None:
    """The cheaper one is taken where it meets all bounds, and passed over where it misses the class's."""
    found = find_alternatives(mixed(tmp_path, bound_ms), GOAL, TWO).recommended.alternative
    assert found is not None
    assert (found.instance_type, found.objectives) == (machine, "meets")


def test_what_is_written_meets_the_class_s_bound(tmp_path: Path) -> None:
    """As `plan --write` does it: the plan of what it wrote says so of every row."""
    settled = settle(mixed(tmp_path, 12), GOAL, TWO)
    assert {row.expected for row in make_plan(settled.profile).outlook} == {"meets"}


def test_settings_are_not_advised_at_a_class_s_cost(tmp_path: Path) -> None:
    """Whatever is advised leaves as many objectives met as there were."""
    profile = mixed(tmp_path, 12, machine="ml.p5.4xlarge")
    for advice in find_alternatives(profile, GOAL, TWO).settings:
        assert advice.metric != "objectives not surely met" or advice.after < advice.before
