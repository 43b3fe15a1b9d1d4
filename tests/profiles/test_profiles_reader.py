"""The reader: arbitrary bytes, bombs, depth, and every unquoted word that means something else."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from profiles_samples import CHAT

from loadproof.profiles.plain import Surprise, plain_value
from loadproof.profiles.reader import MOST_BYTES, read_yaml
from loadproof.profiles.tree import Items, Map, Node, Problems, Scalar

NEEDS_LIBYAML = pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML without libyaml")


def codes(data: bytes, scanner: Any = None) -> list[str]:
    problems = Problems()
    read_yaml(data, "f.yaml", problems, *([scanner] if scanner else []))
    return [problem.code for problem in problems.found]


def plain(node: Node | None) -> object:
    if isinstance(node, Map):
        return {key: plain(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Items):
        return [plain(item) for item in node.nodes]
    return node.value if isinstance(node, Scalar) else None


@settings(deadline=None)
@given(st.binary(max_size=400))
@example(b"\xff\xfea\x00")
@example(b"\xef\xbb\xbfname: chat")
@example("a: \ud800".encode("utf-8", "surrogatepass"))
@example(b"? ? ? [")
@example(b"%YAML 9.9\n---\na")
@example(b'"\\ud800": 1')
@example(b"- - - - !!python/object:os.system x")
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    """Whatever a file holds, reading gives a tree or problems."""
    problems = Problems()
    tree = read_yaml(data, "f.yaml", problems)
    assert tree is not None or problems.found


_STRUCTURE = [
    "a: 1\n",
    "- x\n",
    "  ",
    "{",
    "}",
    "[",
    "]",
    "# c\n",
    "\n",
    "? ",
    ": ",
    ",",
    "---\n",
    "...\n",
    "\t",
    "key: ",
]
_WORDS = ["&a ", "*a ", "!t ", "<<: ", "'", '"', "yes", "12:30", "é", "0x1F", "~", "\\", "|\n", "%TAG ! x\n"]
_FRAGMENTS = st.sampled_from([*_STRUCTURE, *_WORDS])


@NEEDS_LIBYAML
@settings(deadline=None)
@given(st.lists(_FRAGMENTS, max_size=14).map("".join))
def test_the_pure_python_parser_accepts_the_same_files(text: str) -> None:
    """libyaml and PyYAML's own parser give the same values wherever both can read the text."""
    with_c, with_python = Problems(), Problems()
    c_tree = read_yaml(text.encode(), "f", with_c, yaml.CSafeLoader)
    python_tree = read_yaml(text.encode(), "f", with_python, yaml.SafeLoader)
    unreadable = {"LP003"}
    c_codes, python_codes = ({problem.code for problem in found.found} for found in (with_c, with_python))
    if not unreadable & (c_codes | python_codes):
        assert plain(c_tree) == plain(python_tree)
        said = [
            [(problem.code, problem.path, problem.message) for problem in found.found]
            for found in (with_c, with_python)
        ]
        assert said[0] == said[1]


@NEEDS_LIBYAML
@pytest.mark.parametrize(
    "bad", ["a: b: c", "a:\n  b: 1\n c: 2", "a: 'open", "a: [1, 2", "a: @x", "a: - b", "a:\n\tb: 1"]
)
def test_both_parsers_explain_a_syntax_error_alike(bad: str) -> None:
    """Same code and line from libyaml and from pure Python."""
    found = []
    for scanner in (yaml.CSafeLoader, yaml.SafeLoader):
        problems = Problems()
        read_yaml(bad.encode(), "f", problems, scanner)
        found.append([(problem.code, problem.line, problem.message) for problem in problems.found])
    assert found[0] == found[1]
    assert found[0][0][0] == "LP003"


def test_a_merge_bomb_is_refused_where_it_begins() -> None:
    """980 bytes of merge keys, which cost `yaml.safe_load` seconds, are problems and nothing is expanded."""
    lines = ["a0: &a0 {k0: 0, l0: 0}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: {n}, l{n}: {n}}}" for n in range(1, 23)]
    bomb = "\n".join(lines).encode()
    assert 900 < len(bomb) < 1100
    problems = Problems()
    tree = read_yaml(bomb, "f", problems)
    assert {problem.code for problem in problems.found} == {"LP005"}
    assert len(problems.found) == 23 + 22 * 3  # an anchor a line, and a merge key with two aliases in 22 of them
    assert isinstance(tree, Map) and len(tree.entries) == 23


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "a:\n"])
def test_nesting_of_100_000_levels_is_refused(opening: str) -> None:
    """Depth is refused at level 33, without recursion, in any style."""
    text = opening * 100_000
    if opening == "a:\n":
        text = "".join(" " * level + "a:\n" for level in range(600))  # 180 KB of indentation
    assert codes(text.encode()[:MOST_BYTES]) == ["LP010"]


@pytest.mark.parametrize("escape", [r"\0", r"\e", r"\a", r"\r", r"\x7f", r"\N", r"\u202e", r"\u2066", r"\u200f", r"\L"])
@pytest.mark.parametrize("text", ['a: "x{}y"', '"x{}y": 1', '["x{}y"]', "a: >-\n  {}"])
def test_no_escape_writes_what_nobody_sees(text: str, escape: str) -> None:
    """Into a value, a key or a list: dashboards, tables and terminals show them. Without quotes it is none."""
    quoted = '"' in text
    assert codes(text.format(escape).encode()) == (["LP002"] if quoted else [])


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200f", "\u061c", "\0", "\x1b"])
@pytest.mark.parametrize("text", ["a: x{}y", "a: 1  # {}", 'a: "{}"'])
def test_what_nobody_sees_is_refused_as_it_is(text: str, character: str) -> None:
    """In comments, too: a reviewer would read another line."""
    assert codes(text.format(character).encode()) == ["LP002"]


def test_lines_and_tabs_are_text() -> None:
    """Of a block, and of escapes; what is written from right to left needs no control characters."""
    text = 'a: |\n  one\n  two\nb: "one\\n\\ttwo"\nc: שלום مرحبا\nd: "é\\u00a0\\u2026"\n'
    assert codes(text.encode()) == codes(text.replace("\n", "\r\n").encode()) == []


def test_32_levels_are_read() -> None:
    """The limit itself is allowed."""
    assert codes(b"[" * 32 + b"]" * 32) == []
    assert codes(b"[" * 33 + b"]" * 33) == ["LP010"]


def test_a_file_of_the_limit_is_read_and_one_byte_more_is_not() -> None:
    """256 KiB are allowed."""
    assert codes(b"#" * (MOST_BYTES - 5) + b"\na: b") == []
    assert codes(b"#" * (MOST_BYTES - 4) + b"\na: b") == ["LP001"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("0", 0),
        ("-7", -7),
        ("1200", 1200),
        ("0.5", 0.5),
        ("-1.25", -1.25),
        ("3.3.6", "3.3.6"),
        ("Yes, please", "Yes, please"),
        ("10.0.0.1", "10.0.0.1"),
        ("9216db5781bf21249d130ec9da846c4624c16137", "9216db5781bf21249d130ec9da846c4624c16137"),
        ("rate(1 hour)", "rate(1 hour)"),
        ("nan", "nan"),
        ("none", "none"),
        ("-", "-"),
    ],
)
def test_words_that_every_reader_takes_alike(text: str, value: object) -> None:
    """They keep their value and its type."""
    found = plain_value(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "reads_as"),
    [
        ("yes", "true"),
        ("No", "false"),
        ("ON", "true"),
        ("off", "false"),
        ("y", "true"),
        ("True", "true"),
        ("~", "null"),
        ("", "null"),
        ("12:30", "750 (base 60)"),
        ("1:30:00", "5400 (base 60)"),
        ("-1:30", "-90 (base 60)"),
        ("010", "8 (octal)"),
        ("0o17", "15 (octal)"),
        ("0x1F", "31 (hexadecimal)"),
        ("0b101", "5 (binary)"),
        ("1_000", "1000"),
        ("1._5", "1.5"),
        (".inf", "infinity"),
        ("-.INF", "infinity"),
        (".NaN", "not a number"),
        ("2026-11-21", "a date"),
        ("2026-11-21 10:00:00", "a date"),
        ("<<", "a merge"),
        ("=", "YAML's default value"),
        ("1e3", "text to YAML 1.1 and a number to YAML 1.2"),
        ("1.5E+3", "text to YAML 1.1 and a number to YAML 1.2"),
        (".5", "a number to some readers only"),
        ("+5", "a number to some readers only"),
        ("9" * 40, "a number of 40 digits"),
    ],
)
def test_words_that_surprise_are_refused(text: str, reads_as: str) -> None:
    """The message says what YAML would read."""
    found = plain_value(text)
    assert isinstance(found, Surprise) and found.reads_as == reads_as


@settings(deadline=None)
@given(st.text(alphabet="0123456789.-+_:eExXoObB~ynYN<=", max_size=12))
def test_a_plain_word_is_a_finite_value_or_a_surprise(text: str) -> None:
    """No spelling gives NaN, infinity, or an exception."""
    found = plain_value(text)
    assert not isinstance(found, float) or math.isfinite(found)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.-+_:eExXoObByesnoYESNOtrufal~ <=Z", min_size=1, max_size=10))
@example("1._")
@example("+.1_")
def test_accepted_words_mean_the_same_to_yaml(text: str) -> None:
    """Whatever is accepted unquoted has the value PyYAML's YAML 1.1 gives it (but for its own dates and texts)."""
    found = plain_value(text)
    if isinstance(found, Surprise) or text != text.strip() or (text[0] in "-=:<" and len(text) < 3):
        return
    try:
        meant = yaml.safe_load(f"[{text}]")
    except (yaml.YAMLError, ValueError):
        return
    if len(meant) == 1 and isinstance(meant[0], (str, int, float, bool)):
        assert meant[0] == found


def test_a_file_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions, values and problems come from a single pass over the events."""
    passes = []

    class Counting(yaml.SafeLoader):
        def __init__(self, stream: Any) -> None:
            passes.append(1)
            super().__init__(stream)

    assert codes(CHAT.encode(), Counting) == []
    assert passes == [1]


def test_problems_past_the_limit_are_counted_not_kept() -> None:
    """A file of 20,000 mistakes lists 500 and counts the rest."""
    problems = Problems(limit=500)
    read_yaml(b"".join(b"k%d: yes\n" % n for n in range(20_000)), "f", problems)
    assert (len(problems.found), problems.suppressed, problems.errors) == (500, 19_500, 20_000)
