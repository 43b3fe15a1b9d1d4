"""GitHub's REST API, as far as a review needs it. The standard library only: a runner has nothing of ours installed."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

_TIMEOUT_S: Final = 30.0
_PAGE: Final = 100
_MOST_PAGES: Final = 50
_MOST_JSON_BYTES: Final = 32 * 2**20


class ApiError(Exception):
    """GitHub refused or could not be reached; `status` is 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed: urllib would hand the token to whoever they lead to."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class GitHub:
    """One repository's API. `url` is its root without a slash at the end, `repository` is `owner/name`."""

    url: str
    repository: str
    token: str

    def get(self, path: str) -> Any:
        return self._json("GET", path, None)

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        return self._json(method, path, body)

    def pages(self, path: str) -> Iterator[Any]:
        """Every item of a list, page by page."""
        joint = "&" if "?" in path else "?"
        for page in range(1, _MOST_PAGES + 1):
            items = self.get(f"{path}{joint}per_page={_PAGE}&page={page}")
            yield from items
            if len(items) < _PAGE:
                return

    def download(self, path: str, limit_bytes: int) -> bytes:
        """A file behind a redirect to the storage, which is asked without the token. Raises ApiError when larger."""
        answer = self._open("GET", path, None)
        if answer.status in (HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT):
            answer = _opened(urllib.request.Request(answer.headers["Location"]), "GET the artifact's storage")
        with answer:
            return _at_most(answer, limit_bytes, path)

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        with self._open(method, path, body) as answer:
            return json.loads(_at_most(answer, _MOST_JSON_BYTES, path) or b"null")

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/repos/{self.repository}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "User-Agent": "loadproof-ci",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        return _opened(request, f"{method} {path}")


def _opened(request: urllib.request.Request, what: str) -> Any:
    """The answer, redirects included. Raises ApiError for 4xx, 5xx and no answer."""
    try:
        return urllib.request.build_opener(_Stay).open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.status is not None and 300 <= error.status < 400:
            return error
        said = error.read(2000).decode(errors="replace")
        raise ApiError(f"{what}: {error.status} {one_line(said)}", error.status or 0) from None
    except OSError as error:
        raise ApiError(f"{what}: {one_line(str(error))}") from None


def _at_most(answer: Any, limit_bytes: int, what: str) -> bytes:
    body: bytes = answer.read(limit_bytes + 1)
    if len(body) > limit_bytes:
        raise ApiError(f"{what}: more than {limit_bytes} bytes")
    return body


def one_line(text: str) -> str:
    """For the job's log, where a line that begins with `::` would be a command to the runner."""
    return re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]", " ", text)).replace("::", ": :").strip()
