"""Profiles, programs and JSON on the pages: checked, run or read."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from site_blocks import Block, blocks
from site_build import ROOT

from loadproof.profiles import check_file, load_profile
from loadproof.profiles.signers import signers_of

NAMED = re.compile(r"^# (?:deploy_profiles/)?(\S+\.yaml)$", re.MULTILINE)
# Pages whose profiles a test of their own checks and deploys; that every block is among them is held there.
DEPLOYED = {
    "docs/bedrock.md": "tests/constructs/test_stacks_bedrock_cloud.py",
    "docs/buffer.md": "tests/constructs/test_stacks_buffer_page.py",
    "docs/ci/README.md": "tests/ci/test_ci_workflows.py",
    "docs/endpoint.md": "tests/constructs/test_stacks_endpoint_page.py",
    "docs/environments.md": "tests/constructs/test_stacks_pages.py",
    "docs/gate.md": "tests/localcloud/cdk/test_cdk_gate.py",
    "docs/scaling.md": "tests/constructs/test_stacks_scaling_page.py",
    "docs/security.md": "tests/constructs/test_stacks_pages.py",
}
# Pieces of a file: (page, first line) -> the file that they are put into.
PIECES = {
    ("docs/bedrock.md", "bedrock:"): "profile",
    ("docs/calibrate.md", "calibration: ../calibrations/vllm-a10g.calibration.yaml"): "named file",
    ("docs/catalog.md", "model:"): "named file",
    ("docs/security.md", "acknowledged:"): "environment",
    (
        "docs/evidence.md",
        "signers:  # deploy_profiles/signers.yaml: it says whose word counts (name its owners in CODEOWNERS)",
    ): "signers",
}
BEDROCK = "\n".join(
    (
        "name: piece",
        "backend: bedrock",
        "model: {id: meta.llama3-1-8b-instruct-v1:0}",
        "objectives: {at_concurrency: 2, e2e_p95_ms: 20000}",
        "workload: {input_tokens: 256, output_tokens: 64}",
        "",
    )
)
# Programs that are no programs, and those that a test of their own runs.
SIGNATURES = {"docs/decisions/0001-contracts-between-rooms.md"}  # a list of signatures, of a day
PROGRAMS_RUN = {"docs/run.md": "tests/cli/test_cli_run_page.py"}
# JSON with words where values stand.
OUTLINES = {"docs/decisions/0001-contracts-between-rooms.md", "docs/decisions/0012-buffer-and-many.md"}


def of(*languages: str) -> list[Block]:
    return [block for block in blocks() if block.language in languages]


WHOLE = [one for one in of("yaml") if one.page not in DEPLOYED and (one.page, one.first) not in PIECES]


def test_only_known_languages_are_fenced() -> None:
    """What is fenced as something else would be looked at by nobody."""
    known = {"", "text", "console", "bash", "yaml", "python", "json", "jsonc"}
    assert {str(block): block.language for block in blocks() if block.language not in known} == {}


@pytest.mark.parametrize(("page", "test"), sorted((DEPLOYED | PROGRAMS_RUN).items()))
def test_a_page_with_a_test_of_its_own_is_named_there(page: str, test: str) -> None:
    """The test reads the page."""
    text = (ROOT / test).read_text(encoding="utf-8")
    assert page.rsplit("/", 1)[-1] in text


@pytest.mark.parametrize("block", WHOLE, ids=str)
def test_a_yaml_block_is_a_good_file(block: Block, tmp_path: Path) -> None:
    """Neither errors nor warnings, where it says that it stands or where its name puts it."""
    named, name = NAMED.match(block.text), yaml.safe_load(block.text).get("name", "environment")
    file = tmp_path / "deploy_profiles" / (named[1] if named else f"dev/{name}.yaml")
    file.parent.mkdir(parents=True)
    beside = file.with_name("environment.yaml")
    beside.write_text('account: "123456789012"\nregion: us-east-1\n', encoding="utf-8")
    file.write_text(block.text, encoding="utf-8")
    assert [str(problem) for problem in check_file(file).problems] == []


def test_every_piece_is_still_on_its_page() -> None:
    """No reason outlives its block."""
    assert set(PIECES) - {(block.page, block.first) for block in of("yaml")} == set()


@pytest.mark.parametrize(("page", "first"), sorted(PIECES))
def test_a_piece_is_understood(page: str, first: str, tmp_path: Path) -> None:
    """In a profile or an environment it is accepted; where it names files that only its reader has, its keys exist."""
    [text] = [block.text for block in of("yaml") if (block.page, block.first) == (page, first)]
    folder = tmp_path / "deploy_profiles" / "dev"
    folder.mkdir(parents=True)
    account = 'account: "123456789012"\nregion: us-east-1\n'
    environment, profile = folder / "environment.yaml", folder / "piece.yaml"
    environment.write_text(account, encoding="utf-8")
    if PIECES[page, first] == "profile":
        profile.write_text(BEDROCK + text, encoding="utf-8")
        assert [str(one) for one in check_file(profile).problems if one.severity == "error"] == []
    elif PIECES[page, first] == "environment":
        environment.write_text(account + text, encoding="utf-8")
        assert [str(one) for one in check_file(environment).problems] == []
    elif PIECES[page, first] == "signers":
        assert len(signers_of(text.encode(), "signers.yaml").signers) == 1
    else:
        schema = json.loads((ROOT / "deploy_profiles" / "schema.json").read_text(encoding="utf-8"))["$defs"]
        known = schema["Profile"]["properties"].keys() | schema["Model"]["properties"].keys()
        assert set(_keys(yaml.safe_load(text))) - known == set()


def _keys(found: Any) -> list[str]:
    return [key for name, value in found.items() for key in (name, *(_keys(value) if isinstance(value, dict) else ()))]


@pytest.mark.parametrize("block", [one for one in of("python") if one.page not in SIGNATURES], ids=str)
def test_a_program_compiles_and_what_it_imports_is_there(block: Block) -> None:
    """Every name from every module."""
    tree = ast.parse(block.text)
    missing = [
        f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for name in node.names
        if not hasattr(importlib.import_module(node.module), name.name)
    ]
    assert missing == []


def test_the_twins_program_runs() -> None:
    """docs/twin.md, with a profile of the repository; its last line's four values are there."""
    [block] = [one for one in of("python") if one.page == "docs/twin.md"]
    *lines, shown = block.text.strip().splitlines()
    names: dict[str, Any] = {"profile": load_profile(ROOT / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml")}
    exec("\n".join(lines), names)
    p95_ms, windows, history, cost_usd = eval(shown, names)
    assert p95_ms > 0
    assert len(windows) > 0
    assert len(history) > 0
    assert cost_usd > 0


def test_the_program_of_the_python_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/python.md, in the repository's folder."""
    [block] = [one for one in of("python") if one.page == "docs/python.md"]
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(block.text, names)
    assert names["hour"].summary.requests > 0


def test_what_the_python_page_promises_is_there() -> None:
    """Each name of its table, in the package beside it, and in its `__all__` where it has one."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(loadproof\.[\w.]+)` \|[^|]*\| (.+) \|$", page, re.MULTILINE)
    assert len(rows) == 7
    for package, names in rows:
        module = importlib.import_module(package)
        promised = re.findall(r"`(\w+)`", names)
        assert [name for name in promised if name not in getattr(module, "__all__", dir(module))] == []


def test_types_are_published() -> None:
    """PEP 561: without the marker no type checker reads them."""
    assert (ROOT / "loadproof" / "py.typed").is_file()


def test_the_buffers_program_uses_what_there_is() -> None:
    """docs/buffer.md: each attribute of a class that it calls exists."""
    from loadproof.invocation.buffer import DeadLetters, Message, Producer

    [block] = [one for one in of("python") if one.page == "docs/buffer.md"]
    for owner, name in (
        (Producer, "of_stack"),
        (Producer, "send"),
        (Producer, "result"),
        (Producer, "send_many"),
        (DeadLetters, "at"),
        (DeadLetters, "redrive"),
    ):
        assert f".{name}(" in block.text
        assert callable(getattr(owner, name))
    assert Message({"inputs": "x"}, priority="low").priority == "low"


@pytest.mark.parametrize("block", [one for one in of("json", "jsonc") if one.page not in OUTLINES], ids=str)
def test_json_is_json(block: Block) -> None:
    """Comments after values left out."""
    text = re.sub(r"\s//\s.*$", "", block.text, flags=re.MULTILINE) if block.language == "jsonc" else block.text
    assert json.loads(text)
