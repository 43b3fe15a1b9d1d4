"""Roles, deployment, benchmark and night, as a person and a runner execute them: the real CDK CLI, a local cloud."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import boto3
import cdk_toolkit
import pytest
import yaml
from botocore.config import Config
from tiny_weights import TINY_SHAPE, safetensors
from workflow_steps import ROOT, TEMPLATES, Runner, copy_of_the_code, without_make

from loadproof.localcloud.local import running

CDK = ROOT / "node_modules" / ".bin" / "cdk"
IMPATIENT = ROOT / "tests" / "localcloud" / "cdk" / "impatient.js"  # the CLI asks more often how far a stack is
REPOSITORY = ("-c", "repository=acme/endpoints", "-c", "repository_id=456", "-c", "owner_id=123")
BUCKET = "ci-loadproof-dev-123456789012"
PROFILE: dict[str, Any] = {
    "name": "chat",
    "model": {
        "id": "acme/tiny",
        "source": {"type": "s3", "s3_uri": "s3://example-models/tiny/"},
        "architecture": TINY_SHAPE,
    },
    "container": {"family": "tgi", "version": "3.3.6", "settings": {"max_total_tokens": 4096}},
    "endpoint": {"instance_type": "ml.g6e.2xlarge"},
    "copies": {"memory_mib_per_copy": 16384},
    "objectives": {"at_concurrency": 2, "e2e_p50_ms": 30000, "error_rate_max": 0.01},
    "workload": {"input_tokens": 64, "output_tokens": 16},
    "benchmark": {"concurrency": [2], "requests_per_level": 8, "requests_at_objectives": 8, "warmup_requests": 0},
}
pytestmark = [
    pytest.mark.cdk,
    pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed (make setup)"),
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A checkout whose dev environment has one profile, on a bootstrapped local cloud."""
    folder = tmp_path_factory.mktemp("runner")
    checkout = folder / "checkout"
    copy_of_the_code(checkout)
    dev = checkout / "deploy_profiles" / "dev"
    for file in dev.glob("*.yaml"):
        if file.name != "environment.yaml":
            file.unlink()
    (dev / "chat.yaml").write_text(yaml.safe_dump(PROFILE), encoding="utf-8")
    for name in (".venv", "node_modules"):
        (checkout / name).symlink_to(ROOT / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(folder / "state"))
        with running("ci-deploy", transition_s=0.05, speed=100) as cloud:
            env = {**cloud.environment(), "PATH": without_make(folder), "NODE_OPTIONS": f"--require {IMPATIENT}"}
            cdk_toolkit.bootstrap(cloud, "us-east-1")
            made = Runner(checkout, folder / "scratch", {"inputs.environment": "dev", "matrix.environment": "dev"}, env)
            yield made


def make_ready(runner: Runner) -> None:
    """What a new account lacks of the profile: weights, and a quota for its instance type."""
    s3, quotas = client(runner, "s3"), client(runner, "service-quotas")
    s3.create_bucket(Bucket="example-models")
    s3.put_object(Bucket="example-models", Key="tiny/model.safetensors", Body=safetensors())
    s3.put_object(Bucket="example-models", Key="tiny/config.json", Body=b"{}")
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    wanted = "ml.g6e.2xlarge for endpoint usage"
    code = next(one["QuotaCode"] for page in pages for one in page["Quotas"] if one["QuotaName"] == wanted)
    quotas.request_service_quota_increase(ServiceCode="sagemaker", QuotaCode=code, DesiredValue=1)


def client(runner: Runner, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=runner.env["AWS_ENDPOINT_URL"],
        region_name="us-east-1",
        aws_access_key_id=runner.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=runner.env["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )


def test_a_merge_is_deployed_benchmarked_and_quiet_at_night(runner: Runner) -> None:
    """One journey in the workflows' own words: roles first, by the guide's command; deployed; benchmarked, the run kept
    in the bucket that came with the roles, and linked; and at night the templates are what is deployed."""
    subprocess.run(
        [str(CDK), "deploy", "--all", "--app", ".venv/bin/python -m stacks.ci", "-c", "env=dev", *REPOSITORY, "-y"],
        cwd=runner.checkout,
        env=runner.env,
        check=True,
        capture_output=True,
    )
    iam = client(runner, "iam")
    [trusted] = iam.get_role(RoleName="ci-loadproof-dev-deploy")["Role"]["AssumeRolePolicyDocument"]["Statement"]
    [provider] = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    assert trusted["Principal"]["Federated"] == provider["Arn"]

    deploy = TEMPLATES / "deploy-environment.yml"
    assert runner.run(deploy, "install") == 0, runner.ended[-1].stderr
    assert (runner.checkout.parent / "asked").read_text(encoding="utf-8") == "setup\n"
    assert runner.run(deploy, "preflight") == 1
    assert {"LA101", "LA121"} <= set(re.findall(r"LA\d{3}", runner.ended[-1].stdout))
    make_ready(runner)
    assert runner.run(deploy, "preflight") == 0, runner.ended[-1].stdout
    assert runner.run(deploy, "deploy") == 0, runner.ended[-1].stderr
    assert "loadproof-dev-chat" in runner.ended[-1].stdout

    # A machine too busy to measure says INVALID, which is kept and shown like any other verdict.
    outcome = {0: "PASS", 3: "INVALID"}[runner.run(deploy, "benchmark")]
    [row] = [line for line in runner.summary.splitlines() if line.startswith("| chat")]
    assert row.startswith(f"| chat | **{outcome}** | [`s3://{BUCKET}/evidence/dev/chat/")
    [run] = (runner.checkout / "runs").iterdir()
    run_id = json.loads((run / "plan.json").read_bytes())["run_id"]
    listed = client(runner, "s3").list_objects_v2(Bucket=BUCKET, Prefix=f"evidence/dev/chat/{run_id}/")["Contents"]
    assert {"evidence.json", "plan.json", "report.html", "summary.json"} <= {
        one["Key"].rpartition("/")[2] for one in listed
    }

    assert runner.run(TEMPLATES / "nightly.yml", "look", only="What is merged is deployed") == 0, runner.ended[
        -1
    ].stdout
