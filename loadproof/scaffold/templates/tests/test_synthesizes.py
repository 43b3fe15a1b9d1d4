"""Every environment synthesizes, offline, as `cdk synth -c env=NAME` does it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = sorted(file.parent.name for file in (ROOT / "deploy_profiles").glob("*/environment.yaml"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_synthesizes(environment: str, tmp_path: Path) -> None:
    """A template for each of its profiles, and no error."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"] | {"env": environment}
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**os.environ, "CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(context)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    profiles = [
        one for one in (ROOT / "deploy_profiles" / environment).glob("*.yaml") if one.name != "environment.yaml"
    ]
    assert len(list(tmp_path.glob("*.template.json"))) >= len(profiles)
