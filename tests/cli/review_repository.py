"""A git repository of deploy profiles with a CDK app of its own that needs no CDK: tests of reviews count its runs.

`app.py` speaks the CDK CLI's protocol (context in, assembly out) in a tenth of a second. A profile that says
`# refuse` cannot be provisioned, one that says `# object` is refused without being named, and one that says `# crash`
makes it fall over.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadproof.sides.cache import Cache
from loadproof.sides.deadline import NONE, Deadline
from loadproof.sides.pairs import Choice, Sides, Trust, find_sides
from loadproof.sides.refs import find_trees
from loadproof.walls.prison import prison_kind

WALLED = pytest.mark.skipif(prison_kind() == "none", reason="this machine offers no walls")
APP = """\
import contextlib, json, os, sys
from pathlib import Path

from stacks.queue import TIMEOUT_S

root = Path(__file__).resolve().parent / "deploy_profiles"
context = json.loads(os.environ["CDK_CONTEXT_JSON"])
out = Path(os.environ["CDK_OUTDIR"])
with contextlib.suppress(OSError), open(os.environ["CDK_RUNS_FILE"], "a") as log:  # walls keep it from there
    log.write(json.dumps({"context": context, "variables": sorted(os.environ)}) + "\\n")
stacks = {}
for env in context["env"].split(","):
    files = {file.stem: file for file in sorted((root / env).glob("*.yaml")) if file.name != "environment.yaml"}
    for name in context["profile"].split(",") if "profile" in context else files:
        text = files[name].read_text()
        if "# object" in text:
            print("loadproof: something is wrong somewhere", file=sys.stderr)
            sys.exit(2)
        if "# refuse" in text:
            print(f"loadproof: profile {name}: no place for {files[name]}", file=sys.stderr)
            sys.exit(2)
        if "# crash" in text:
            raise RuntimeError("fell over")
        stacks[f"loadproof-{env}-{name}"] = {"VisibilityTimeout": TIMEOUT_S, "KmsMasterKeyId": str(len(text))}
    stacks[f"loadproof-{env}-benchmark"] = {"VisibilityTimeout": (root / env / "environment.yaml").stat().st_size}
artifacts = {}
for name, properties in stacks.items():
    properties = {**properties, **context.get("queue", {})}
    template = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": properties}}}
    (out / f"{name}.template.json").write_text(json.dumps(template))
    artifacts[name] = {"type": "aws:cloudformation:stack", "properties": {"templateFile": f"{name}.template.json"}}
(out / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
"""
PROFILE: dict[str, Any] = {
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
ENVIRONMENT = 'account: "123456789012"\nregion: us-east-1\n'


class Project:
    """A repository in `root`; `runs` are the syntheses so far. `places` are the environments' profiles."""

    def __init__(self, root: Path, own_code: bool = True, **environments: tuple[str, ...]) -> None:
        self.root = root
        self.runs_file = root.parent / f"{root.name}.runs"
        self.cache = Cache(root.parent / f"{root.name}.cache")
        made, self.first = _first_commit(own_code, tuple(environments.items()))
        shutil.copytree(made, root, symlinks=True)
        self.git("update-index", "-q", "--refresh")  # git knows files by their inodes, too

    def git(self, *arguments: str) -> str:
        """Its output, stripped; as nobody in particular, and at one time, so that ids are the same in every run."""
        said = "2026-01-01T00:00:00Z"
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            "GIT_AUTHOR_DATE": said,
            "GIT_COMMITTER_DATE": said,
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=variables, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def profile(self, place: str, comment: str = "", **changes: Any) -> Path:
        """`dev/chat` -> deploy_profiles/dev/chat.yaml, with `changes` in place of PROFILE's keys."""
        body = yaml.safe_dump({"name": place.rpartition("/")[2], **PROFILE, **changes}, sort_keys=False)
        return self.write(f"deploy_profiles/{place}.yaml", body + (f"# {comment}\n" if comment else ""))

    def commit(self, message: str = "change") -> str:
        """Everything there is; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def runs(self) -> int:
        return len(self.runs_file.read_text().splitlines()) if self.runs_file.exists() else 0

    def sides(
        self,
        base: str,
        head: str | None = None,
        *,
        direct: bool = False,
        choice: Choice | None = None,
        trust: Trust = "unwalled",
        deadline: Deadline = NONE,
    ) -> Sides:
        """As the command finds them, from the current folder."""
        os.environ["CDK_RUNS_FILE"] = str(self.runs_file)
        before, after, _ = find_trees(base, head, direct=direct)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder).resolve()
            return find_sides(before, after, choice or Choice(), self.cache, work, lambda said: None, trust, deadline)


@cache
def _first_commit(own_code: bool, environments: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[Path, str]:
    """A repository to copy, and the id of its one commit: six processes for every test would make the same again."""
    folder = tempfile.TemporaryDirectory(prefix="loadproof-tests-")
    atexit.register(folder.cleanup)
    made = object.__new__(Project)
    made.root = Path(folder.name) / "repository"
    made.root.mkdir()
    made.git("init", "-q", "-b", "main")
    if own_code:
        made.write("app.py", APP)
        made.write("cdk.json", '{"app": "python3 app.py", "context": {"flag": true}}')
        made.write("stacks/__init__.py", "")
        made.write("stacks/queue.py", "TIMEOUT_S = 60\n")
    for environment, names in environments:
        made.write(f"deploy_profiles/{environment}/environment.yaml", ENVIRONMENT)
        for name in names:
            made.profile(f"{environment}/{name}")
    return made.root, made.commit("first")


def names(sides: Sides) -> list[str]:
    """`dev/chat` of every pair, in their order."""
    return [f"{pair.environment_name}/{pair.name}" for pair in sides.pairs]
