"""Edits of one YAML file at the very characters they concern: comments, order, quotes and line ends stay.

A rewrite by a YAML library lays the whole file out again; here nothing but the named values and lines changes. Made for
what the strict reader accepts: no anchors, no tags, no repeated keys.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

Value = str | int | float | bool | tuple[int, ...] | None
Path = tuple[str, ...]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z|[0-9]+\.[0-9]+\.[0-9]+\Z")  # words, and versions such as 3.3.6
_INDENT = 2
# The strict reader's own: the two scanners differ in what they accept (a tab before a comment).
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def set_value(text: str, path: Path, value: Value) -> str:
    """`text` with `path` set to `value`; maps that are missing on the way are written below what there is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    node = _root(text)
    if node is None:
        return _appended(text, _lines(path, value, 0), newline)
    for depth, key in enumerate(path):
        found = _entry(node, key)
        if found is None:
            return _inserted(text, node, path[depth:], value, newline, top=depth == 0)
        if depth == len(path) - 1 or not isinstance(found[1], yaml.MappingNode):
            return _replaced(text, node, found, path[depth + 1 :], value, newline)
        node = found[1]
    raise AssertionError("a path has at least one key")


def remove_key(text: str, path: Path) -> str:
    """`text` without `path`, and without the maps that it leaves empty; unchanged where it is not there."""
    node: yaml.Node | None = _root(text)
    steps: list[tuple[yaml.MappingNode, yaml.ScalarNode, yaml.Node]] = []
    for key in path:
        found = _entry(node, key) if isinstance(node, yaml.MappingNode) else None
        if found is None or not isinstance(node, yaml.MappingNode):
            return text
        steps.append((node, *found))
        node = found[1]
    while len(steps) > 1 and len(steps[-1][0].value) == 1:
        steps.pop()
    holder, key_node, value_node = steps[-1]
    if holder.flow_style:
        return _without_flow_entry(text, holder, key_node, value_node)
    start = text.rfind("\n", 0, key_node.start_mark.index) + 1
    return text[:start] + text[_line_end(text, _end(text, value_node)) :]


def _root(text: str) -> yaml.MappingNode | None:
    node = yaml.compose(text, Loader=_LOADER)
    return node if isinstance(node, yaml.MappingNode) else None


def _entry(node: yaml.MappingNode | None, key: str) -> tuple[yaml.ScalarNode, yaml.Node] | None:
    for key_node, value_node in node.value if node is not None else ():
        if isinstance(key_node, yaml.ScalarNode) and key_node.value == key:
            return key_node, value_node
    return None


def _replaced(
    text: str,
    holder: yaml.MappingNode,
    entry: tuple[yaml.ScalarNode, yaml.Node],
    below: Path,
    value: Value,
    newline: str,
) -> str:
    """The value of one key again. An empty value (`settings:`) or a scalar that must become a map takes lines below."""
    key, node = entry
    start, end = node.start_mark.index, _end(text, node)
    if below and holder.flow_style:
        inner = _flow(_lines(below, value, 0))
        return f"{text[:start].rstrip(' ')} {{{inner}}}{text[max(start, end) :]}"
    if not below:
        gap = "" if start > key.end_mark.index + 1 else " "
        return text[:start] + gap + _scalar(value, _quotes(node)) + text[max(start, end) :]
    lines = _lines(below, value, key.start_mark.column + _INDENT)
    head = text[:start].rstrip(" ")
    return head + newline + newline.join(lines) + text[max(start, end) :]


def _inserted(text: str, node: yaml.MappingNode, path: Path, value: Value, newline: str, *, top: bool) -> str:
    """New lines, or in a flow map a new entry in the style of its keys, after the last entry."""
    lines = _lines(path, value, _column(node), quotes=_quotes(node.value[-1][0]) if node.value else "")
    if node.flow_style:
        if not node.value:
            return text[: node.start_mark.index + 1] + _flow(lines) + text[node.start_mark.index + 1 :]
        at = _end(text, node.value[-1][1])
        return text[:at] + ", " + _flow(lines) + text[at:]
    at = _line_end(text, _end(text, node))
    head = text[:at] if text[:at].endswith("\n") else text[:at] + newline
    # Sections of the file itself stand apart by a blank line, as they do everywhere.
    gap = newline if top and len(lines) > 1 else ""
    return head + gap + newline.join(lines) + newline + text[at:]


def _appended(text: str, lines: list[str], newline: str) -> str:
    head = text if not text or text.endswith("\n") else text + newline
    return head + newline.join(lines) + newline


def _lines(path: Path, value: Value, column: int, *, quotes: str = "") -> list[str]:
    """`a:`, `  b: value` from `column` on. `quotes` stand around keys and strings: a JSON file stays JSON."""
    heads = [f"{' ' * (column + _INDENT * depth)}{quotes}{key}{quotes}:" for depth, key in enumerate(path)]
    return [*heads[:-1], f"{heads[-1]} {_scalar(value, quotes)}"]


def _flow(lines: list[str]) -> str:
    words = [line.strip() for line in lines]
    return " {".join(words) + "}" * (len(words) - 1)


def _without_flow_entry(text: str, holder: yaml.MappingNode, key: yaml.ScalarNode, value: yaml.Node) -> str:
    start, end = key.start_mark.index, _end(text, value)
    position = [entry[0] for entry in holder.value].index(key)
    if position + 1 < len(holder.value):
        end = holder.value[position + 1][0].start_mark.index
    elif position:
        start = _end(text, holder.value[position - 1][1])
    return text[:start] + text[end:]


def _column(node: yaml.MappingNode) -> int:
    return node.value[0][0].start_mark.column if node.value else node.start_mark.column


def _end(text: str, node: yaml.Node) -> int:
    """Where the last character of a value stands, plus one. Block collections end where their last value does."""
    last: yaml.Node = node
    while isinstance(last, yaml.CollectionNode) and not last.flow_style and last.value:
        entry = last.value[-1]
        last = entry[1] if isinstance(entry, tuple) else entry
    if isinstance(last, yaml.ScalarNode) and last.style in ("|", ">"):  # ends where the next token begins
        return len(text[: last.end_mark.index].rstrip())
    return int(last.end_mark.index)


def _line_end(text: str, index: int) -> int:
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _quotes(node: yaml.Node) -> str:
    """The quotes that a scalar stands in, none where it is plain or a block."""
    return node.style if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"') else ""


def _scalar(value: Value, quotes: str = "") -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    plain = _PLAIN.match(value) and value not in ("true", "false", "null")
    quotes = quotes or ("" if plain else '"')
    return f"{quotes}{value}{quotes}"
