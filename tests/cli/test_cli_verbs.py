"""The verbs: each known by one line of help, and imported only when it is asked."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from typer._click import Context
from typer.core import TyperGroup

from loadproof.cli.help import EXAMPLES, HEADINGS
from loadproof.cli.main import VERBS, run, verb

COMMANDS = [(name, *more) for name in VERBS for more in ((), *((sub,) for sub in getattr(verb(name), "commands", {})))]


def help_of(words: tuple[str, ...], width: int) -> str:
    """What a terminal of that width shows."""
    command = verb(words[0])
    for word in words[1:]:
        command = command.commands[word]  # type: ignore[attr-defined]
    context = command.context_class(command, info_name=" ".join(words), terminal_width=width, max_content_width=width)
    return command.get_help(context)


@pytest.mark.parametrize("name", VERBS)
def test_a_verbs_line_is_the_first_of_its_own_help(name: str) -> None:
    """What `loadproof --help` says of a verb, `loadproof VERB --help` begins with."""
    assert (verb(name).help or "").splitlines()[0] == VERBS[name].line


@pytest.mark.parametrize("arguments", [["--help"], ["chekc"], ["check", "--help"]])
def test_no_other_verb_is_imported(arguments: list[str]) -> None:
    """Help, a misspelt verb and another verb's help load nothing of `bench`."""
    program = (
        "import sys; from loadproof.cli.main import run; run(sys.argv[1:]); "
        "print([name for name in ('loadproof.cli.bench', 'loadproof.bench', 'boto3', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def after_a_check(said: str) -> list[str]:
    """The words of `said`, an expression, once `loadproof check` of one profile is done."""
    program = f"""
import atexit, gc, sys
from loadproof.cli.main import main
atexit.register(lambda: print(*{said}))
main()
"""
    command = [sys.executable, "-c", program, "check", "deploy_profiles/dev/llama-3-1-8b.yaml"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()


def test_a_check_imports_what_reads_profiles_and_no_more() -> None:
    """Words, the catalog, the families, the profiles and what prints findings: no other room is read."""
    loaded = after_a_check("sys.modules")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("loadproof.")}
    words = {"errors", "loads", "rules", "secret_forms", "sessions", "sizing", "token_counts"}
    words |= {"untrusted", "usd", "vocabulary", "wire"}
    assert rooms == words | {"catalog", "cli", "families", "pages", "profiles"}
    assert not {"numpy", "rich", "boto3", "botocore", "aws_cdk", "jsii", "plotly"} & set(loaded)


def test_a_check_builds_no_validator() -> None:
    """A profile is read by the grammar: pydantic builds neither validators nor serializers of it."""
    assert after_a_check("[sys.modules['loadproof.profiles.schema'].Profile.__pydantic_complete__]") == ["False"]


def test_imports_are_not_searched_for_garbage() -> None:
    """What modules bring stays until the end: neither a collection on the way nor the one at the end walks it."""
    frozen, others = map(int, after_a_check("(gc.get_freeze_count(), len(gc.get_objects()))"))
    assert frozen > 4 * others  # 13 times as many


@pytest.mark.parametrize("name", VERBS)
def test_a_verbs_line_is_whole_and_short(name: str) -> None:
    """Of 60 characters at most, and it ends."""
    assert len(VERBS[name].line) <= 60
    assert VERBS[name].line.endswith(".")


@pytest.mark.parametrize("words", [words for words in COMMANDS if len(words) > 1], ids=" ".join)
def test_the_line_of_a_verb_below_a_verb_is_whole_and_short(words: tuple[str, ...]) -> None:
    """Of 60 characters at most, and it ends."""
    command = verb(words[0])
    assert isinstance(command, TyperGroup)
    line = (command.commands[words[1]].help or "").splitlines()[0]
    assert len(line) <= 60 and line.endswith(".")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_at_80_columns_no_word_is_cut(words: tuple[str, ...]) -> None:
    """Every word of the help on a wide terminal is one on a narrow one, no line is longer, each has an example."""
    narrow, wide = (help_of(words, width) for width in (80, 500))
    _, _, examples = narrow.partition("\nExamples:")
    assert set(wide.split()) == set(narrow.split())
    assert max(map(len, narrow.splitlines())) <= 80
    assert examples.strip()


@pytest.mark.parametrize("example", [example for found in EXAMPLES.values() for example in found])
def test_an_example_is_a_command_that_is_understood(example: str) -> None:
    """By its verb, with options that it has."""
    _, name, *arguments = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
    command, context = verb(name), Context(verb(name))
    while isinstance(command, TyperGroup):
        found, sub, arguments = command.resolve_command(context, arguments)
        assert sub is not None, found
        command = sub
    command.make_context(name, list(arguments), resilient_parsing=True)


@pytest.mark.parametrize("way", ["-h", "--help", "--version"])
def test_what_anybody_tries_first_is_answered(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and something is said."""
    assert run([way]) == 0
    assert capsys.readouterr().out


def test_an_unknown_clouds_environment_fails_in_the_shell_that_asked() -> None:
    """`eval` of what is printed is false, instead of leaving the shell pointed at AWS."""
    line = f'eval "$({sys.executable} -m loadproof local env --name nobody-started-this)"'
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "loadproof local up --name nobody-started-this" in done.stderr


@pytest.mark.parametrize("name", HEADINGS)
def test_options_stand_under_headings(name: str) -> None:
    """Each that has one is an option of its verb, and the headings show."""
    assert set(HEADINGS[name]) <= {param.name for param in verb(name).params}
    assert all(f"\n{heading}:\n" in help_of((name,), 80) for heading in HEADINGS[name].values())
