"""Fenced blocks of README and docs, and the commands in them, taken apart as a shell would."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from site_build import ROOT
from typer.main import get_command

from loadproof.cli.main import VERBS, app, verb

GENERATED = frozenset(
    {"checks.md", "cli.md", "preflight-findings.md", "review-findings.md", "template-checks.md"}
)  # their examples have tests
PAGES = tuple(
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.name not in GENERATED
)
PROGRAMS = frozenset({"loadproof", "cdk", "make", "aws"})
SHELL = frozenset({"eval", "cat", "mkdir", "cp", "git", "npm", "pip", "export", "cd", "source"})
COMMANDS = frozenset({"console", "bash"})  # languages of which every line is a command
PLACEHOLDER = re.compile(r"^(?:[A-Z][A-Z_]*(?:\.\.\.|…)?|<[^>]+>|…|.*(?:NAME|…).*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is that of its fence."""

    page: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.lstrip().split("\n", 1)[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks() -> tuple[Block, ...]:
    """Every block of every page."""
    return tuple(block for page in PAGES for block in _blocks_of(page))


def _blocks_of(page: Path) -> Iterator[Block]:
    name = page.relative_to(ROOT).as_posix()
    opened: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = re.match(r"^\s*```([\w-]*)\s*$", line)
        if opened is None and fence:
            opened = (number, fence[1], [])
        elif opened is not None and fence:
            yield Block(name, opened[0], opened[1], "\n".join(opened[2]) + "\n")
            opened = None
        elif opened is not None:
            opened[2].append(line)


def commands(block: Block) -> list[list[str]]:
    """Its commands as words; none where it holds something else. Raises ValueError for what is no command."""
    text = re.sub(r"<<'(\w+)'\n.*?^\1$", "", block.text, flags=re.DOTALL | re.MULTILINE).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any(line.startswith("$ ") for line in lines):  # a session: what does not begin so was printed
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    try:
        found = [command for line in lines for command in split(line)]
    except ValueError:  # an apostrophe in a drawing
        if block.language in COMMANDS:
            raise
        return []
    known = [_program(words) in PROGRAMS | SHELL for words in found]
    if not known:
        return []
    if all(known):
        return found
    if block.language in COMMANDS or known[0]:  # what does not begin with a command may hold anything
        raise ValueError(f"{block}: {found[known.index(False)]} is no command that this test knows")
    return []


def split(line: str) -> Iterator[list[str]]:
    """`a && b`, `x "$(y)"`: each command's words, comments left out."""
    for inner in re.findall(r"\$\(([^()]+)\)", line):
        yield from split(inner)
    plain = re.sub(r"\$\([^()]+\)", "SUBSTITUTED", line)
    for part in re.split(r"\s+(?:&&|\|)\s+", plain):
        words = shlex.split(part, comments=True)
        if words:
            yield words[1:] if words[0] == "npx" else words


def of_program(name: str) -> list[tuple[Block, list[str]]]:
    """Every command of that program in any block, with its arguments."""
    return [(block, words[1:]) for block in blocks() for words in commands_or_none(block) if _program(words) == name]


def commands_or_none(block: Block) -> list[list[str]]:
    """Likewise, of any block; none of what is no command, which a test tells."""
    try:
        return commands(block) if block.language in COMMANDS | {"", "text"} else []
    except ValueError:
        return []


@cache
def _program_itself() -> Any:
    return get_command(app)


def parse_loadproof(arguments: list[str]) -> None:
    """As the program itself would: raises its own exception for a verb, an option or a value that it does not know."""
    words = [word.strip("[]") for word in arguments]
    command: Any = _program_itself()
    context = None
    name = "loadproof"
    while True:
        context = command.context_class(command, info_name=name, parent=context)
        inner = {name: verb(name) for name in VERBS} if context.parent is None else getattr(command, "commands", None)
        if not inner or not words or words[0].startswith("-"):
            break
        name = words.pop(0)
        if name not in inner:
            raise ValueError(f"no verb {name!r}: {', '.join(inner)}")
        command = inner[name]
    values, left, _ = command.make_parser(context).parse_args(list(words))
    if left:
        raise ValueError(f"too many arguments: {left}")
    for parameter in command.params:
        value = values.get(parameter.name)
        if parameter.name in values and not (isinstance(value, str) and PLACEHOLDER.match(value)):
            parameter.process_value(context, value)


@cache
def cdk_options() -> dict[str, set[str]]:
    """What each verb of the pinned CDK CLI takes, by its own registry."""
    registry = json.loads((ROOT / "node_modules/aws-cdk/lib/cli/cli-type-registry.json").read_text(encoding="utf-8"))

    def names(options: dict[str, Any]) -> set[str]:
        with_escapes = {f"--{name}" for name in options} | {f"--no-{name}" for name in options}
        short = {
            option["alias"] for option in options.values() if "alias" in option and isinstance(option["alias"], str)
        }
        return with_escapes | {f"-{letter}" for letter in short}

    everywhere = names(registry["globalOptions"])
    return {verb: everywhere | names(command.get("options", {})) for verb, command in registry["commands"].items()}


def context_keys() -> set[str]:
    """Words that stand in quotes where `-c KEY=…` is read."""
    sources = [ROOT / "stacks" / "application.py", *sorted((ROOT / "stacks" / "ci").glob("*.py"))]
    return {key for source in sources for key in re.findall(r'"([a-z_]+)"', source.read_text(encoding="utf-8"))}


def _program(words: list[str]) -> str:
    return words[0].rsplit("/", 1)[-1]
