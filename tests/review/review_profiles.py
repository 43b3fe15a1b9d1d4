"""Profiles as the loader reads them, from a few changes to a plain one."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import yaml

from loadproof.profiles import Environment, Profile, load_profile
from loadproof.review.model import Side

# ml.g6e.2xlarge: one L40S, 8 vCPUs, 64 GiB. ml.g6e.12xlarge: four, 48 and 384.
PLAIN: dict[str, Any] = {
    "name": "chat",
    "model": {
        "id": "meta-llama/Llama-3.1-8B-Instruct",
        "source": {"type": "s3", "s3_uri": "s3://example-models/llama/", "accept_eula": True},
    },
    "container": {"family": "tgi", "version": "3.3.6", "settings": {"max_total_tokens": 4096}},
    "endpoint": {"instance_type": "ml.g6e.2xlarge", "min_instances": 1, "max_instances": 8},
    "copies": {"min": 1, "max": 8},
    "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4}]},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}
# What makes PLAIN a profile of Bedrock.
BEDROCK: dict[str, Any] = {
    "backend": "bedrock",
    "model": {"id": "amazon.nova-lite-v1:0", "source": None},
    "container": None,
    "endpoint": None,
    "copies": None,
    "scaling": None,
    "bedrock": {},
}
ENVIRONMENT = Environment(account="123456789012", region="us-east-1")


def profile(changes: dict[str, Any] | None = None) -> Profile:
    """PLAIN with `changes` merged in (None deletes a key), read and checked by the real loader."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chat.yaml"
        file.write_text(yaml.safe_dump(_merged(PLAIN, changes or {}), sort_keys=False), encoding="utf-8")
        return load_profile(file)


def side(changes: dict[str, Any] | None = None, environment: Environment = ENVIRONMENT) -> Side:
    """A side that was not synthesized."""
    return Side("deploy_profiles/prod/chat.yaml", environment, profile(changes), {})


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(base)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = _merged(result[name], value)
        else:
            result[name] = value
    return result
