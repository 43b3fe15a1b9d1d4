"""Edits of YAML text that touch nothing but what they name."""

from __future__ import annotations

import difflib

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadproof.profiles.yaml_edit import remove_key, set_value

TEXT = """\
# head
name: chat  # of the file

container:
  family: tgi
  # before the settings
  settings:
    max_total_tokens: 5120   # why 5120
    max_input_tokens: 4096
    # below the last one

workload:
  input_tokens: {distribution: uniform, min: 1, max: 10}
  note: |
    two
    lines

benchmark: {}
"""


def lines_changed(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def test_a_value_is_replaced_where_it_stands() -> None:
    """Its comment and the blanks before it stay."""
    edited = set_value(TEXT, ("container", "settings", "max_total_tokens"), 8192)
    assert lines_changed(TEXT, edited) == [
        "-     max_total_tokens: 5120   # why 5120",
        "+     max_total_tokens: 8192   # why 5120",
    ]


@pytest.mark.parametrize(
    ("path", "value", "added"),
    [
        (("container", "settings", "waiting_served_ratio"), 0.2, ["+     waiting_served_ratio: 0.2"]),
        (("container", "version"), "3.3.6", ["+   version: 3.3.6"]),
        (("endpoint", "instance_type"), "ml.g5.xlarge", ["+ ", "+ endpoint:", "+   instance_type: ml.g5.xlarge"]),
        (("workload", "streaming"), True, ["+   streaming: true"]),
        (("name2",), "yes it is", ['+ name2: "yes it is"']),
    ],
)
def test_a_new_key_is_a_new_line_at_the_end_of_its_map(path: tuple[str, ...], value: object, added: list[str]) -> None:
    """Only lines are added; a new section stands apart by a blank line."""
    edited = set_value(TEXT, path, value)  # type: ignore[arg-type]
    assert sorted(lines_changed(TEXT, edited)) == sorted(added)
    node = yaml.safe_load(edited)
    for key in path:
        node = node[key]
    assert node == value


def test_maps_in_braces_are_edited_in_their_braces() -> None:
    """A value, a new key, an empty map and a removal."""
    edited = set_value(TEXT, ("workload", "input_tokens", "max"), 20)
    assert "{distribution: uniform, min: 1, max: 20}" in edited
    edited = set_value(TEXT, ("workload", "input_tokens", "stddev"), 2.5)
    assert "{distribution: uniform, min: 1, max: 10, stddev: 2.5}" in edited
    assert "benchmark: {seed: 1}\n" in set_value(TEXT, ("benchmark", "seed"), 1)
    assert "{distribution: uniform, max: 10}" in remove_key(TEXT, ("workload", "input_tokens", "min"))
    assert "{distribution: uniform, min: 1}" in remove_key(TEXT, ("workload", "input_tokens", "max"))


def test_an_empty_value_takes_what_is_new() -> None:
    """`settings:` with nothing after it becomes a map, `key:` a value."""
    assert set_value("a:\nb: 1\n", ("a", "c"), 2) == "a:\n  c: 2\nb: 1\n"
    assert set_value("a:\nb: 1\n", ("a",), 2) == "a: 2\nb: 1\n"


def test_a_removed_key_takes_its_line_and_leaves_no_empty_map() -> None:
    """One of two settings goes alone; the only one takes `settings:` with it."""
    assert lines_changed(TEXT, remove_key(TEXT, ("container", "settings", "max_input_tokens"))) == [
        "-     max_input_tokens: 4096"
    ]
    assert remove_key("a:\n  b:\n    c: 1\nd: 2\n", ("a", "b", "c")) == "d: 2\n"
    assert remove_key(TEXT, ("container", "nothing", "here")) == TEXT


def test_windows_line_ends_and_a_missing_last_one_are_kept() -> None:
    """New lines end as the others do."""
    assert set_value("a: 1\r\nb:\r\n  c: 2\r\n", ("b", "d"), 3) == "a: 1\r\nb:\r\n  c: 2\r\n  d: 3\r\n"
    assert set_value("a: 1", ("b",), 2) == "a: 1\nb: 2\n"
    assert set_value("# only a comment\n", ("a", "b"), 1) == "# only a comment\na:\n  b: 1\n"


NAMES = st.sampled_from(["a", "b", "c", "d"])


def test_a_tab_before_a_comment_is_space_like_any_other() -> None:
    """The strict reader accepts it, so must the editor."""
    text = "a: 1\t# tab\nb:\n  c: 2\t# tab\n"
    assert set_value(text, ("b", "c"), 3) == "a: 1\t# tab\nb:\n  c: 3\t# tab\n"


def test_quotes_stay_where_they_stand_and_a_json_file_stays_json() -> None:
    """New keys of a map in braces are quoted as those beside them."""
    assert set_value("a: 'x y'  # why\n", ("a",), "z") == "a: 'z'  # why\n"
    edited = set_value('{"a": {"b": "x"}}\n', ("a", "c"), "vllm")
    assert edited == '{"a": {"b": "x", "c": "vllm"}}\n'
    assert set_value(edited, ("a", "b"), "y") == '{"a": {"b": "y", "c": "vllm"}}\n'


def test_a_comma_before_the_closing_brace_stays_the_last() -> None:
    """The new entry goes behind the last one, before its comma and its comment."""
    assert set_value("a: {\n  b: 1, # last }\n  }\n", ("a", "c"), 2) == "a: {\n  b: 1, c: 2, # last }\n  }\n"


VALUES = st.one_of(st.integers(0, 999), st.booleans(), st.sampled_from(["ml.g5.xlarge", "vllm", "0.30.0"]))


@settings(deadline=None)
@given(
    st.recursive(VALUES, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=8).filter(
        lambda tree: isinstance(tree, dict)
    ),
    st.lists(NAMES, min_size=1, max_size=3),
    VALUES,
    st.booleans(),
)
def test_any_tree_says_afterwards_what_it_was_told_and_keeps_its_comments(
    tree: dict[str, object], path: list[str], value: object, flow: bool
) -> None:
    """Setting a key and reading it back gives the value; setting it twice changes nothing; all other keys stay."""
    holder: dict[str, object] = tree
    written = yaml.safe_dump(tree, default_flow_style=flow, sort_keys=False, width=1000)
    for key in path[:-1]:
        below = holder.get(key)
        if not isinstance(below, dict):
            below = holder[key] = {}
        holder = below
    assume(not isinstance(holder.get(path[-1]), dict))
    holder[path[-1]] = value
    text = "# first\n" + written.replace("\n", "  # c\n", 1)
    edited = set_value(text, tuple(path), value)  # type: ignore[arg-type]
    assert yaml.safe_load(edited) == tree
    assert set_value(edited, tuple(path), value) == edited  # type: ignore[arg-type]
    assert (edited.count("# first"), edited.count("# c")) == (1, 1)
