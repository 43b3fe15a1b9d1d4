"""The conformance script, whole, against a local cloud: facts come out, nothing stays, nobody's account is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from processes import run_process

from loadproof.localcloud.local import LocalCloud

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "aws_conformance.py"


def ran(cloud: LocalCloud, output: Path, *more: str, account: str = "") -> subprocess.CompletedProcess[str]:
    options = ["--account", account or cloud.account, "--endpoint-url", cloud.endpoint_url, "--output", str(output)]
    return run_process(
        [sys.executable, str(SCRIPT), *options, *more],
        env={**os.environ, **cloud.environment(), "PYTHONPATH": str(ROOT)},
    )


def test_it_runs_whole_and_leaves_nothing(cloud: LocalCloud, aws: Callable[[str], Any], tmp_path: Path) -> None:
    """What it would settle first is among the facts, with the statuses that the endpoint went through."""
    output = tmp_path / "facts.yaml"
    done = ran(cloud, output)
    assert (done.returncode, done.stderr) == (0, "")
    assert "about 9 USD for 3.5 hours of ml.g5.xlarge and ml.g6.xlarge" in done.stdout
    text = output.read_text(encoding="utf-8")
    assert cloud.account not in text
    facts = {one["is"]: one for one in yaml.safe_load(text)["facts"]}
    assert len(facts) == 21
    moved = facts["an endpoint moved to another instance type under its component"]
    assert moved["passes"][-1] == "InService"
    assert moved["do"][0][0] == "sagemaker.create_model"
    assert facts["the component after the move"]["gets"]["InferenceComponentStatus"] == "InService"
    assert facts["an endpoint deleted under its component"]["error"] == "ValidationException/400"
    sagemaker = aws("sagemaker")
    left = [
        *(one["EndpointName"] for one in sagemaker.list_endpoints(NameContains="conformance")["Endpoints"]),
        *(one["ModelName"] for one in sagemaker.list_models(NameContains="conformance")["Models"]),
        *(one["RoleName"] for one in aws("iam").list_roles()["Roles"] if "conformance" in one["RoleName"]),
    ]
    assert left == []


def test_facts_of_a_local_cloud_never_pass_for_those_of_aws(cloud: LocalCloud, tmp_path: Path) -> None:
    """`loadproof local env` (docs/local-cloud.md) says which cloud answers, without an option; boto3 follows it.

    Facts that say "from AWS" would be put beside the recordings: the local cloud compared with itself.
    """
    output = tmp_path / "facts.yaml"
    done = run_process(
        [sys.executable, str(SCRIPT), "--account", cloud.account, "--free", "--output", str(output)],
        env={**os.environ, **cloud.environment(), "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert output.read_text(encoding="utf-8").startswith(
        "# Recorded by scripts/aws_conformance.py from a local cloud, us-east-1"
    )


def test_credentials_of_another_account_are_refused(cloud: LocalCloud, tmp_path: Path) -> None:
    """Nobody pays for what another account's owner asked."""
    done = ran(cloud, tmp_path / "facts.yaml", account="999999999999")
    assert done.returncode != 0
    assert "not 999999999999" in done.stderr
    assert not (tmp_path / "facts.yaml").exists()


def test_without_money_it_starts_no_instance(cloud: LocalCloud, tmp_path: Path) -> None:
    """The calls about what is not there, and configurations, which cost nothing."""
    output = tmp_path / "facts.yaml"
    done = ran(cloud, output, "--free")
    assert "it starts no instance" in done.stdout
    calls = {one["call"][0] for one in yaml.safe_load(output.read_text(encoding="utf-8"))["facts"]}
    assert "describe_endpoint" in calls
    assert not calls & {"create_endpoint", "update_endpoint"}
