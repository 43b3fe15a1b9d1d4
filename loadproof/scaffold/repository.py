"""The files of a team's own repository: those of this one that a team owns, and a few written for it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib.metadata import distribution
from importlib.util import find_spec
from os.path import normpath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal
from urllib.parse import unquote, urlparse

from loadproof.scaffold import checkout, team_files

CiKit = Literal["github", "gitlab", "none"]
_TEMPLATES: Final = Path(__file__).with_name("templates")
_SHARED: Final = (
    *("app.py", "cdk.json", "package.json", "package-lock.json", "requirements-uv.txt", "deploy_profiles/*.json"),
    *("docs/runbook.md", "docs/review-findings.md"),  # where alarms and findings send their readers
)
_FOLDERS: Final = ("stacks", "benchmarks", "scripts/ci")
_WRITTEN: Final = {  # a template -> where it stands
    "Makefile": "Makefile",
    "requirements.txt": "requirements.txt",
    "gitignore": ".gitignore",
    "dockerignore": ".dockerignore",
    "pre-commit-config.yaml": ".pre-commit-config.yaml",
    "tests/test_synthesizes.py": "tests/test_synthesizes.py",
}
EXTRAS: Final = "cdk,local"
WHEELS: Final = "wheels"
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#:]+)[^)]*\)")
_PAGE: Final = re.compile(r"(?<![\w/.'-])docs/[\w/-]+\.md")


def _wheel(version: str, folder: Path | None) -> tuple[str, bytes] | None:
    """Name and content of the wheel that a repository carries, since this version may be on no index: the one that it
    has already, in `folder`; that of the repository whose environment this is; else what this Loadproof was installed
    from, or the checkout it runs from. None where there is none."""
    homes = [Path(sys.prefix).parent] if folder is None else [folder, Path(sys.prefix).parent]
    wheel = next((one for home in homes for one in home.glob(f"{WHEELS}/loadproof-{version}-*.whl")), None)
    wheel = wheel or _installed_from()
    return (wheel.name, wheel.read_bytes()) if wheel else _built(version)


def _installed_from() -> Path | None:
    """Where that is a file that is still there; of what came by `--find-links` pip and uv leave no record. Source of
    the record: PEP 610, direct_url.json."""
    record = distribution("loadproof").read_text("direct_url.json")
    url = urlparse(json.loads(record)["url"]) if record else None
    if url is None or url.scheme != "file" or not url.path.endswith(".whl"):
        return None
    wheel = Path(unquote(url.path))
    return wheel if wheel.is_file() else None


def _built(version: str) -> tuple[str, bytes] | None:
    """The checkout's wheel, by the build tool that `make setup` installs there: no index is asked."""
    root = checkout()
    if root is None or find_spec("hatchling") is None:
        return None
    with TemporaryDirectory() as there:
        build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", there)
        subprocess.run(build, cwd=root, capture_output=True)
        wheel = next(Path(there).glob(f"loadproof-{version}-*.whl"), None)
        return (wheel.name, wheel.read_bytes()) if wheel else None


@dataclass(frozen=True, slots=True)
class Place:
    """What the files of one repository depend on."""

    version: str  # of Loadproof
    ci: CiKit = "github"
    environment: str = "dev"  # the first one: pipelines know it alone, until the team adds others


def files_of(place: Place, folder: Path | None = None) -> Mapping[str, bytes]:
    """Every file that Loadproof keeps up to date in a team's repository, by its path there; profiles are not among
    them. `folder` is the repository where there is one already."""
    files = dict(sorted((*_own(place), *_templates(place, folder))))
    return {path: _with_what_is_there(path, content, files.keys()) for path, content in files.items()}


def _with_what_is_there(path: str, content: bytes, paths: AbstractSet[str]) -> bytes:
    """A page of Loadproof's own documentation, which the repository has not, is named as such and not linked."""
    if path.startswith(f"{WHEELS}/"):
        return content

    def unlinked(link: re.Match[str]) -> str:
        page = normpath(Path(path).parent / link[2])
        return link[0] if page in paths else f"{link[1]} (Loadproof's {page})"

    def named(page: re.Match[str]) -> str:
        return page[0] if page[0] in paths else f"Loadproof's {page[0]}"

    text = _PAGE.sub(named, content.decode())
    return (_LINK.sub(unlinked, text) if path.endswith(".md") else text).encode()


def readme(place: Place, profile: str) -> str:
    """The repository's first README; the team's own from then on."""
    pipelines = "" if place.ci == "none" else (_TEMPLATES / f"README.{place.ci}.md").read_text("utf-8")
    text = (_TEMPLATES / "README.md").read_text("utf-8") + pipelines
    return text.format(environment=place.environment, profile=profile)


def _own(place: Place) -> Iterator[tuple[str, bytes]]:
    root = team_files()
    found = [file for pattern in _SHARED for file in root.glob(pattern)]
    found += [file for folder in _FOLDERS for file in (root / folder).rglob("*") if file.is_file()]
    for file in found:
        if "__pycache__" not in file.parts:
            yield file.relative_to(root).as_posix(), file.read_bytes()
    if place.ci != "none":
        yield "docs/ci/roles.md", (root / "docs" / "ci" / "roles.md").read_bytes()
    if place.ci == "github":
        for file in (root / "docs" / "ci" / "github").glob("*.yml"):
            yield f".github/workflows/{file.name}", _of_one(file, place.environment)
        yield ".github/dependabot.yml", (_TEMPLATES / "dependabot.yml").read_bytes()
    elif place.ci == "gitlab":
        yield ".gitlab-ci.yml", _of_one(root / "docs" / "ci" / "gitlab" / "gitlab-ci.yml", place.environment)


def _of_one(pipeline: Path, environment: str) -> bytes:
    """The kit's pipeline, which has jobs for dev, staging and prod, with those of one environment alone."""
    blocks = pipeline.read_text("utf-8").replace("dev, staging, prod", environment).split("\n\n")
    kept = [block for block in blocks if not re.match(r"(  |deploy-|benchmark-)(staging|prod):\n", block)]
    named = [re.sub(r"\bdev\b", environment, one) if re.search(r"\bdev:\n", one) else one for one in kept]
    return ("\n\n".join(named).rstrip("\n") + "\n").encode()


def _templates(place: Place, folder: Path | None) -> Iterator[tuple[str, bytes]]:
    for template, name in _WRITTEN.items():
        text = (_TEMPLATES / template).read_text("utf-8")
        if template == "requirements.txt":
            text = text.format(version=place.version, extras=EXTRAS)
            if (wheel := _wheel(place.version, folder)) is not None:
                text = f"--find-links {WHEELS}\n{text}"
                yield f"{WHEELS}/{wheel[0]}", wheel[1]
        yield name, text.encode()
