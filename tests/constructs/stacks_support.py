"""Profiles as YAML text in, templates as plain dictionaries out: the way a profile really goes, without the CLI."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# Before aws_cdk starts Node: the banner about its version belongs to nobody's test.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

from aws_cdk import App

from loadproof.constructs.deployment import Deployment
from loadproof.constructs.security.synthesized import findings_of
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Environment, Network, Profile
from stacks.application import add_stacks

ROOT = Path(__file__).parents[2]
FEATURE_FLAGS: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
PROFILE: dict[str, Any] = {
    "name": "chat",
    "model": {
        "id": "meta-llama/Llama-3.1-8B-Instruct",
        "source": {"type": "s3", "s3_uri": "s3://example-models/llama/", "accept_eula": True},
    },
    "container": {"family": "tgi", "version": "3.3.6", "settings": {"max_total_tokens": 4096}},
    "endpoint": {"instance_type": "ml.g6e.2xlarge", "min_instances": 1, "max_instances": 2},
    "copies": {"min": 1, "max": 2, "memory_mib_per_copy": 16384},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000, "error_rate_max": 0.01},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}
# An open model fetched by the server itself; merged over PROFILE.
FROM_HUB: dict[str, Any] = {
    "model": {
        "id": "Qwen/Qwen3-8B",
        "source": {"type": "hub", "revision": "a" * 40, "s3_uri": None, "accept_eula": None},
    },
    "endpoint": {"network_isolation": False},
    "acknowledged": {"LS005": "open weights, fetched by commit"},
}
# A model that the catalog does not know.
OWN_SHAPE: dict[str, Any] = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "parameters_b": 8.03,
}
ENVIRONMENT = Environment(account="123456789012", region="us-east-1", log_retention_days=7)
KEY_ARN = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
NETWORK = Network(
    vpc_id="vpc-0123456789abcdef0",
    subnet_ids=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
    security_group_ids=("sg-0123456789abcdef0",),
)


@dataclass(frozen=True, slots=True)
class Synthesized:
    """One stack's template."""

    template: dict[str, Any]

    def all(self, resource_type: str, *, proof: bool = False) -> dict[str, dict[str, Any]]:
        """Logical id -> resource, of one type; the proof's own, which every stack has, only when asked for."""
        resources: dict[str, dict[str, Any]] = self.template["Resources"]
        return {
            name: body
            for name, body in resources.items()
            if body["Type"] == resource_type and name.startswith("Proof") == proof
        }

    def only(self, resource_type: str) -> dict[str, Any]:
        """The properties of the one resource of that type."""
        (resource,) = self.all(resource_type).values()
        properties: dict[str, Any] = resource["Properties"]
        return properties

    def logical_id(self, resource_type: str) -> str:
        (name,) = self.all(resource_type)
        return name

    def named(self, resource_type: str, **properties: Any) -> dict[str, Any]:
        """The one resource of that type with these property values, whole."""
        (found,) = [
            body
            for body in self.all(resource_type).values()
            if all(body["Properties"].get(name) == value for name, value in properties.items())
        ]
        return found


def profile(folder: Path, changes: dict[str, Any] | None = None) -> Profile:
    """PROFILE with `changes` merged in (None deletes a key), read by the real loader."""
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(merged(PROFILE, changes or {}), sort_keys=False), encoding="utf-8")
    return load_profile(file)


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Maps merge, everything else replaces, None deletes."""
    result = copy.deepcopy(base)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return result


def synthesize(
    chosen: Profile,
    environment: Environment = ENVIRONMENT,
    *,
    environment_name: str = "test",
    scaling_paused: bool = False,
) -> Synthesized:
    """The template of one profile, with cdk.json's feature flags, as the CLI would have it.

    CDK's own validator stays off: it costs seconds and the tests have better ones.
    """
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    deployment = Deployment(environment_name, environment, chosen, scaling_paused)
    add_stacks(app, [deployment])
    assembly = app.synth()
    assert [str(finding) for _, finding in findings_of(Path(assembly.directory), [deployment]) if finding.stops] == []
    return Synthesized(assembly.get_stack_by_name(deployment.stack_name).template)
