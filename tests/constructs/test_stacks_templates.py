"""Whole templates: every example profile and every capability passes AWS's validator; examples match snapshots.

After a wanted change: `REWRITE_SNAPSHOTS=1 pytest tests/constructs/test_stacks_templates.py`, then read the diff.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_process
from stacks_support import ENVIRONMENT, FROM_HUB, KEY_ARN, NETWORK, profile, synthesize
from validated import findings

from loadproof.profiles import load_environment, load_profile

ROOT = Path(__file__).parents[2]
SNAPSHOTS = Path(__file__).parent / "snapshots"
EXAMPLES = sorted(
    file
    for file in (ROOT / "deploy_profiles").glob("*/*.yaml")
    if (file.parent / "environment.yaml").exists() and file.name != "environment.yaml"
)

REVIEWED = ("dev", "staging", "prod")


def _shown(file: Path) -> str:
    return f"{file.parent.name}-{file.stem}"


# Capabilities that no example uses, one profile each.
CAPABILITIES: dict[str, dict[str, Any]] = {
    "plain-variant-async": {
        "endpoint": {
            "hosting": "plain_variant",
            "async_inference": {"input_s3_uri": "s3://inputs/chat/", "output_s3_uri": "s3://outputs/chat/"},
            "data_capture": {"s3_uri": "s3://captures/chat/"},
        },
        "copies": {"max": 2},
        "scaling": {"policies": [{"type": "target_tracking", "metric": "invocations_per_instance", "target": 8.0}]},
    },
    "pools-routing-reservation": {
        "endpoint": {
            "instance_type": None,
            "instance_pools": [
                {"instance_type": "ml.g6e.2xlarge", "priority": 1},
                {"instance_type": "ml.g5.2xlarge", "priority": 2},
            ],
            "routing": {"strategy": "prefix_aware", "prefix_length_bytes": 2048, "concurrency_threshold": 8},
            "scale_in": {"strategy": "consolidation"},
        },
        "copies": {"placement": "binpack"},
    },
    "rolling-components": {
        "endpoint": {"max_instances": 5},
        "copies": {"min": 2, "max": 4, "update": {"batch_copies": 1, "rollback_batch_percent": 50}},
        "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8.0}]},
    },
    "canary-variant": {
        "endpoint": {
            "hosting": "plain_variant",
            "min_instances": 4,
            "max_instances": 4,
            "update": {"type": "blue_green", "traffic": "canary", "step_percent": 25, "max_execution_s": 7200},
        },
        "copies": None,
    },
    "zero-and-back": {
        "copies": {"min": 0},
        "endpoint": {"min_instances": 0},
        "buffer": {"max_concurrency": 2},
        "scaling": {
            "policies": [
                {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8.0},
                {
                    "type": "step",
                    "metric": "invocations_per_copy",
                    "threshold": 100.0,
                    "steps": [{"at": 0.0, "add_copies": 1}, {"at": 50.0, "add_copies": 2}],
                },
            ],
            "to_zero": {"wake_on_backlog": True},
        },
    },
    "adapters-and-components": {
        "container": {
            "family": "lmi",
            "version": "0.38.0",
            "settings": {"max_total_tokens": None, "enable_lora": True},
        },
        "adapters": [{"name": "legal", "s3_uri": "s3://example-models/adapters/legal.tar.gz"}],
        "components": [
            {
                "name": "small",
                "model": {
                    "id": "meta-llama/Llama-3.2-1B-Instruct",
                    "source": {"type": "s3", "s3_uri": "s3://example-models/small/"},
                },
                "container": {"family": "sglang", "version": "0.5.20"},
            }
        ],
        "endpoint": {"instance_type": "ml.g6e.12xlarge"},
    },
    "vllm-from-the-hub": {
        **FROM_HUB,
        "container": {"family": "vllm", "version": "0.30.0", "settings": {"max_total_tokens": None}},
        "buffer": {"max_concurrency": 2},
    },
}


def example_template(file: Path) -> dict[str, Any]:
    environment = load_environment(file.parent)
    return synthesize(load_profile(file), environment, environment_name=file.parent.name).template


def normalized(template: dict[str, Any]) -> str:
    """Asset hashes and the profile's hash out, so that a snapshot changes with the infrastructure only."""
    text = json.dumps(template, indent=1, sort_keys=True)
    text = re.sub(r"\b[0-9a-f]{64}\.zip", "<asset>.zip", text)
    text = re.sub(r"asset\.[0-9a-f]{64}", "asset.<hash>", text)
    return re.sub(r'"[0-9a-f]{64}"', '"<hash>"', text) + "\n"


@pytest.mark.parametrize("file", EXAMPLES, ids=_shown)
def test_example_passes_the_validator(file: Path, tmp_path: Path) -> None:
    """No template of an example profile has a finding."""
    assert findings(example_template(file), tmp_path / "template.json") == []


@pytest.mark.parametrize("file", [file for file in EXAMPLES if file.parent.name in REVIEWED], ids=_shown)
def test_example_matches_its_snapshot(file: Path) -> None:
    """Each reviewed environment's templates are the ones that were reviewed."""
    written = normalized(example_template(file))
    snapshot = SNAPSHOTS / f"{_shown(file)}.json"
    if os.environ.get("REWRITE_SNAPSHOTS"):
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(written, encoding="utf-8")
    assert written == snapshot.read_text(encoding="utf-8"), "wanted? REWRITE_SNAPSHOTS=1"


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("secured", [False, True], ids=["open", "network-and-key"])
def test_capability_passes_the_validator(
    capability: str,
    secured: bool,
    tmp_path: Path,
) -> None:
    """What no example uses is valid too, with and without network and key."""
    environment = ENVIRONMENT.model_copy(update={"network": NETWORK, "kms_key_arn": KEY_ARN} if secured else {})
    template = synthesize(profile(tmp_path, CAPABILITIES[capability]), environment).template
    assert findings(template, tmp_path / "template.json") == []


def test_validator_sees_a_wrong_value(tmp_path: Path) -> None:
    """The check is awake: an instance type nobody sells and a routing strategy nobody has are findings."""
    template = synthesize(profile(tmp_path)).template
    (config,) = [body for body in template["Resources"].values() if body["Type"] == "AWS::SageMaker::EndpointConfig"]
    variant = config["Properties"]["ProductionVariants"][0]
    variant["InstanceType"] = "ml.g99.mega"
    variant["RoutingConfig"]["RoutingStrategy"] = "ROUND_ROBIN"
    found = findings(template, tmp_path / "template.json")
    assert any("ml.g99.mega" in line for line in found)
    assert any("ROUND_ROBIN" in line for line in found)


def test_cfn_lint_has_nothing_to_say(tmp_path: Path) -> None:
    """The second opinion, in one run: all dev templates and one of each capability."""
    templates = {f"dev-{file.stem}": example_template(file) for file in EXAMPLES if file.parent.name == "dev"}
    templates |= {name: synthesize(profile(tmp_path, changes)).template for name, changes in CAPABILITIES.items()}
    for name, template in templates.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(template), encoding="utf-8")
    done = run_process(
        [str(Path(sys.executable).parent / "cfn-lint"), *(str(tmp_path / f"{name}.json") for name in templates)]
    )
    assert (done.returncode, done.stdout) == (0, "")
