"""A gate through the real CDK CLI: what it prints when a benchmark turns a deployment back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_cdk_journey import CDK, Project, bootstrapped

STACK = "loadproof-dev-chat"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/loadproof-bench:1.0"
MANIFEST = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []}
# Tests share their machine: being late is no matter here.
PATIENT = """
import sys
if "loadproof.bench.remote.host" in sys.orig_argv:
    from loadproof.bench.judge import verdict
    verdict.OFFERED_AT_LEAST = 0
"""

pytestmark = [
    pytest.mark.cdk,
    pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed (make setup)"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """With the profile of docs/gate.md alone in an environment that has benchmarks."""
    patient = tmp_path_factory.mktemp("patient")
    (patient / "sitecustomize.py").write_text(PATIENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(patient))
        with bootstrapped(tmp_path_factory, "cdk-gate") as made:
            dev = made.folder / "deploy_profiles" / "dev"
            for file in dev.glob("*.yaml"):
                file.unlink()
            page = (Path(__file__).parents[3] / "docs" / "gate.md").read_text("utf-8")
            for name in ("environment.yaml", "chat.yaml"):
                (dev / name).write_text(page.partition(f"```yaml\n# {name}\n")[2].partition("```")[0])
            made.client("ecr").create_repository(repositoryName="loadproof-bench")
            made.client("ecr").put_image(
                repositoryName="loadproof-bench", imageManifest=json.dumps(MANIFEST), imageTag="1.0"
            )
            yield made


def test_cdk_deploy_waits_for_the_benchmark_and_says_why_it_went_back(project: Project) -> None:
    """`cdk deploy` of one profile brings the benchmark stack with it; with objectives that cannot be met it exits 1,
    the verdict in its output."""
    file = project.folder / "deploy_profiles" / "dev" / "chat.yaml"
    text = file.read_text()
    assert yaml.safe_load(text)["benchmark"]["gate"] == "rollback" and text.count("e2e_p50_ms: 5000") == 1
    file.write_text(text.replace("e2e_p50_ms: 5000", "e2e_p50_ms: 10"))
    said = project.cdk("deploy", STACK, "-c", "env=dev", "--require-approval", "never", code=1)
    assert "loadproof-dev-benchmark.StateMachineArn" in said
    assert "Benchmark FAIL of chat in dev: e2e_p50_ms: observed" in said
    stack = project.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
