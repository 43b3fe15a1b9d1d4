"""What an edit replaces: logical ids change exactly where a change must force a new resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stacks_support import FROM_HUB, profile, synthesize

EDITS: dict[str, dict[str, Any]] = {
    "model": {"model": {"id": "meta-llama/Llama-3.2-1B-Instruct"}},
    "weights": {"model": {"source": {"s3_uri": "s3://example-models/llama-v2/"}}},
    "image": {"container": {"version": "3.2.3"}},
    "settings": {"container": {"settings": {"max_total_tokens": 2048}}},
    "copies": {"copies": {"min": 2, "max": 2}},
    "memory": {"copies": {"memory_mib_per_copy": 8192}},
    "family": {"container": {"family": "vllm", "version": "0.30.0", "settings": {"max_total_tokens": None}}},
    "speculation": {
        "container": {
            "family": "vllm",
            "version": "0.30.0",
            "settings": {"max_total_tokens": None},
            "speculative": {"method": "ngram", "tokens": 3},
        }
    },
    "update": {"copies": {"min": 2, "update": {"batch_copies": 1, "wait_s": 60}}, "endpoint": {"max_instances": 3}},
    "routing": {"endpoint": {"routing": {"strategy": "random"}}},
    "host": {"endpoint": {"ami_version": "al2-ami-sagemaker-inference-gpu-3-1"}},
    "metrics": {"endpoint": {"metrics": {"detailed": False}}},
    "capture": {"endpoint": {"data_capture": {"s3_uri": "s3://captures/chat/"}}},
    "instance": {"endpoint": {"instance_type": "ml.g6e.4xlarge"}},
    "objectives": {"objectives": {"e2e_p95_ms": 1000}},
    "scaling": {
        "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4.0}]}
    },
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_keep_every_logical_id(tmp_path: Path, edit: str) -> None:
    """No resource of the endpoint is deleted by an edit: CloudFormation updates or replaces it in order."""
    before = _lasting(synthesize(profile(tmp_path)).template["Resources"])
    after = _lasting(synthesize(profile(tmp_path, EDITS[edit])).template["Resources"])
    assert set(before) <= set(after)
    assert {name: body["Type"] for name, body in after.items() if name in before} == {
        name: body["Type"] for name, body in before.items()
    }


def _lasting(resources: dict[str, Any]) -> dict[str, Any]:
    """All but the policy of the execution role, which must be another one when it allows something else."""
    return {name: body for name, body in resources.items() if body["Type"] != "AWS::IAM::Policy"}


def test_revision_of_a_hub_model_keeps_the_endpoint(tmp_path: Path) -> None:
    """Another commit of the same weights: model anew, endpoint and component as they are."""
    other = {
        **FROM_HUB,
        "model": {**FROM_HUB["model"], "source": {**FROM_HUB["model"]["source"], "revision": "b" * 40}},
    }
    before, after = synthesize(profile(tmp_path, FROM_HUB)), synthesize(profile(tmp_path, other))
    for kind in ("Model", "Endpoint", "EndpointConfig", "InferenceComponent"):
        assert before.logical_id(f"AWS::SageMaker::{kind}") == after.logical_id(f"AWS::SageMaker::{kind}")
    assert before.only("AWS::SageMaker::Model") != after.only("AWS::SageMaker::Model")


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
