"""A finished review reaches its pull request: real HTTP, the program that the workflow runs, hostile archives."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import HEAD, REPOSITORY, TOKEN, FakeGitHub, comment, left, pull, serving

PROGRAM = Path(__file__).parents[2] / "scripts" / "ci" / "publish_review.py"
MARKER = "<!-- loadproof-review -->"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    archive = left(pull_request_txt="12\n", review_md="## 1 break\n", review_sarif='{"runs": []}')
    with serving(FakeGitHub(archive)) as served:
        yield served


def publish(
    github: FakeGitHub, tmp_path: Path, *arguments: str, told_of: dict[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    event = tmp_path / "event.json"
    event.write_text(json.dumps(told_of or github.event()), encoding="utf-8")
    told = {
        "GITHUB_API_URL": github.url,
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "600",
        "GITHUB_TOKEN": TOKEN,
        "PATH": os.environ["PATH"],
    }
    command = [sys.executable, str(PROGRAM), *(arguments or ("publish",))]
    return subprocess.run(command, env=told, capture_output=True, text=True, timeout=120)


def test_the_first_review_makes_a_comment(github: FakeGitHub, tmp_path: Path) -> None:
    """It begins with the marker, holds the review, and says of which commit it is."""
    assert publish(github, tmp_path).returncode == 0
    [made] = github.comments
    assert made["body"].startswith(f"{MARKER}\n## 1 break\n")
    assert (
        f"Review of {HEAD[:12]}: figures, names and whatever stands in “quotation marks” are that commit's own"
        in made["body"]
    )


def test_the_next_review_updates_it_in_place(github: FakeGitHub, tmp_path: Path) -> None:
    """One comment after two reviews, with the second's text."""
    publish(github, tmp_path)
    github.archive = left(pull_request_txt="12\n", review_md="## nothing found\n")
    assert publish(github, tmp_path).returncode == 0
    assert ["nothing found" in one["body"] for one in github.comments] == [True]


def test_its_comment_is_found_among_hundreds(github: FakeGitHub, tmp_path: Path) -> None:
    """On the third page of a hundred each."""
    github.comments = [comment(number, "hello", login="somebody") for number in range(1, 231)]
    github.comments[7]["user"] = None  # its account is gone
    github.comments.append(comment(231, f"{MARKER}\nold"))
    publish(github, tmp_path)
    assert len(github.comments) == 231
    assert "1 break" in github.comments[-1]["body"]


def test_somebody_elses_comment_with_the_marker_stays(github: FakeGitHub, tmp_path: Path) -> None:
    """The marker is public; only what this program's account wrote is its own."""
    github.comments = [comment(1, f"{MARKER}\nmine", login="mallory")]
    publish(github, tmp_path)
    assert [one["body"].startswith(f"{MARKER}\nmine") for one in github.comments] == [True, False]


def test_sarif_goes_to_the_pull_requests_head(github: FakeGitHub, tmp_path: Path) -> None:
    """Compressed as code scanning wants it, for the commit and the ref that GitHub confirmed."""
    publish(github, tmp_path)
    [sent] = github.sarif
    assert (sent["commit_sha"], sent["ref"]) == (HEAD, "refs/pull/12/head")
    assert json.loads(gzip.decompress(base64.b64decode(sent["sarif"]))) == {"runs": []}


@pytest.mark.parametrize("status", [403, 404])
def test_without_code_scanning_the_comment_stands(github: FakeGitHub, tmp_path: Path, status: int) -> None:
    """A private repository may have no code scanning; that is said and is no failure."""
    github.refuses["POST /code-scanning/sarifs"] = status
    ended = publish(github, tmp_path)
    assert (ended.returncode, len(github.comments)) == (0, 1)
    assert "code scanning is off" in ended.stdout


@pytest.mark.parametrize(
    "victim",
    [
        pull(head={"ref": "other"}),
        pull(head={"repo": {"id": 1}}),
        pull(head={"sha": "b" * 40, "ref": "other", "repo": {"id": 1}}),
        pull(head={"repo": None}),
        pull(base={"repo": {"full_name": "acme/other"}}),
    ],
    ids=["another branch", "the same commit from another fork", "another's", "a fork that is gone", "elsewhere"],
)
def test_a_forged_number_is_refused(github: FakeGitHub, tmp_path: Path, victim: dict[str, object]) -> None:
    """Repository and branch of the run must be the pull request's; nothing is written otherwise."""
    github.archive = left(pull_request_txt="13", review_md="lies", review_sarif="{}")
    github.pulls[13] = victim
    ended = publish(github, tmp_path)
    assert ended.returncode == 1
    assert "claims to be of pull request 13, and is not" in ended.stdout
    assert (github.comments, github.sarif) == ([], [])


@pytest.mark.parametrize("pulled", [pull(head={"sha": "b" * 40}), pull(state="closed")], ids=["moved on", "closed"])
def test_a_review_that_came_late_says_nothing(github: FakeGitHub, tmp_path: Path, pulled: dict[str, object]) -> None:
    """The comment tells of the newest commit of an open pull request."""
    github.pulls[12] = pulled
    assert publish(github, tmp_path).returncode == 0
    assert (github.comments, github.sarif) == ([], [])


@pytest.mark.parametrize(
    "number", ["", "12; rm -rf /", "../13", "0", "1e3", "12\n13", "٣", "9" * 10], ids=lambda number: repr(number)
)
def test_a_number_is_a_number(github: FakeGitHub, tmp_path: Path, number: str) -> None:
    """Whatever else the file says is refused before GitHub is asked about it."""
    github.archive = left(pull_request_txt=number, review_md="text")
    assert publish(github, tmp_path).returncode == 1
    assert not [call for call in github.calls if "pulls" in call]


@pytest.mark.parametrize(
    "archive",
    [
        b"not a zip",
        left(pull_request_txt="12"),
        left(pull_request_txt="12", review_md=b"0" * (8 * 2**20 + 1)),
        left(pull_request_txt="12", review_md="fine")[:-30],
        b"0" * (8 * 2**20 + 1),
        left(zipfile.ZIP_LZMA, pull_request_txt="12", review_md="fine"),
    ],
    ids=["no archive", "no review", "a bomb", "cut", "too big", "packed to take memory"],
)
def test_a_hostile_archive_is_refused(github: FakeGitHub, tmp_path: Path, archive: bytes) -> None:
    """One line, exit 1, no traceback, nothing written."""
    github.archive = archive
    ended = publish(github, tmp_path)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith("::error::")
    assert (github.comments, github.sarif) == ([], [])


def test_nothing_of_the_archive_is_unpacked(github: FakeGitHub, tmp_path: Path) -> None:
    """Names that lead elsewhere are never written: the working folder holds what it held."""
    github.archive = left(**{"../../evil": "x", "pull_request_txt": "12", "review_md": "fine"})
    assert publish(github, tmp_path).returncode == 0
    assert [path.name for path in tmp_path.rglob("*")] == ["event.json"]


def test_the_storage_is_asked_without_the_token(github: FakeGitHub, tmp_path: Path) -> None:
    """The archive lies behind a redirect to another host, which the token is none of the business of."""
    publish(github, tmp_path)
    assert ["Authorization" in headers for headers in github.storage_headers] == [False]


def test_a_review_is_fetched_as_data(github: FakeGitHub, tmp_path: Path) -> None:
    """Its number and its document, and nothing else of the archive."""
    github.archive = left(pull_request_txt="12", review_json="{}", review_md="@acme/all", evil_txt="x")
    assert publish(github, tmp_path, "fetch", str(tmp_path / "left")).returncode == 0
    assert {path.name: path.read_text("utf-8") for path in (tmp_path / "left").iterdir()} == {
        "pull_request.txt": "12\n",
        "review.json": "{}",
    }
    assert (github.comments, github.sarif) == ([], [])


@pytest.mark.parametrize(
    "archive", [b"no zip", left(pull_request_txt="12"), left(pull_request_txt="../1", review_json="{}")]
)
def test_what_is_no_review_is_not_fetched(github: FakeGitHub, tmp_path: Path, archive: bytes) -> None:
    """One line, exit 1, no file."""
    github.archive = archive
    ended = publish(github, tmp_path, "fetch", str(tmp_path / "left"))
    assert (ended.returncode, ended.stderr, (tmp_path / "left").exists()) == (1, "", False)


def test_a_review_too_long_for_a_comment_is_cut_and_says_so(github: FakeGitHub, tmp_path: Path) -> None:
    """GitHub takes 65,536 characters; the link to all of it stands first."""
    github.archive = left(pull_request_txt="12", review_md="a line of a table\n" * 5000)
    assert publish(github, tmp_path).returncode == 0
    body = github.comments[0]["body"]
    assert len(body) < 65_536
    assert body.splitlines()[1].startswith("**Longer than a comment may be: [the run](https://github.com/")


def test_what_the_archive_says_is_no_command_to_the_runner(github: FakeGitHub, tmp_path: Path) -> None:
    """A line that begins with `::` would be one."""
    github.archive = left(pull_request_txt="x\n::set-output name=a::b", review_md="text")
    ended = publish(github, tmp_path)
    assert [line[:9] for line in ended.stdout.splitlines()] == ["::error::"]


def test_a_review_that_left_nothing_is_a_warning(github: FakeGitHub, tmp_path: Path) -> None:
    """It could not run, and its own check is red already."""
    github.archive = b""
    ended = publish(github, tmp_path)
    assert (ended.returncode, ended.stdout[:11]) == (0, "::warning::")


def test_github_out_of_reach_is_exit_3(github: FakeGitHub, tmp_path: Path) -> None:
    """Not refused, not published: the job may be started again."""
    github.refuses["GET /pulls/12"] = 503
    ended = publish(github, tmp_path)
    assert (ended.returncode, ended.stderr) == (3, "")
    assert "503" in ended.stdout


def test_the_same_run_may_comment(github: FakeGitHub, tmp_path: Path) -> None:
    """What this job wrote out, on the pull request that the event names; of the review its document alone."""
    github.archive = left(pull_request_txt="13\n", review_md="mine", review_json="{}")
    assert publish(github, tmp_path, "fetch", str(tmp_path / "left"), told_of=github.own_event()).returncode == 0
    assert (tmp_path / "left" / "review.json").read_text("utf-8") == "{}"
    (tmp_path / "review.md").write_text("## 1 break\n", encoding="utf-8")
    (tmp_path / "review.sarif").write_text("{}", encoding="utf-8")
    assert publish(github, tmp_path, "comment", str(tmp_path), told_of=github.own_event()).returncode == 0
    assert "POST /issues/12/comments" in github.calls
    [made] = github.comments
    assert made["body"].startswith(f"{MARKER}\n## 1 break\n")
    assert "figures, names and whatever stands in “quotation marks” are that commit's own" in made["body"]


def test_a_forks_run_is_told_what_can_comment(github: FakeGitHub, tmp_path: Path) -> None:
    """Its token may not write: nothing is asked of the API, and the job stays green."""
    said = publish(github, tmp_path, "fetch", str(tmp_path / "left"), told_of=github.own_event("stranger/endpoints"))
    assert (said.returncode, github.calls, (tmp_path / "left").exists()) == (0, [], False)
    assert "review-comment.yml" in said.stdout


def test_another_event_cannot_comment(github: FakeGitHub, tmp_path: Path) -> None:
    """A push has no pull request."""
    said = publish(github, tmp_path, "fetch", str(tmp_path / "left"), told_of={"ref": "refs/heads/main"})
    assert said.returncode == 1
    assert "on: pull_request" in said.stdout
