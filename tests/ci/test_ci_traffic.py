"""scripts/ci/propose_workload.sh: one pull request for each profile whose traffic moved, the same one every night."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from workflow_steps import ROOT, TEMPLATES, Runner

SCRIPT = ROOT / "scripts" / "ci" / "propose_workload.sh"
PROFILE = "deploy_profiles/prod/llama.yaml"
# GitHub's program, as far as the script asks it: notes its arguments, and remembers which branches have a pull request.
GH = """\
#!/bin/sh
echo "$*" >> {folder}/asked
case "$1 $2" in
  "pr list") grep -qx "$4" {folder}/open 2>/dev/null && echo 7 || true ;;
  "pr create") echo "$4" >> {folder}/open; cp "${{10}}" {folder}/body.md ;;
  "pr edit") cp "$5" {folder}/body.md ;;
esac
"""


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of a repository with one profile, and `gh` on the path."""
    work = tmp_path / "work"
    (work / "deploy_profiles" / "prod").mkdir(parents=True)
    (work / PROFILE).write_text("workload:\n  input_tokens: 100\n")
    (work / "app.py").write_text("1\n")
    git(tmp_path, "init", "--quiet", "--bare", "origin.git")
    git(work, "init", "--quiet")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "--message", "first")
    git(work, "remote", "add", "origin", str(tmp_path / "origin.git"))
    git(work, "push", "--quiet", "origin", "main")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH.format(folder=tmp_path))
    (tmp_path / "bin" / "gh").chmod(0o755)
    return work


def moved(checkout: Path, path: str, tokens: int) -> Path:
    """A folder of what `loadproof learn --out` wrote."""
    before = (checkout / path).read_text()
    (checkout / path).write_text(before.replace("100", str(tokens)).replace("1\n", "2\n"))
    folder = checkout.parent / "moved"
    folder.mkdir(exist_ok=True)
    (folder / "prod-llama-3.diff").write_text(git(checkout, "diff"))
    (folder / "prod-llama-3.txt").write_text("MOVED: prompts are longer\n")
    (folder / "prod-llama-3.plan").write_text("Promise  NO\n")
    git(checkout, "checkout", "--quiet", ".")
    return folder


def proposed(checkout: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PATH": f"{checkout.parent / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run([SCRIPT, folder], cwd=checkout, env=variables, capture_output=True, text=True, check=False)


def test_a_moved_workload_is_one_pull_request(checkout: Path) -> None:
    """Opened the first night, brought up to date the second, from the branch that everybody works on."""
    for tokens in (200, 300):
        done = proposed(checkout, moved(checkout, PROFILE, tokens))
        assert done.returncode == 0, done.stderr
        branch = git(checkout.parent / "origin.git", "show", f"loadproof/traffic-prod-llama-3:{PROFILE}")
        assert branch == f"workload:\n  input_tokens: {tokens}\n"
    asked = [line.split()[:2] for line in (checkout.parent / "asked").read_text().splitlines()]
    assert asked == [["pr", "list"], ["pr", "create"], ["pr", "list"], ["pr", "edit"]]
    body = (checkout.parent / "body.md").read_text()
    assert "    MOVED: prompts are longer" in body
    assert "    loadproof bench prod/llama\n" in body
    assert "predicted:\n\n    Promise  NO\n" in body
    assert git(checkout, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    assert (
        git(checkout.parent / "origin.git", "log", "--oneline", "main..loadproof/traffic-prod-llama-3").count("\n") == 1
    )


def test_what_touches_more_than_profiles_is_not_proposed(checkout: Path) -> None:
    """Whatever wrote the diff."""
    done = proposed(checkout, moved(checkout, "app.py", 2))
    assert done.returncode == 1
    assert "touches more than profiles" in done.stderr
    assert not (checkout.parent / "asked").exists()


def test_nothing_moved_is_nothing_to_propose(checkout: Path) -> None:
    (checkout.parent / "moved").mkdir()
    assert proposed(checkout, checkout.parent / "moved").returncode == 0


def test_a_profile_that_ends_in_yml_is_proposed_too(checkout: Path) -> None:
    """Under its name, as bench takes it."""
    other = PROFILE.replace(".yaml", ".yml")
    git(checkout, "mv", PROFILE, other)
    git(checkout, "commit", "--quiet", "--message", "renamed")
    done = proposed(checkout, moved(checkout, other, 200))
    assert done.returncode == 0, done.stderr
    assert "    loadproof bench prod/llama\n" in (checkout.parent / "body.md").read_text()


@pytest.mark.parametrize(
    ("learned", "code"),
    [("as proven; exit 0", 0), ("MOVED; exit 1", 1), ("S3 refuses; exit 3", 3)],
    ids=["as proven", "moved", "not read"],
)
def test_traffic_that_moved_and_has_no_workload_to_propose_fails_the_night(
    tmp_path: Path, learned: str, code: int
) -> None:
    """Of a profile whose check refuses what was learned: no diff, whatever `learn` says."""
    profile = tmp_path / "chat.yaml"
    profile.write_text("endpoint:\n  data_capture: {s3_uri: s3://captures/}\n")
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python").write_text(f"#!/bin/sh\necho {profile}\n")
    (tools / "loadproof").write_text(f"#!/bin/sh\necho {learned}\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    runner = Runner(tmp_path, tmp_path / "scratch", {"matrix.environment": "prod"})
    assert runner.run(TEMPLATES / "traffic.yml", "look", only="Look") == code
    assert ("::error title=Traffic of prod-chat moved::" in runner.ended[0].stdout) == (code == 1)
    assert runner.summary.strip() == learned.partition(";")[0]
