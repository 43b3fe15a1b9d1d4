"""A job's `run:` steps, taken from the workflow file and executed with bash as a GitHub runner does.

`uses:` steps are skipped: what they would have done is the test's to prepare. An expression the test did not give a
value for is an error, so a step cannot come to depend on something that nobody looks at.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from processes import run_process

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
TEMPLATES = ROOT / "docs" / "ci" / "github"
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


# What reviews and deployments need of a checkout.
_CODE = ("app.py", "cdk.json", "pyproject.toml", "loadproof", "stacks", "deploy_profiles", "scripts/ci")


def copy_of_the_code(folder: Path) -> None:
    """As it stands, committed or not; with what Python has compiled, which keeps its times and so its worth."""
    for name in _CODE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
        else:
            shutil.copy(ROOT / name, folder / name)


def without_make(folder: Path) -> str:
    """A PATH whose `make` notes what it was asked, and where: installing all once more is CI's own first step."""
    shim = folder / "make"
    install = f"[ -e .venv ] || ln -s {ROOT}/.venv .venv"
    shim.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\npwd >> {folder}/where\n{install}\n', encoding="utf-8")
    shim.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def workflow(file: Path) -> dict[Any, Any]:
    """YAML 1.1 reads the key `on` as true."""
    loaded: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


@dataclass
class Runner:
    """A folder that was checked out, and what the expressions of this run are worth."""

    checkout: Path
    scratch: Path
    expressions: dict[str, str]
    env: dict[str, str] = field(default_factory=dict)
    ended: list[subprocess.CompletedProcess[str]] = field(default_factory=list)

    @property
    def summary(self) -> str:
        file = self.scratch / "summary.md"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def run(self, file: Path, job_name: str, *, only: str | None = None) -> int:
        """The exit code of the first step that failed, or 0; steps after it do not run. `only` is one step's name."""
        loaded = workflow(file)
        job = loaded["jobs"][job_name]
        shell = loaded.get("defaults", {}).get("run", {}).get("shell")
        options = ["--noprofile", "--norc", "-eo", "pipefail"] if shell == "bash" else ["-e"]
        for step in job["steps"]:
            if "run" not in step or only not in (None, step["name"]):
                continue
            said = {**loaded.get("env", {}), **job.get("env", {}), **step.get("env", {})}
            env = {name: self._worth(str(value)) for name, value in said.items()}
            done = self._bash(options, self._worth(step["run"]), env)
            self.ended.append(done)
            self._outputs(step.get("id"))
            if done.returncode:
                return done.returncode
        return 0

    def _bash(self, options: list[str], script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        self.scratch.mkdir(exist_ok=True)
        file = self.scratch / "step.sh"
        file.write_text(script, encoding="utf-8")
        (self.scratch / "output").write_text("", encoding="utf-8")
        runner = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self.scratch / "output"),
            "GITHUB_REPOSITORY": "acme/endpoints",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(self.scratch / "summary.md"),
            "HOME": str(self.scratch),
            "RUNNER_TEMP": str(self.scratch),
            # Unpacking CDK's library is ten seconds of CPU on every fresh runner; this machine has done it.
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache" / "aws" / "jsii" / "package-cache"),
            "PATH": os.environ["PATH"],
        }
        return run_process(["bash", *options, str(file)], cwd=self.checkout, env={**runner, **self.env, **env})

    def _outputs(self, step_id: str | None) -> None:
        for line in (self.scratch / "output").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            self.expressions[f"steps.{step_id}.outputs.{name}"] = value

    def _worth(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.expressions[found[1]], text)
