"""What the formats need beside the review itself: both sides' curves, and where the fields of a profile stand."""

from __future__ import annotations

from pathlib import Path

from loadproof.capacity import make_plan
from loadproof.profiles import load_profile, places_in
from loadproof.review.curves import curves_of
from loadproof.review.model import Curves

ROOT = Path(__file__).parents[2]
CHILD = """\
extends: base.yaml
endpoint:
  max_instances: 4
scaling:
  policies:
    - type: target_tracking
      target: 6
"""


def test_a_curve_rises_to_the_highest_level_of_the_benchmark_or_knee() -> None:
    """The example's benchmark has levels 1 to 32: none is missing, and each is the plan's own figure."""
    plan = make_plan(load_profile(ROOT / "deploy_profiles" / "prod" / "llama-3-1-8b.yaml"))
    curves = curves_of(None, plan)
    assert curves.before == ()
    levels = [point.concurrency for point in curves.after]
    assert levels == sorted(set(levels)) and {1, 2, 4, 8, 16, 32} <= set(levels)
    assert curves.after[0].ttft_ms == plan.levels[0].ttft_ms
    assert curves.after[0].output_tokens_per_s == plan.levels[0].output_tokens_per_s


def test_without_plans_there_is_no_curve() -> None:
    """A profile on Bedrock, or refused, has none."""
    assert curves_of(None, None) == Curves((), ())


def test_every_field_that_is_written_has_a_place_in_the_file_that_writes_it(tmp_path: Path) -> None:
    """The child's own lines, and the parent's for what the child leaves alone; a list is the child's whole."""
    (tmp_path / "base.yaml").write_text("name: chat\nendpoint:\n  instance_type: ml.g5.xlarge\n  max_instances: 2\n")
    (tmp_path / "chat.yaml").write_text(CHILD)
    places = {path: (Path(mark.file).name, mark.line) for path, mark in places_in(tmp_path / "chat.yaml").items()}
    assert places == {
        "name": ("base.yaml", 1),
        "endpoint.instance_type": ("base.yaml", 3),
        "endpoint.max_instances": ("chat.yaml", 3),
        "scaling.policies[0].type": ("chat.yaml", 6),
        "scaling.policies[0].target": ("chat.yaml", 7),
    }
