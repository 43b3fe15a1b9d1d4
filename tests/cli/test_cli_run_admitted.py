"""How many requests `loadproof run` may have in flight at a profile: never more than the profile allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.cli.run.command import admitted_by

_ON_BEDROCK = """
name: chat
backend: bedrock
model: {id: "meta.llama3-1-8b-instruct-v1:0"}
bedrock: {max_concurrency: 5}
objectives: {at_concurrency: 4, e2e_p95_ms: 8000}
workload: {input_tokens: 256, output_tokens: 64}
"""
_SERVER = "{family: tgi, version: 3.3.6, settings: {max_concurrent_requests: %d}}"
_ON_SAGEMAKER = f"""
name: chat
description: two models, or one on plain instances
model: {{id: Qwen/Qwen3-8B, source: {{type: s3, s3_uri: "s3://example-models-123456789012/qwen3-8b/"}}}}
container: {_SERVER % 16}
objectives: {{at_concurrency: 4, e2e_p95_ms: 9000}}
workload: {{input_tokens: 512, output_tokens: 200}}
"""
_COMPONENTS = f"""
endpoint: {{instance_type: ml.g6e.12xlarge, max_instances: 2}}
copies: {{min: 1, max: 2}}
components:
- name: small
  model: {{id: Qwen/Qwen3-8B, source: {{type: s3, s3_uri: "s3://example-models-123456789012/small/"}}}}
  container: {_SERVER % 4}
  copies: {{min: 1, max: 3}}
"""
_PLAIN = """
endpoint: {instance_type: ml.g6e.2xlarge, max_instances: 3, hosting: plain_variant}
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    (tmp_path / "environment.yaml").write_text('account: "123456789012"\nregion: us-east-1\n')
    return tmp_path / "chat.yaml"


def test_a_model_on_bedrock_takes_what_its_profile_allows(profile: Path) -> None:
    """Bedrock itself shows no bound; `bedrock.max_concurrency` is one."""
    profile.write_text(_ON_BEDROCK)
    assert admitted_by(profile, None) == 5


def test_each_component_has_its_own_copies_and_server(profile: Path) -> None:
    """16 a copy on up to 2 copies, 4 a copy on up to 3."""
    profile.write_text(_ON_SAGEMAKER + _COMPONENTS)
    assert (admitted_by(profile, None), admitted_by(profile, "small")) == (32, 12)


def test_a_plain_variant_has_a_copy_an_instance(profile: Path) -> None:
    """Its `copies` say nothing: 16 requests on each of up to 3 instances."""
    profile.write_text(_ON_SAGEMAKER + _PLAIN)
    assert admitted_by(profile, None) == 48
