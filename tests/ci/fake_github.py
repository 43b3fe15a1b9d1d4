"""GitHub's API on loopback, as far as publishing a review asks it: keeps comments and SARIF, counts calls."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from http_servers import Quiet, serving_http

REPOSITORY = "acme/endpoints"
TOKEN = "not-a-secret"
HEAD = "a" * 40
FORK_ID = 77


@dataclass
class FakeGitHub:
    """Pull request 12 comes from a fork's branch `faster`; its review is run 500, published by run 600."""

    archive: bytes = b""
    pulls: dict[int, dict[str, Any]] = field(default_factory=lambda: {12: pull()})
    comments: list[dict[str, Any]] = field(default_factory=list)
    sarif: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    storage_headers: list[dict[str, str]] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)  # "POST /path" -> status
    url: str = ""

    def event(self) -> dict[str, Any]:
        """What the runner writes to GITHUB_EVENT_PATH, as far as it is read."""
        run = {
            "id": 500,
            "event": "pull_request",
            "conclusion": "success",
            "head_sha": HEAD,
            "head_branch": "faster",
            "head_repository": {"id": FORK_ID},
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/500",
        }
        return {"workflow_run": run}

    def own_event(self, repository: str = REPOSITORY) -> dict[str, Any]:
        """Of a run of the pull request itself, from a branch of `repository`."""
        return {"pull_request": {"number": 12, "head": {"sha": HEAD, "repo": {"full_name": repository}}}}

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """(status, JSON); a text is a redirect."""
        if found := re.fullmatch(r"/actions/runs/(500|600)/artifacts", path):
            names = ["loadproof-review"] if found[1] == "500" else ["loadproof-rendered", "loadproof-review"]
            artifacts = [
                {"id": 9, "name": name, "expired": False, "size_in_bytes": len(self.archive)}
                for name in names
                if query["name"] == [name]
            ]
            return 200, {"artifacts": artifacts if self.archive else []}
        if path == "/actions/artifacts/9/zip":
            return 302, f"{self.url}/storage?signature=1"
        if found := re.fullmatch(r"/pulls/(\d+)", path):
            return (200, self.pulls[int(found[1])]) if int(found[1]) in self.pulls else (404, {"message": "Not Found"})
        if found := re.fullmatch(r"/issues/(\d+)/comments", path):
            if method == "POST":
                self.comments.append(comment(len(self.comments) + 1, body["body"]))
                return 201, self.comments[-1]
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        if (found := re.fullmatch(r"/issues/comments/(\d+)", path)) and method == "PATCH":
            next(one for one in self.comments if one["id"] == int(found[1]))["body"] = body["body"]
            return 200, {}
        if path == "/code-scanning/sarifs":
            self.sarif.append(body)
            return 202, {"id": "1"}
        return 404, {"message": "Not Found"}


def pull(**changes: Any) -> dict[str, Any]:
    head = {"sha": HEAD, "ref": "faster", "repo": {"id": FORK_ID}} | changes.pop("head", {})
    return {"state": "open", "base": {"repo": {"full_name": REPOSITORY}}, "head": head} | changes


def comment(number: int, body: str, login: str = "github-actions[bot]") -> dict[str, Any]:
    return {"id": number, "body": body, "user": {"login": login}}


def left(packing: int = zipfile.ZIP_DEFLATED, **files: str | bytes) -> bytes:
    """An archive; `pull_request_txt` is `pull_request.txt`."""
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", packing) as archive:
        for name, content in files.items():
            archive.writestr(re.sub(r"_(txt|md|sarif|json)$", r".\1", name), content)
    return kept.getvalue()


@contextmanager
def serving(github: FakeGitHub) -> Iterator[FakeGitHub]:
    """`github.url` answers until the end of the block."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def _respond(self) -> None:
            asked = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if asked.path == "/storage":
                github.storage_headers.append(dict(self.headers.items()))
                return self._send(200, github.archive)
            path = asked.path.removeprefix(f"/repos/{REPOSITORY}")
            github.calls.append(f"{self.command} {path}")
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return self._send(401, b"{}")
            if status := github.refuses.get(f"{self.command} {path}"):
                return self._send(status, b'{"message": "no"}')
            status, said = github.answer(self.command, path, parse_qs(asked.query), json.loads(body or b"null"))
            if isinstance(said, str):
                self.send_response(status)
                self.send_header("Location", said)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            return self._send(status, json.dumps(said).encode())

        do_GET = do_POST = do_PATCH = _respond  # noqa: N815

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with serving_http(Handler) as github.url:
        yield github
