"""docs/constructs.md: its app is synthesized as it stands there and deployed, and what it names keeps its form."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from processes import run_process
from stacks_cloud import local_cloud
from validated import findings

import loadproof.constructs
from loadproof.constructs import deployment_in
from loadproof.errors import InputError, ProfileError

PAGE = Path(__file__).parents[2] / "docs" / "constructs.md"
INTERFACE = Path(__file__).parent / "interface.txt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's two files, and nothing else."""
    folder = tmp_path_factory.mktemp("own")
    text = PAGE.read_text(encoding="utf-8")
    for name, language in (("app.py", "python"), ("chat.yaml", "yaml")):
        block = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert block is not None
        (folder / name).write_text(block[1], encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def assembly(folder: Path) -> Path:
    """What its synthesis wrote."""
    done = run_process(
        [sys.executable, "app.py"],
        cwd=folder,
        env=os.environ | {"CDK_OUTDIR": str(folder / "cdk.out"), "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20"},
    )
    assert done.returncode == 0, done.stderr
    return folder / "cdk.out"


@pytest.fixture(scope="module")
def template(assembly: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((assembly / "chat.template.json").read_text(encoding="utf-8"))
    return found


def test_the_example_is_short(folder: Path) -> None:
    """15 lines, imports and the empty ones aside."""
    lines = (folder / "app.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line and not line.startswith(("from ", "import "))]) <= 15


def test_the_template_is_valid(template: dict[str, Any], tmp_path: Path) -> None:
    """To the validator that every template of this repository passes."""
    assert findings(template, tmp_path / "template.json") == []


def test_it_is_deployed_proven_and_taken_down(assembly: Path, template: dict[str, Any], tmp_path: Path) -> None:
    """In a stack with a name of its own, which the proof's rights follow."""
    with local_cloud(tmp_path, "own") as cloud:
        cloud.upload(assembly, "chat")
        assert cloud.apply("chat", template) == "CREATE_COMPLETE", cloud.reasons("chat")
        endpoint = cloud.client("sagemaker").describe_endpoint(EndpointName="loadproof-prod-chat")
        assert endpoint["EndpointStatus"] == "InService"
        assert cloud.destroy("chat") == "DELETE_COMPLETE"


def test_a_stack_of_no_account_is_refused(folder: Path) -> None:
    """Said before anything is made."""
    with pytest.raises(InputError, match="names no account or region"):
        deployment_in(Stack(App(), "anywhere"), folder / "chat.yaml")


def test_settings_that_no_environment_has_are_refused(folder: Path) -> None:
    """All of them, without a traceback of the library that found them."""
    stack = Stack(App(), "chat", env=Environment(account="123456789012", region="us-east-1"))
    with pytest.raises(InputError) as raised:
        deployment_in(stack, folder / "chat.yaml", nettwork=3, log_retention_days="six")
    assert "unknown setting `nettwork`, did you mean network?" in str(raised.value)
    assert "log_retention_days: " in str(raised.value) and "found `six`" in str(raised.value)


def test_every_problem_of_the_file_is_said(tmp_path: Path) -> None:
    """With its line, as `loadproof check` says it."""
    (tmp_path / "chat.yaml").write_text("name: chat\nmodel: {id: x/y}\n", encoding="utf-8")
    stack = Stack(App(), "chat", env=Environment(account="123456789012", region="us-east-1"))
    with pytest.raises(ProfileError) as raised:
        deployment_in(stack, tmp_path / "chat.yaml")
    assert len(raised.value.problems) > 1
    assert all(problem.line for problem in raised.value.problems)


def test_the_interface_is_the_one_that_was_promised() -> None:
    """Names, arguments, types and properties; REWRITE_SNAPSHOTS=1 writes it anew, for the changelog to tell."""
    written = "\n".join(_form(name) for name in sorted(loadproof.constructs.__all__)) + "\n"
    if os.environ.get("REWRITE_SNAPSHOTS"):
        INTERFACE.write_text(written, encoding="utf-8")
    assert written == INTERFACE.read_text(encoding="utf-8")


def test_the_page_names_all_of_it() -> None:
    """And each name with what it takes."""
    table = PAGE.read_text(encoding="utf-8").partition("## What there is")[2]
    assert all(f"`{name}`" in table for name in loadproof.constructs.__all__)


def _form(name: str) -> str:
    """`name(arguments)`, and below it the public methods and properties that it has itself."""
    found = getattr(loadproof.constructs, name)
    made = inspect.signature(found.__init__ if isinstance(found, type) else found)  # type: ignore[misc]
    lines = [f"{name}{made}"]
    if isinstance(found, type):
        for member, value in sorted(vars(found).items()):
            if member.startswith("_"):
                continue
            if isinstance(value, property) and value.fget is not None:
                lines.append(f"  .{member}: {inspect.get_annotations(value.fget)['return']}")
            elif inspect.isfunction(value):
                lines.append(f"  .{member}{inspect.signature(value)}")
    return "\n".join(lines)
