"""Whom the roles trust: one provider's tokens, for one repository, from one kind of job. Never a pattern.

GitHub: the subject is `repo:OWNER/NAME:…`; of repositories made or renamed since July 2026, and of those that chose
so, `repo:OWNER@ID/NAME@ID:…`. Both name the repository exactly, so both are allowed once the ids are known, and
`repository_id` is demanded beside them: a name that changes hands opens nothing. AWS compares these claims since
January 2026 (docs/ci/roles.md). GitLab: AWS knows its subject and audience only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from loadproof.errors import InputError
from loadproof.wire.documents import Document

Platform = Literal["github", "gitlab"]
_GITHUB: Final = "token.actions.githubusercontent.com"
_AUDIENCE: Final = "sts.amazonaws.com"
_OWNER_AND_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_GITLAB_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)+")
_ID: Final = re.compile(r"[1-9][0-9]{0,18}")
_BRANCH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


@dataclass(frozen=True, slots=True)
class Repository:
    """The one repository. `host` is the provider's, GitLab's own instance included. Raises InputError, all at once."""

    platform: Platform
    path: str
    repository_id: str | None = None
    owner_id: str | None = None
    branch: str = "main"
    host: str = ""

    def __post_init__(self) -> None:
        if not self.host:
            object.__setattr__(self, "host", _GITHUB if self.platform == "github" else "gitlab.com")
        if found := "\n".join(self._problems()):
            raise InputError(found)

    def _problems(self) -> list[str]:
        pattern, form = (
            (_OWNER_AND_NAME, "owner/name") if self.platform == "github" else (_GITLAB_PATH, "group/project")
        )
        found = []
        if not pattern.fullmatch(self.path):
            found.append(f"-c repository={self.path}: expected {form}, without patterns")
        if not _BRANCH.fullmatch(self.branch):
            found.append(f"-c branch={self.branch}: expected one branch, without patterns")
        if not _HOST.fullmatch(self.host):
            found.append(f"-c host={self.host}: expected the provider's host name alone, such as gitlab.example.com")
        for option, value in (("repository_id", self.repository_id), ("owner_id", self.owner_id)):
            if value is not None and (self.platform == "gitlab" or not _ID.fullmatch(value)):
                found.append(f"-c {option}={value}: expected GitHub's number (`gh api repos/{self.path}`)")
        if (self.repository_id is None) != (self.owner_id is None):
            found.append("-c repository_id and -c owner_id go together: the subject holds both")
        return found

    @property
    def issuer_url(self) -> str:
        return f"https://{self.host}"

    @property
    def audience(self) -> str:
        """What the token is for; GitLab's is asked for in `id_tokens:`."""
        return _AUDIENCE if self.platform == "github" else self.issuer_url

    def deploys(self, environment_name: str) -> Document:
        """The Condition of a deployment: on GitHub the environment's protection rules stand before it."""
        if self.platform == "github":
            return self._github(f"environment:{environment_name}")
        return self._gitlab()

    def runs_on_branch(self) -> Document:
        """The Condition of a job of the protected branch that is in no environment."""
        return self._github(f"ref:refs/heads/{self.branch}") if self.platform == "github" else self._gitlab()

    def _github(self, context: str) -> Document:
        subjects = [f"repo:{self.path}:{context}"]
        claims: Document = {"aud": _AUDIENCE, "repository": self.path, "ref": f"refs/heads/{self.branch}"}
        if self.repository_id is not None:
            owner, name = self.path.split("/")
            subjects.append(f"repo:{owner}@{self.owner_id}/{name}@{self.repository_id}:{context}")
            claims["repository_id"] = self.repository_id
        claims["sub"] = subjects[0] if len(subjects) == 1 else subjects
        return {"StringEquals": {f"{self.host}:{claim}": claims[claim] for claim in sorted(claims)}}

    def _gitlab(self) -> Document:
        subject = f"project_path:{self.path}:ref_type:branch:ref:{self.branch}"
        return {"StringEquals": {f"{self.host}:aud": self.audience, f"{self.host}:sub": subject}}
