"""Commands on the pages: those that need no cloud are run, the others are held against the real options."""

from __future__ import annotations

import re
import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from site_blocks import (
    PAGES,
    PLACEHOLDER,
    Block,
    blocks,
    cdk_options,
    commands,
    commands_or_none,
    context_keys,
    of_program,
    parse_loadproof,
)
from site_build import ROOT

from loadproof.cli.main import run

# Blocks that hold no command, by page and beginning, and why nothing else holds them either.
SHOWN = {
    ("docs/gate.md", "Message returned:"): "printed by CloudFormation; tests/localcloud/cdk/test_cdk_gate.py sees it",
    ("docs/gate.md", "profile's stack"): "a drawing",
    ("docs/workload.md", "Sessions   80% of no class"): "printed: test_the_sessions_of_the_workloads_page_are_as_shown",
    ("docs/twin.md", "timestamp_s,"): "a trace: test_a_trace_as_shown_is_played",
    ("docs/tour.md", "deploy_profiles/dev/"): "printed: test_the_tours_mistake_is_told_as_shown",
}
OFFLINE = {"check", "plan", "simulate", "schema"}  # verbs that need neither a cloud nor a run
_FILE = re.compile(r"^[\w./-]+\.(?:ya?ml|json|jsonl|csv)$")


def _runnable(arguments: list[str]) -> bool:
    offline = arguments[0] in OFFLINE or arguments[:2] in (["catalog", "list"], ["catalog", "show"])
    writes = "--write" in arguments and "--dry-run" not in arguments
    files = [word for word in arguments if _FILE.match(word) or word.startswith("deploy_profiles/")]
    asked = all((ROOT / file).exists() for file in files)
    return offline and asked and not writes and not any(PLACEHOLDER.match(word) for word in arguments)


READ_FIRST = ("README.md", "docs/tour.md", "docs/guides/")  # other pages' commands are run by those pages' own tests
RUN = sorted(
    {
        tuple(words)
        for block, words in of_program("loadproof")
        if block.page.startswith(READ_FIRST) and words and _runnable(words)
    }
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's profiles, to run in."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "deploy_profiles", folder / "deploy_profiles")
    return folder


@pytest.mark.parametrize("block", [one for one in blocks() if one.language in ("console", "bash", "", "text")], ids=str)
def test_a_block_of_commands_holds_nothing_else(block: Block) -> None:
    """Every line begins with a program that is known here; what was printed stands in a session with `$`."""
    commands(block)


def test_every_block_of_words_is_commands_or_has_a_reason() -> None:
    """Nothing on the pages escapes, and no reason outlives its block."""
    silent = {
        (block.page, block.first)
        for block in blocks()
        if block.language in ("console", "bash", "", "text") and not commands_or_none(block)
    }
    unexplained = {one for one in silent if not any(one[0] == page and one[1].startswith(how) for page, how in SHOWN)}
    assert unexplained == set()
    assert {(page, how) for page, how in SHOWN if not any(p == page and f.startswith(how) for p, f in silent)} == set()


@pytest.mark.parametrize("page", sorted({block.page for block, _ in of_program("loadproof")}))
def test_loadproofs_commands_are_understood(page: str) -> None:
    """Verbs, options, numbers and choices are the program's own."""
    wrong = []
    for block, words in of_program("loadproof"):
        if block.page == page:
            try:
                parse_loadproof(words)
            except Exception as error:  # whatever it says is what a reader would be told
                wrong.append(f"{block}: loadproof {' '.join(words)}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    "words", [["plan", "x.yaml", "--invented"], ["plan", "x.yaml", "--goal", "luck"], ["conjure"], ["plan", "a", "b"]]
)
def test_an_invented_option_value_or_verb_is_found(words: list[str]) -> None:
    """The test above would fail for it."""
    with pytest.raises(Exception, match=r"invented|luck|conjure|too many"):
        parse_loadproof(words)


def test_verbs_and_options_in_the_text_exist() -> None:
    """`loadproof verb --option` in a sentence, too."""
    wrong = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for span in re.findall(r"`loadproof ([a-z][^`]*)`", text):
            verbs = [one.split("|") for one in span.split() if re.fullmatch(r"[a-z]+(\|[a-z]+)*", one)][:2]
            options = re.findall(r"--[a-z][a-z-]*", span)
            try:
                for verb in verbs[0]:
                    _known(verb, options)
            except ValueError as error:
                wrong.append(f"{page.relative_to(ROOT)}: loadproof {span}: {error}")
    assert wrong == []


def _known(verb: str, options: list[str]) -> None:
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    sections = re.findall(rf"^## loadproof {verb}\b.*?(?=^## |\Z)", reference, re.MULTILINE | re.DOTALL)
    if not sections:
        raise ValueError(f"no verb {verb}")
    missing = [option for option in options if not any(re.search(rf"{option}\b", section) for section in sections)]
    if missing:
        raise ValueError(f"no option {missing}")


@pytest.mark.parametrize("words", RUN, ids=" ".join)
def test_a_command_that_needs_no_cloud_succeeds(
    words: tuple[str, ...], copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as it stands, in a copy of the repository's profiles."""
    monkeypatch.chdir(copy)
    code = run(list(words))
    said = capsys.readouterr()
    assert code == 0, said.err
    assert said.out


def test_the_tour_is_run() -> None:
    """Its first three steps are among the commands above."""
    tour = {tuple(words) for block, words in of_program("loadproof") if block.page == "docs/tour.md"}
    assert {words[0] for words in tour & set(RUN)} == {"check", "plan", "simulate"}


def test_the_tours_mistake_is_told_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The misspelt key of the tour gives exactly the line on the page."""
    shutil.copytree(ROOT / "deploy_profiles", tmp_path / "deploy_profiles")
    profile = tmp_path / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    text = profile.read_text(encoding="utf-8")
    assert text.count("  input_tokens:") == 1
    profile.write_text(text.replace("  input_tokens:", "  input_token:"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code = run(["check"])
    [shown] = [block.text for block in blocks() if block.page == "docs/tour.md" and block.language == "text"]
    assert code == 2
    assert shown in capsys.readouterr().out


def test_a_trace_as_shown_is_played(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two requests 0.8 s apart are both served."""
    [shown] = [block.text for block in blocks() if block.page == "docs/twin.md" and block.first.startswith("timestamp")]
    trace = tmp_path / "monday.csv"
    trace.write_text(shown, encoding="utf-8")
    monkeypatch.chdir(copy)
    assert run(["simulate", "deploy_profiles/dev/llama-3-1-8b.yaml", "--trace", str(trace)]) == 0
    assert "2 sent: 2 served" in capsys.readouterr().out


def _cdk_problems(words: list[str]) -> list[str]:
    allowed = cdk_options().get(words[0])
    if allowed is None:
        return ["verb"]
    keys = [after.split("=")[0] for flag, after in pairwise(words) if flag == "-c"]
    odd = [word for word in words[1:] if word.startswith("-") and word not in allowed]
    return odd + [f"-c {key}" for key in keys if key not in context_keys()]


def test_the_cdk_cli_knows_its_verbs_and_options() -> None:
    """By the registry of the pinned CLI; `-c` keys by what reads them."""
    found = [(block, words, _cdk_problems(words)) for block, words in of_program("cdk")]
    assert [f"{block}: cdk {' '.join(words)}: {odd}" for block, words, odd in found if odd] == []


def test_cdk_commands_in_the_text_exist() -> None:
    """`npx cdk deploy --all -c env=…` in a sentence of docs/, too."""
    wrong = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        spans = re.findall(r"`(?:npx )?cdk ([a-z][^`]*)`", text) if page.parent != ROOT else []
        wrong += [
            f"{page.relative_to(ROOT)}: cdk {span}: {odd}" for span in spans if (odd := _cdk_problems(span.split()))
        ]
    assert wrong == []


def test_an_option_that_a_verb_of_the_cdk_lacks_is_found() -> None:
    """`cdk diff` has no --all (it shows all stacks by itself); nobody reads `-c environment=`."""
    assert _cdk_problems(["diff", "--all"]) == ["--all"]
    assert _cdk_problems(["deploy", "--all", "-c", "environment=dev"]) == ["-c environment"]


def test_make_knows_its_targets() -> None:
    """Of every page."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [(block, word) for block, words in of_program("make") for word in words if "=" not in word]
    assert [
        f"{block}: make {name}" for block, name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)
    ] == []


@cache
def _operations(service: str) -> dict[str, Any]:
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(name, "-"): model.operation_model(name) for name in model.operation_names}


def test_aws_knows_its_operations_and_options() -> None:
    """By botocore's models of the services, which the AWS CLI is made of."""
    wrong = []
    for block, words in of_program("aws"):
        operation = _operations(words[0]).get(words[1])
        members = operation.input_shape.members if operation is not None and operation.input_shape else {}
        allowed = {f"--{xform_name(member, '-')}" for member in members} | {"--region", "--query", "--output"}
        odd = [word for word in words[2:] if word.startswith("--") and word not in allowed]
        if operation is None or odd:
            wrong.append(f"{block}: aws {' '.join(words)}: {odd or 'no such operation'}")
    assert wrong == []


def test_blocks_are_read_as_a_shell_reads_them() -> None:
    """Prompts, continued lines, comments, substitutions, here-documents and placeholders."""
    block = Block(
        "page.md", 1, "console", 'eval "$(loadproof local env)"  # why\nnpx cdk diff \\\n  --all && make test\n'
    )
    assert commands_or_none(block) == [
        ["loadproof", "local", "env"],
        ["eval", "SUBSTITUTED"],
        ["cdk", "diff", "--all"],
        ["make", "test"],
    ]
    session = Block("page.md", 1, "console", "$ loadproof check\nall well\n")
    assert commands_or_none(session) == [["loadproof", "check"]]
    with pytest.raises(ValueError, match="no command"):
        commands(Block("page.md", 1, "console", "loadprof check\n"))
