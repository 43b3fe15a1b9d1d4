"""What an edit replaces: logical ids change exactly where a change must force a new resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stacks_support import profile, synthesize

EDITS: dict[str, dict[str, Any]] = {
    "model": {"model": {"id": "meta-llama/Llama-3.2-1B-Instruct"}},
    "weights": {"model": {"source": {"s3_uri": "s3://example-models/llama-v2/"}}},
    "image": {"container": {"version": "3.2.3"}},
    "settings": {"container": {"settings": {"max_total_tokens": 2048}}},
    "copies": {"copies": {"min": 2, "max": 2}},
    "instance": {"endpoint": {"instance_type": "ml.g6e.4xlarge"}},
    "objectives": {"objectives": {"e2e_p95_ms": 1000}},
    "scaling": {
        "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4.0}]}
    },
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_keep_every_logical_id(tmp_path: Path, edit: str) -> None:
    """No resource of the endpoint is deleted by an edit: CloudFormation updates or replaces it in order."""
    before = synthesize(profile(tmp_path)).template["Resources"]
    after = synthesize(profile(tmp_path, EDITS[edit])).template["Resources"]
    assert set(before) <= set(after)
    assert {name: body["Type"] for name, body in after.items() if name in before} == {
        name: body["Type"] for name, body in before.items()
    }


def test_component_of_another_endpoint_is_another_resource(tmp_path: Path) -> None:
    """SageMaker cannot move a component, so on another endpoint it is another resource; the endpoint is not."""
    kind = "AWS::SageMaker::InferenceComponent"
    here = synthesize(profile(tmp_path), environment_name="dev")
    there = synthesize(profile(tmp_path), environment_name="prod")
    assert here.logical_id(kind) != there.logical_id(kind)
    assert here.logical_id("AWS::SageMaker::Endpoint") == there.logical_id("AWS::SageMaker::Endpoint")


def test_logical_ids_do_not_name_the_model(tmp_path: Path) -> None:
    """Nothing of `meta-llama/Llama-3.1-8B-Instruct` is in an id."""
    assert not [name for name in synthesize(profile(tmp_path)).template["Resources"] if "llama" in name.lower()]
