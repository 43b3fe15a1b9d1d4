"""The workflow files themselves: valid, pinned, and with no more rights than their jobs need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from workflow_steps import ROOT, TEMPLATES, WORKFLOWS, workflow

BIN = Path(sys.executable).parent
OURS, COPIED = sorted(WORKFLOWS.glob("*.yml")), sorted(TEMPLATES.glob("*.yml"))
COMPONENTS = sorted((ROOT / "templates").glob("*.yml"))
GITLAB = ROOT / "docs" / "ci" / "gitlab" / "gitlab-ci.yml"
ACTION = ROOT / "action.yml"
TRIGGERS = True  # what YAML 1.1 makes of the key `on`


def shown(file: Path) -> str:
    return str(file.relative_to(ROOT))


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(file)["jobs"].values() for step in job.get("steps", [])]


def zizmor(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "zizmor"), "--offline", "--no-progress", "--no-config", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_zizmor_finds_nothing() -> None:
    """Its security audits, offline; what is ignored says why on its line."""
    done = zizmor(*OURS, *COPIED, ACTION)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_is_awake(tmp_path: Path) -> None:
    """A title pasted into a script is found."""
    bad = tmp_path / "bad.yml"
    step = "run: 'echo ${{ github.event.pull_request.title }}'"
    bad.write_text(f"on: push\njobs: {{a: {{runs-on: x, steps: [{{{step}}}]}}}}\n", encoding="utf-8")
    assert "template-injection" in zizmor(bad).stdout


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_every_ignored_audit_has_a_reason(file: Path) -> None:
    """Words after the bracket."""
    for ignored in re.findall(r"zizmor: ignore\[[a-z-]+\](.*)", file.read_text(encoding="utf-8")):
        assert len(ignored.split()) >= 4


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (["--builtin-schema", "vendor.github-workflows"], [*OURS, *COPIED]),
        (["--builtin-schema", "vendor.github-actions"], [ACTION]),
        (["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"], [GITLAB]),
    ],
    ids=["github", "action", "gitlab"],
)
def test_the_platforms_schema_holds(options: list[str], files: list[Path]) -> None:
    """No key that the platform would not know."""
    command = [str(BIN / "check-jsonschema"), *options, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_no_job_runs_for_ever(file: Path) -> None:
    """GitHub's own limit is six hours of somebody's money."""
    jobs = workflow(file)["jobs"].values()
    assert all("timeout-minutes" in job for job in jobs if "uses" not in job)


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_where_a_token_can_be_had_nothing_is_installed(file: Path) -> None:
    """What packages run while they are installed could ask for the job's identity, whatever step comes later."""
    trusted = [job for job in workflow(file)["jobs"].values() if job["permissions"].get("id-token") == "write"]
    scripts = [step.get("run", "") for job in trusted for step in job.get("steps", [])]
    assert [script for script in scripts if re.search(r"\b(make |pip|npm|uv |apt)", script)] == []


@pytest.mark.parametrize("file", [*OURS, *COPIED, ACTION], ids=shown)
def test_actions_are_pinned_by_commit(file: Path) -> None:
    """Forty hexadecimal digits, the version beside them for people; a workflow of this repository needs none."""
    used = re.findall(r"uses: (\S+)(.*)", file.read_text(encoding="utf-8"))
    elsewhere = [f"{name}{comment}" for name, comment in used if not name.startswith("./")]
    assert [one for one in elsewhere if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_no_checkout_leaves_its_token_behind(file: Path) -> None:
    """What runs later in the job could read it from .git/config."""
    checkouts = [step for step in steps(file) if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False] * len(checkouts)


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_every_right_is_given_to_a_job(file: Path) -> None:
    """Nothing by default; a job that is called gives what it was given."""
    loaded = workflow(file)
    assert loaded["permissions"] == {}
    assert all("permissions" in job for job in loaded["jobs"].values())


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_whatever_runs_a_pull_requests_code_may_only_read(file: Path) -> None:
    """No writing right, no secret, no OIDC token, no token in a step's environment."""
    loaded = workflow(file)
    if "pull_request" not in loaded[TRIGGERS]:
        return
    assert [job["permissions"] for job in loaded["jobs"].values()] == [{"contents": "read"}] * len(loaded["jobs"])
    assert not re.search(r"secrets\.|github\.token|GITHUB_TOKEN", file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_nothing_runs_on_pull_request_target(file: Path) -> None:
    """It would run with rights where a stranger chooses the code."""
    assert "pull_request_target" not in workflow(file)[TRIGGERS]


@pytest.mark.parametrize("file", [*OURS, *COPIED], ids=shown)
def test_what_may_write_checks_out_the_default_branch_only(file: Path) -> None:
    """A workflow_run never takes the head of the run that started it."""
    if "workflow_run" not in workflow(file)[TRIGGERS]:
        return
    for job in workflow(file)["jobs"].values():
        (checkout,) = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert checkout["ref"] == "${{ github.event.repository.default_branch }}"
        if "write" in job["permissions"].values():
            assert checkout["sparse-checkout"] == "scripts/ci"
            assert not [step for step in job["steps"] if "make" in step.get("run", "")]


@pytest.mark.parametrize("name", ["review.yml", "review-comment.yml"])
def test_templates_are_what_this_repository_runs(name: str) -> None:
    """Whoever copies them gets what is tested here."""
    assert (TEMPLATES / name).read_bytes() == (WORKFLOWS / name).read_bytes()


@pytest.mark.parametrize(("block", "said"), [(0, ["review", "comment"]), (1, ["setup", "deploy"])])
def test_the_guides_few_lines_are_a_workflow(block: int, said: list[str], tmp_path: Path) -> None:
    """docs/ci/README.md: by the platform's schema, with inputs of the action; no job that asks for a token installs."""
    page = (ROOT / "docs" / "ci" / "README.md").read_text(encoding="utf-8")
    file = tmp_path / "copied.yml"
    file.write_text(re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[block], encoding="utf-8")
    command = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    ours = [step["with"] for step in steps(file) if "loadproof@" in step.get("uses", "")]
    assert [one["command"] for one in ours] == said
    assert {name for one in ours for name in one} <= set(workflow(ACTION)["inputs"])
    for job in workflow(file)["jobs"].values():
        installs = any(step.get("with", {}).get("command") == "setup" for step in job["steps"])
        assert not (installs and "id-token" in job["permissions"])


def test_ci_runs_the_one_script() -> None:
    """`.ci/run` is what CI is, on GitHub too."""
    assert [step["run"] for step in steps(WORKFLOWS / "ci.yml") if "run" in step] == [".ci/run"]


def test_gitlabs_scripts_are_bash() -> None:
    """Every job's script parses as one, the way GitLab joins it."""
    jobs = [job for job in workflow(GITLAB).values() if isinstance(job, dict) and "script" in job]
    assert len(jobs) >= 5
    for job in jobs:
        script = "\n".join([*job.get("before_script", []), *job["script"]])
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("file", COMPONENTS, ids=lambda path: path.stem)
def test_a_gitlab_component_holds_the_schema_once_its_inputs_are_filled_in(file: Path, tmp_path: Path) -> None:
    """As GitLab does it: the header's inputs go into the text below, which is a pipeline whose scripts parse."""
    header, below = file.read_text(encoding="utf-8").split("\n---\n")
    inputs = yaml.safe_load(header)["spec"]["inputs"]
    assert all(said["description"] for said in inputs.values())
    assert set(re.findall(r"\$\[\[ inputs\.([a-z-]+) \]\]", below)) == set(inputs)
    filled = re.sub(r"\$\[\[ inputs\.([a-z-]+) \]\]", lambda found: inputs[found[1]].get("default", "dev"), below)
    pipeline = tmp_path / "pipeline.yml"
    pipeline.write_text(filled, encoding="utf-8")
    schema = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
    done = subprocess.run([str(BIN / "check-jsonschema"), *schema, str(pipeline)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for job in yaml.safe_load(filled).values():
        script = "\n".join([*job.get("before_script", []), *job.get("script", [])])
        assert subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True).returncode == 0


@pytest.mark.parametrize("file", [ROOT / "templates" / "environment.yml", GITLAB], ids=lambda path: path.stem)
def test_gitlab_installs_where_no_identity_is(file: Path) -> None:
    """A job that may have the token runs no `make setup`, and unpacks what a job without one handed on."""
    jobs = yaml.safe_load(file.read_text(encoding="utf-8").split("\n---\n")[-1])
    default = (jobs.get("default") or {}).get("before_script", [])
    holds = [name for name, job in jobs.items() if isinstance(job, dict) and "id_tokens" in job]
    installs = []
    for name, job in jobs.items():
        if not isinstance(job, dict) or name == "default":
            continue
        parent = jobs.get(job.get("extends"), {})
        scripts = [*job.get("before_script", parent.get("before_script", default)), *job.get("script", [])]
        if any("make setup" in line for line in scripts):
            assert name not in holds and job.get("extends") not in holds
            installs.append(name)
        if name in holds:
            assert "tar -xzf installed.tar.gz" in scripts and set(job["dependencies"]) <= set(jobs)
    handing_on = [name for name in installs if jobs[name].get("artifacts", {}).get("paths") == ["installed.tar.gz"]]
    assert len(holds) == len(handing_on) == 1 and jobs[holds[0]]["dependencies"] == handing_on


@pytest.mark.parametrize("file", [*OURS, *COPIED, ACTION, *COMPONENTS, GITLAB], ids=shown)
def test_nothing_is_kept_between_runs_that_is_installed_unchecked(file: Path) -> None:
    """npm holds what it kept to the lock's hash; uv does not, and a stranger's job may have written it."""
    text = file.read_text(encoding="utf-8")
    kept = re.findall(r"^ +(?:path|paths|- path): *(?:\[(.*cache.*)\]|(.*cache.*))$", text, re.MULTILINE)
    assert [one or other for one, other in kept if not (one or other).rstrip("/").endswith("npm/_cacache")] == []
    assert len(kept) == len(re.findall(r"uses: actions/cache|^ +cache:", text, re.MULTILINE))
    assert not kept or re.search(r"UV_NO_CACHE(?:: \"|=)1", text)


@pytest.mark.parametrize("file", [*OURS, *COPIED, ACTION, *COMPONENTS, GITLAB], ids=shown)
def test_no_pipeline_has_a_list_of_profiles_of_its_own(file: Path) -> None:
    """A calibration beside a profile is none, and one may end in .yml: stacks.ci.profiles knows."""
    assert not re.search(r"\*\.ya?ml", file.read_text(encoding="utf-8"))
