"""Shows a pull request what its review found: one comment, updated in place, and SARIF for code scanning.

Runs in the `workflow_run` that follows the review, in two jobs. The review itself ran the pull request's own code, so
whatever it left behind is a stranger's: an archive of limited size, of which two files are read, none executed, and
none unpacked. `fetch FOLDER`, with a token that may only read, puts the review's document there, which this branch's
own `loadproof review --from` checks and writes out; what that wrote `publish` publishes, with a token that may write.
In a run of the pull request itself, as the action's are, `fetch` takes what the same run reviewed before, and
`comment FOLDER` publishes what was written out of it in the same job: for this repository's own branches; a fork's
token cannot.
Which pull request it is about is believed only if GitHub says the same of the run: its head commit, repository and
branch.

Exit code: 0 published, or nothing to publish any more; 1 refused; 3 GitHub could not be asked.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from github_api import ApiError, GitHub, one_line

Json: TypeAlias = dict[str, Any]

MARKER: Final = "<!-- loadproof-review -->"
LEFT: Final = "loadproof-review"  # by the pull request's code
RENDERED: Final = "loadproof-rendered"  # by this branch's
ORIGIN: Final = "figures, names and whatever stands in “quotation marks” are that commit's own, all other words ours"
MOST_ARCHIVE_BYTES: Final = 8 * 2**20
MOST_FILE_BYTES: Final = 8 * 2**20
MOST_COMMENT_CHARACTERS: Final = 60_000  # GitHub refuses more than 65,536
_ME: Final = "github-actions[bot]"


class RefusedError(Exception):
    """What the review left is not what a review leaves."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A review as this branch's code wrote it out."""

    number: int
    markdown: str
    sarif: bytes | None


def main() -> int:
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        github = GitHub(
            os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/"),
            os.environ["GITHUB_REPOSITORY"],
            os.environ["GITHUB_TOKEN"],
        )
        what, *folder = sys.argv[1:]
        if what == "fetch":
            print(fetch(github, _reviewed(event, github), Path(folder[0])))
        elif what == "comment":
            print(comment(github, event["pull_request"], _own_run(github), Path(folder[0])))
        else:
            print(publish(github, event["workflow_run"], int(os.environ["GITHUB_RUN_ID"])))
    except RefusedError as refusal:
        print(f"::error::{one_line(str(refusal))}")
        return 1
    except ApiError as error:
        print(f"::error::{one_line(str(error))}")
        return 3
    return 0


def _reviewed(event: Json, github: GitHub) -> Json | None:
    """The run with the review: the event's, or this one; None for a fork's own. Raises RefusedError."""
    if "workflow_run" in event:
        run: Json = event["workflow_run"]
        return run
    if "pull_request" not in event:
        raise RefusedError("command comment goes with `on: pull_request`; this run is of another event")
    theirs = event["pull_request"]["head"]["repo"]
    return _own_run(github) if theirs is not None and theirs["full_name"] == github.repository else None


def _own_run(github: GitHub) -> Json:
    run_id = int(os.environ["GITHUB_RUN_ID"])
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    return {"id": run_id, "html_url": f"{server}/{github.repository}/actions/runs/{run_id}"}


def fetch(github: GitHub, run: Json | None, folder: Path) -> str:
    """What a review left, as `pull_request.txt` and `review.json` in the folder. Raises RefusedError and ApiError."""
    if run is None:
        return "::warning::a fork's token may not comment: copy review.yml and review-comment.yml, which can"
    archive = _archive(github, int(run["id"]), LEFT)
    if archive is None:
        return f"::warning::the review {run['html_url']} left nothing to show; its log says why"
    number, review = _read(archive, "review.json")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pull_request.txt").write_text(f"{number}\n", encoding="utf-8")
    (folder / "review.json").write_bytes(review)
    return f"the review of pull request {number}, as it says"


def publish(github: GitHub, run: Json, here: int) -> str:
    """Comment and SARIF that the run `here` rendered of a finished review; says what was done.

    Raises RefusedError and ApiError.
    """
    archive = _archive(github, here, RENDERED)
    if archive is None:
        return f"::warning::the review {run['html_url']} left nothing to show; its log says why"
    left = read(archive)
    pull = github.get(f"/pulls/{left.number}")
    if pull["state"] != "open":
        return f"pull request {left.number} is {pull['state']}: nothing to say"
    if not _same_branch(run, pull, github.repository):
        raise RefusedError(f"the review of {run['head_sha']} claims to be of pull request {left.number}, and is not")
    if pull["head"]["sha"] != run["head_sha"]:
        return f"pull request {left.number} has moved on from {run['head_sha']}: its next review will tell"
    return _shown(github, left, run)


def comment(github: GitHub, pull: Json, run: Json, folder: Path) -> str:
    """What this job wrote out, on the pull request that the event names. Raises ApiError."""
    sarif = (folder / "review.sarif").read_bytes()
    left = Rendered(int(pull["number"]), (folder / "review.md").read_text(encoding="utf-8"), sarif)
    return _shown(github, left, run | {"head_sha": pull["head"]["sha"]})


def _shown(github: GitHub, left: Rendered, run: Json) -> str:
    return f"{_comment(github, left, run)}; {_code_scanning(github, left, run)}"


def _archive(github: GitHub, run_id: int, name: str) -> bytes | None:
    for artifact in github.get(f"/actions/runs/{run_id}/artifacts?name={name}&per_page=10")["artifacts"]:
        if artifact["name"] == name and not artifact["expired"]:
            if artifact["size_in_bytes"] > MOST_ARCHIVE_BYTES:
                raise RefusedError(f"the artifact has {artifact['size_in_bytes']} bytes, {MOST_ARCHIVE_BYTES} are read")
            return github.download(f"/actions/artifacts/{int(artifact['id'])}/zip", MOST_ARCHIVE_BYTES)
    return None


def read(archive: bytes) -> Rendered:
    """Three files by name; whatever else is in there is not looked at. Raises RefusedError."""
    number, markdown = _read(archive, "review.md")
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return Rendered(number, markdown.decode(errors="replace"), _file(opened, "review.sarif"))


def _read(archive: bytes, name: str) -> tuple[int, bytes]:
    """The pull request's number and one file. Raises RefusedError."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            number = (_file(opened, "pull_request.txt") or b"").decode(errors="replace").strip()
            content = _file(opened, name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise RefusedError(f"the artifact cannot be read: {error}") from None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", number):
        raise RefusedError(f"pull_request.txt says {number[:40]!r}, not a number")
    if content is None:
        raise RefusedError(f"the artifact has no {name}")
    return int(number), content


def _file(archive: zipfile.ZipFile, name: str) -> bytes | None:
    """Its content, never more than the limit, whatever the archive says of its size; None where it is not there."""
    try:
        kept = archive.getinfo(name)
    except KeyError:
        return None
    if kept.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # LZMA takes what memory it asks for
        raise RefusedError(f"{name} is packed in a way that no review packs")
    with archive.open(kept) as file:
        content = file.read(MOST_FILE_BYTES + 1)
    if len(content) > MOST_FILE_BYTES:
        raise RefusedError(f"{name} has more than {MOST_FILE_BYTES} bytes")
    return content


def _same_branch(run: Json, pull: Json, repository: str) -> bool:
    """A commit alone proves nothing: anybody can push another's commit to a fork of his own."""
    head = pull["head"]
    return (
        pull["base"]["repo"]["full_name"] == repository
        and head["repo"] is not None
        and run["head_repository"] is not None  # a fork that is gone
        and head["repo"]["id"] == run["head_repository"]["id"]
        and head["ref"] == run["head_branch"]
    )


def _comment(github: GitHub, left: Rendered, run: Json) -> str:
    body = comment_body(left.markdown, run["head_sha"], run["html_url"])
    for comment in github.pages(f"/issues/{left.number}/comments"):
        # The marker alone could be anybody's.
        login = (comment["user"] or {}).get("login")  # none: its account is gone
        if login == _ME and (comment["body"] or "").startswith(MARKER):
            github.send("PATCH", f"/issues/comments/{int(comment['id'])}", {"body": body})
            return f"comment on pull request {left.number} updated"
    github.send("POST", f"/issues/{left.number}/comments", {"body": body})
    return f"comment on pull request {left.number} made"


def comment_body(markdown: str, head_sha: str, run_url: str) -> str:
    """What the comment holds, and whose figures and words these are."""
    origin = f"Review of {head_sha[:12]}: {ORIGIN}: [run]({run_url})"
    footer = f"\n\n<sub>{origin}</sub>\n"
    quiet = markdown.replace(MARKER, "").strip()
    room = MOST_COMMENT_CHARACTERS - len(footer)
    if len(quiet) > room:
        notice = f"**Longer than a comment may be: [the run]({run_url}) has all of it.**\n\n"
        quiet = notice + quiet[: room - len(notice)].rpartition("\n")[0]
    return f"{MARKER}\n{quiet}{footer}"


def _code_scanning(github: GitHub, left: Rendered, run: Json) -> str:
    if left.sarif is None:
        return "no SARIF"
    body = {
        "commit_sha": run["head_sha"],
        "ref": f"refs/pull/{left.number}/head",
        "sarif": base64.b64encode(gzip.compress(left.sarif, mtime=0)).decode(),
        "tool_name": "loadproof",
    }
    try:
        github.send("POST", "/code-scanning/sarifs", body)
    except ApiError as error:
        if error.status in (403, 404):
            return "SARIF not sent: code scanning is off in this repository"
        if error.status in (400, 413, 422):
            return f"SARIF refused: {one_line(str(error))}"
        raise
    return "SARIF sent"


if __name__ == "__main__":
    sys.exit(main())
