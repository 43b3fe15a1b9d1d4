"""What `loadproof init` writes leads somewhere, and its pipelines wait for the roles that they become."""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import Path
from typing import get_args

import pytest
import yaml

from loadproof.scaffold.repository import CiKit, Place, files_of, readme

LINK = re.compile(r"\]\(([^)#:]+)[^)]*\)")
PAGE = re.compile(r"(?<!Loadproof's )(?<![\w/.-])docs/[\w/-]+\.md")


@pytest.mark.parametrize("ci", get_args(CiKit))
def test_every_page_that_is_named_is_there(ci: CiKit) -> None:
    """By its path, or by a link; a page of Loadproof's own documentation is said to be one."""
    place = Place("0.1.0", ci)
    files = dict(files_of(place)) | {"README.md": readme(place, "deploy_profiles/dev/chat.yaml").encode()}
    missing = []
    for path, content in files.items():
        if path.endswith(".whl"):
            continue
        text = content.decode()
        links = LINK.findall(text) if path.endswith(".md") else []
        named = [*PAGE.findall(text), *(normpath(Path(path).parent / link) for link in links)]
        missing += [(path, page) for page in named if page not in files]
    assert missing == []


def test_a_page_that_is_elsewhere_is_named_as_loadproofs() -> None:
    """roles.md links two, of the key and of the gate."""
    text = files_of(Place("0.1.0"))["docs/ci/roles.md"].decode()
    assert "the usual statement (Loadproof's docs/environments.md)" in text
    assert "through a gate (Loadproof's docs/gate.md)" in text


@pytest.mark.parametrize("name", ["deploy", "nightly", "traffic"])
def test_github_runs_nothing_before_its_roles_are_there(name: str) -> None:
    """Jobs that need no other wait for the variable; one says so until it is set."""
    jobs = yaml.safe_load(files_of(Place("0.1.0"))[f".github/workflows/{name}.yml"])["jobs"]
    first = {job: said["if"] for job, said in jobs.items() if "needs" not in said}
    assert first.pop("not-yet") == "vars.LOADPROOF_ROLES_READY != 'true'"
    assert set(first.values()) == {"vars.LOADPROOF_ROLES_READY == 'true'"}


def test_gitlab_runs_nothing_before_its_roles_are_there() -> None:
    """Every job that runs after a merge or by a schedule; one says so, in a stage that makes a pipeline by itself."""
    jobs = yaml.safe_load(files_of(Place("0.1.0", "gitlab"))[".gitlab-ci.yml"])
    ruled = {
        name: [rule["if"] for rule in job["rules"]]
        for name, job in jobs.items()
        if isinstance(job, dict) and "rules" in job and name not in ("workflow", "review", "review-base")
    }
    silent = ruled.pop("not-yet")
    assert all(rule.startswith('$LOADPROOF_ROLES_READY != "true" && ') for rule in silent)
    assert set(ruled) == {"install", ".deploy", ".benchmark", "nightly"}
    assert all(rule.startswith('$LOADPROOF_ROLES_READY == "true" && ') for rules in ruled.values() for rule in rules)
    assert jobs["not-yet"]["stage"] not in (".pre", ".post")


def test_traffic_knows_the_first_environment_alone() -> None:
    jobs = yaml.safe_load(files_of(Place("0.1.0", environment="live"))[".github/workflows/traffic.yml"])["jobs"]
    assert jobs["look"]["strategy"]["matrix"] == {"environment": ["live"]}


def test_traffic_without_a_role_takes_no_step_but_says_so() -> None:
    """A job cannot read its environment's variables in its own `if`, so each step asks."""
    jobs = yaml.safe_load(files_of(Place("0.1.0"))[".github/workflows/traffic.yml"])["jobs"]
    first, *others = jobs["look"]["steps"]
    assert first["if"] == "vars.TRAFFIC_ROLE == ''" and "::notice" in first["run"]
    assert [step["if"] for step in others[:-1]] == ["vars.TRAFFIC_ROLE != ''"] * (len(others) - 1)
