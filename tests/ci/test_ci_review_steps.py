"""The review workflow, step by step as a runner executes it: a merge to review, its files, then the comment."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cmarkgfm
import pytest
import yaml
from fake_github import REPOSITORY, TOKEN, FakeGitHub, left, serving
from packaging.requirements import Requirement
from workflow_steps import ROOT, WORKFLOWS, Runner, copy_of_the_code, without_make

from loadproof.catalog import price_addresses

PROFILE = "deploy_profiles/prod/llama-3-1-8b.yaml"
CHANGE = "buffer:\n  enabled: false\n"  # the queue goes, with every message that waits in it


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def merged(folder: Path, change: str, code: Mapping[str, str] = MappingProxyType({})) -> Path:
    """What actions/checkout leaves of a pull request with `fetch-depth: 2`: its merge and both parents, shallow."""
    origin = folder / "origin"
    copy_of_the_code(origin)
    (origin / ".gitignore").write_text(".venv\n__pycache__/\n", encoding="utf-8")
    git(origin, "init", "--quiet")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message", "base")
    git(origin, "switch", "--quiet", "--create", "faster")
    with (origin / PROFILE).open("a", encoding="utf-8") as file:
        file.write(change)
    for path, text in code.items():
        (origin / path).write_text(text, encoding="utf-8")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--all", "--message", "change")
    git(origin, "switch", "--quiet", "main")
    git(origin, "merge", "--quiet", "--no-ff", "--message", "merge", "faster")
    git(folder, "clone", "--quiet", "--depth", "2", origin.as_uri(), "checkout")
    (folder / "checkout" / ".venv").symlink_to(ROOT / ".venv")
    return folder / "checkout"


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, int]:
    """The review of a pull request that takes the buffer away, and the exit code of its job."""
    folder = tmp_path_factory.mktemp("runner")
    checkout = merged(folder, CHANGE)
    given = {"github.event.pull_request.number": "12", "github.event.pull_request.head.repo.fork": "false"}
    runner = Runner(checkout, folder / "scratch", given, {"PATH": without_make(folder)})
    return runner, runner.run(WORKFLOWS / "review.yml", "review")


def test_the_steps_set_up_and_review(reviewed: tuple[Runner, int]) -> None:
    """Set up, review, verdict; everything ran that stands in the file."""
    runner, _ = reviewed
    assert (runner.checkout.parent / "asked").read_text(encoding="utf-8") == "setup\n"
    assert len(runner.ended) == 3, runner.ended[-1].stderr


def test_a_forks_code_does_not_run(tmp_path: Path) -> None:
    """Its Makefile, app and library neither install nor review it; its profiles are reviewed all the same."""
    trap = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    checkout = merged(
        tmp_path, CHANGE, {"app.py": trap, "loadproof/__init__.py": trap, "Makefile": "setup:\n\tfalse\n"}
    )
    given = {"github.event.pull_request.number": "12", "github.event.pull_request.head.repo.fork": "true"}
    runner = Runner(checkout, tmp_path / "scratch", given, {"PATH": without_make(tmp_path)})
    assert runner.run(WORKFLOWS / "review.yml", "review") == 1, runner.ended[-1].stderr  # lost messages, as above
    assert (tmp_path / "where").read_text(encoding="utf-8") == f"{tmp_path / 'scratch' / 'base'}\n"
    document = json.loads((checkout / "review" / "review.json").read_text(encoding="utf-8"))
    assert document["not_run"] == ["Makefile", "app.py", "loadproof/__init__.py"]
    assert [one["profile"] for one in document["profiles"]] == ["llama-3-1-8b"]
    assert not (tmp_path / "ran").exists()


def test_what_is_uploaded(reviewed: tuple[Runner, int]) -> None:
    """What review-comment.yml reads, and a page for people."""
    runner, _ = reviewed
    files = sorted(file.name for file in (runner.checkout / "review").iterdir())
    assert files == ["pull_request.txt", "review.html", "review.json", "review.md", "review.sarif"]


def test_what_breaks_fails_the_check(reviewed: tuple[Runner, int]) -> None:
    """Lost messages are a break, which is where `FAIL_ON` stands; the result was written before that."""
    runner, code = reviewed
    assert code == 1
    assert [step.returncode for step in runner.ended] == [0, 0, 1]


def test_the_markdown_names_the_profile_that_changes(reviewed: tuple[Runner, int]) -> None:
    """And what happens to it; profiles that are as they were are not in it."""
    runner, _ = reviewed
    text = (runner.checkout / "review" / "review.md").read_text(encoding="utf-8")
    assert "prod/llama-3-1-8b" in text
    assert "LR031" in text
    assert "qwen3-32b" not in text
    assert re.search(r"`base \([0-9a-f]{10}\)` with `merged \([0-9a-f]{10}\)`", text)


def test_the_job_summary_shows_the_same(reviewed: tuple[Runner, int]) -> None:
    """Who has no right to comment still sees the review, in the run."""
    runner, _ = reviewed
    assert runner.summary.strip() == (runner.checkout / "review" / "review.md").read_text(encoding="utf-8").strip()


def test_sarif_lies_where_the_profile_does(reviewed: tuple[Runner, int]) -> None:
    """Code scanning shows a result in the file that it names."""
    runner, _ = reviewed
    sarif = json.loads((runner.checkout / "review" / "review.sarif").read_text(encoding="utf-8"))
    found = {
        (result["ruleId"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for result in sarif["runs"][0]["results"]
    }
    assert sarif["version"] == "2.1.0"
    assert ("LR031", PROFILE) in found


def test_the_checkout_stays_as_it_was(reviewed: tuple[Runner, int]) -> None:
    """Beside what is uploaded, the review writes nothing into the repository."""
    runner, _ = reviewed
    shown = subprocess.run(
        ["git", "status", "--porcelain"], cwd=runner.checkout, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "?? review/\n"


def packed_folder(folder: Path) -> bytes:
    """As an artifact."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, file.name)
    return packed.getvalue()


def test_the_comment_is_what_was_reviewed(reviewed: tuple[Runner, int], tmp_path: Path) -> None:
    """The second workflow's steps post what the first's left, through an archive and real HTTP."""
    runner, _ = reviewed
    event = tmp_path / "event.json"
    with serving(FakeGitHub(packed_folder(runner.checkout / "review"))) as github:
        event.write_text(json.dumps(github.event()), encoding="utf-8")
        told = {
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "600",
            "PATH": without_make(tmp_path),
        }
        second = Runner(runner.checkout, tmp_path / "scratch", {"github.token": TOKEN}, told)
        assert second.run(WORKFLOWS / "review-comment.yml", "render") == 0, second.ended
        github.archive = packed_folder(runner.checkout / "rendered")
        assert second.run(WORKFLOWS / "review-comment.yml", "publish") == 0, second.ended
        [comment], [sarif] = github.comments, github.sarif
    assert comment["body"].count("<!-- loadproof-review -->") == 1
    assert "LR031" in comment["body"]
    assert sarif["ref"] == "refs/pull/12/head"


def action_steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    return steps


COMMENTING = ["Fetch", "Install what writes", "Write out", "Comment"]


def commented(folder: Path, left: bytes) -> tuple[Runner, int, FakeGitHub]:
    """The action's steps in an empty folder, where the token may write; what they would install is here already."""
    steps = [one for one in action_steps() if one.get("name") in COMMENTING and one["name"] != "Install what writes"]
    file, event = folder / "as-a-job.yml", folder / "event.json"
    file.write_text(
        yaml.safe_dump({"defaults": {"run": {"shell": "bash"}}, "jobs": {"action": {"steps": steps}}}), "utf-8"
    )
    (folder / "empty").mkdir()
    (folder / "scratch").mkdir()
    (folder / "scratch" / "writes").symlink_to(ROOT / ".venv")
    with serving(FakeGitHub(left)) as github:
        event.write_text(json.dumps(github.own_event()), encoding="utf-8")
        told = {"GITHUB_API_URL": github.url, "GITHUB_EVENT_PATH": str(event), "GITHUB_REPOSITORY": REPOSITORY}
        told |= {"GITHUB_RUN_ID": "600", "GITHUB_ACTION_PATH": str(ROOT)}
        given = {"github.token": TOKEN, "github.action_path": str(ROOT)}
        action = Runner(
            folder / "empty", folder / "scratch", given | {"github.event.pull_request.base.sha": "c0ffee"}, told
        )
        return action, action.run(file, "action"), github


def test_the_action_comments_what_it_reviewed(reviewed: tuple[Runner, int], tmp_path: Path) -> None:
    """Its findings, linked to the base's page of them; nothing is checked out."""
    runner, _ = reviewed
    action, code, github = commented(tmp_path, packed_folder(runner.checkout / "review"))
    assert code == 0, action.ended
    [comment] = github.comments
    assert "LR031" in comment["body"]
    assert f"https://github.com/{REPOSITORY}/blob/c0ffee/docs/review-findings.md#lr031" in comment["body"]
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_action_comments_in_its_own_words(reviewed: tuple[Runner, int], tmp_path: Path) -> None:
    """What the pull request's code wrote as Markdown and SARIF is not shown; a link in its document is no link."""
    runner, _ = reviewed
    document = json.loads((runner.checkout / "review" / "review.json").read_text("utf-8"))
    document["head"] = "[all well](https://evil.example) @acme/all"
    there = left(pull_request_txt="12", review_md="LGTM", review_sarif="{}", review_json=json.dumps(document))
    action, code, github = commented(tmp_path, there)
    assert code == 0, action.ended
    [comment], [sarif] = github.comments, github.sarif
    assert "LR031" in comment["body"]
    assert "LGTM" not in comment["body"]
    links = re.findall(r'href="([^"]*)"', cmarkgfm.github_flavored_markdown_to_html(comment["body"]))
    theirs = {link for link in links if not link.startswith(f"https://github.com/{REPOSITORY}/")}
    assert links and theirs <= price_addresses()
    assert b"LR031" in gzip.decompress(base64.b64decode(sarif["sarif"]))


def test_the_action_refuses_what_is_no_review(tmp_path: Path) -> None:
    """Another version's document, or a forged one: nothing is commented, and what mends it is said."""
    action, code, github = commented(tmp_path, left(pull_request_txt="12", review_json='{"schema_version": 0}'))
    assert (code, github.comments, github.sarif) == (2, [], [])
    assert "pin both to one version" in action.ended[-1].stdout


def test_the_action_installs_locked_wheels_alone_beside_a_token_that_may_write() -> None:
    """Held to hashes, and no source package, whose building would run; what installs and reads has no token."""
    fetch, install, write, comment = (
        next(one for one in action_steps() if one.get("name") == name) for name in COMMENTING
    )
    installers = install["run"].replace("\\\n", " ").splitlines()[1:]
    assert len(installers) == 2
    assert all("--require-hashes --only-binary :all:" in " ".join(one.split()) for one in installers)
    assert ["GITHUB_TOKEN" in step.get("env", {}) for step in (fetch, install, write, comment)] == [
        True,
        False,
        False,
        True,
    ]
    core, app = (locked(ROOT / name) for name in ("requirements-core.txt", "requirements.txt"))
    assert core.items() <= app.items()
    named = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {Requirement(one).name for one in named} <= {name for name, _ in core}


def locked(file: Path) -> dict[tuple[str, str], list[str]]:
    """Of each package and version its hashes."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        if pinned := re.match(r"([a-z0-9.-]+)==(\S+)", line):
            found[at := (pinned[1], pinned[2])] = []
        elif digest := re.match(r" +--hash=(sha256:[0-9a-f]{64})", line):
            found[at].append(digest[1])
    return found


def test_the_action_reviews_the_same(reviewed: tuple[Runner, int], tmp_path: Path) -> None:
    """action.yml's own step: the same files, the same exit code; an unknown command is named."""
    runner, code = reviewed
    steps = [one for one in action_steps() if one.get("name") not in COMMENTING]
    file = tmp_path / "as-a-job.yml"
    file.write_text(
        yaml.safe_dump({"defaults": {"run": {"shell": "bash"}}, "jobs": {"action": {"steps": steps}}}), "utf-8"
    )
    given = {"inputs.command": "review", "inputs.environment": "", "inputs.fail-on": "break", "inputs.base": "HEAD^1"}
    given |= {"github.event.pull_request.number": "12", "github.event.pull_request.head.repo.fork": "false"}
    shutil.copytree(runner.checkout, tmp_path / "checkout", symlinks=True)
    shutil.rmtree(tmp_path / "checkout" / "review")
    shim = {"PATH": without_make(tmp_path)}
    action = Runner(tmp_path / "checkout", tmp_path / "scratch", given, shim)
    assert action.run(file, "action") == code
    assert action.expressions["steps.do.outputs.report"] == "review"
    written = tmp_path / "checkout" / "review" / "review.sarif"
    assert written.read_bytes() == (runner.checkout / "review" / "review.sarif").read_bytes()
    unknown = Runner(tmp_path / "checkout", tmp_path / "scratch", {**given, "inputs.command": "destroy"}, shim)
    assert unknown.run(file, "action") == 2


@pytest.mark.parametrize(
    ("command", "held"),
    [
        ("deploy", "AWS_ACCESS_KEY_ID"),
        ("prove", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ("setup", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"),  # a job with id-token: write, before it takes a role
        ("setup", None),
    ],
)
def test_the_action_installs_nothing_beside_a_credential(command: str, held: str | None, tmp_path: Path) -> None:
    """Held, or to be had for the asking: `make` is not run, and what to do instead is said."""
    steps = [one for one in action_steps() if one.get("name") == "Set up"]
    file = tmp_path / "as-a-job.yml"
    file.write_text(
        yaml.safe_dump({"defaults": {"run": {"shell": "bash"}}, "jobs": {"action": {"steps": steps}}}), "utf-8"
    )
    (tmp_path / "bare").mkdir()
    given = {"inputs.command": command, "inputs.base": "HEAD^1", "github.event.pull_request.number": ""}
    given |= {"github.event.pull_request.head.repo.fork": ""}
    told = {"PATH": without_make(tmp_path)} | ({held: "there"} if held else {})
    runner = Runner(tmp_path / "bare", tmp_path / "scratch", given, told)
    assert runner.run(file, "action") == (2 if held else 0), runner.ended[-1].stderr
    assert (tmp_path / "asked").exists() == (held is None)
    said = runner.ended[-1].stdout
    assert (f"{held} is set" in said and "without id-token: write" in said) or held is None


def test_gitlab_gets_the_same_findings(reviewed: tuple[Runner, int]) -> None:
    """Its Code Quality report has what SARIF has: the lost messages are a blocker in the profile's file."""
    runner, _ = reviewed
    command = [sys.executable, str(ROOT / "scripts" / "ci" / "code_quality.py"), "review/review.sarif"]
    said = subprocess.run(command, cwd=runner.checkout, capture_output=True, text=True, check=True).stdout
    [lost] = [issue for issue in json.loads(said) if issue["check_name"] == "LR031"]
    assert (lost["severity"], lost["location"]["path"]) == ("blocker", PROFILE)
    assert (runner.checkout / PROFILE).read_text(encoding="utf-8").splitlines()[lost["location"]["lines"]["begin"] - 1]
    assert len({issue["fingerprint"] for issue in json.loads(said)}) == len(json.loads(said))
