"""Bytes to a tree with positions: strict YAML, every problem in one pass, no value converted silently.

Reads PyYAML's events (libyaml's when it is there), never its nodes: no alias is ever expanded, no tag resolved, and
the depth is known before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml

from loadproof.profiles.plain import Surprise, plain_value
from loadproof.profiles.secrets import HIDDEN, shown, shown_key
from loadproof.profiles.tree import Entry, Items, Map, Mark, Node, Path, Problems, Scalar, Unusable

MOST_BYTES: Final = 256 * 1024
MOST_DEPTH: Final = 32

# What YAML does not call printable, and the line breaks that only YAML 1.1 knows (editors count lines without them).
# And what turns the direction of a line (Unicode's Bidi_Control), by which a text shows other words than it holds.
_UNSEEN: Final = (
    "\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
)
_UNPRINTABLE: Final = re.compile(f"[{_UNSEEN}]")
_UNPRINTABLE_TEXT: Final = re.compile(f"[\r{_UNSEEN}]")  # of a value: there an escape can write all of them
Scanner = type[yaml.SafeLoader] | type[yaml.CSafeLoader]
_SCANNER: Final[Scanner] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(data: bytes, file: str, problems: Problems, scanner: Scanner = _SCANNER) -> Node | None:
    """The tree of one YAML file, or None when there is nothing to go on with. Never raises for bad content.

    `file` is how messages name it; `scanner` is PyYAML's C or pure Python loader class (same results).
    """
    start = Mark(file, 1, 1)
    if len(data) > MOST_BYTES:
        problems.add(start, "LP001", (), f"file is larger than {MOST_BYTES} bytes", "split or shorten it")
        return None
    text = _decoded(data, file, problems)
    if text is None:
        return None
    builder = _Builder(file, problems)
    try:
        for event in _events(text, scanner):
            if not builder.take(event):
                return None
    except yaml.MarkedYAMLError as error:
        _syntax_problem(error, text, file, problems)
        return None
    except yaml.YAMLError:
        problems.add(start, "LP003", (), "not readable as YAML", "compare it with an example profile")
        return None
    if builder.root is None:
        problems.add(start, "LP004", (), "file is empty", "write the profile, or delete the file")
    return builder.root


def _events(text: str, scanner: Scanner) -> Iterator[yaml.Event | None]:
    loader = scanner(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _decoded(data: bytes, file: str, problems: Problems) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        problems.add(Mark(file, 1, 1), "LP002", (), "file is UTF-16, allowed is UTF-8", "save it as UTF-8")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        mark = Mark(file, data.count(b"\n", 0, error.start) + 1, _width(data[line_start : error.start]) + 1)
        found = f"byte 0x{data[error.start]:02X} at offset {error.start} is not UTF-8"
        problems.add(mark, "LP002", (), found, "save the file as UTF-8")
        return None
    bad = _UNPRINTABLE.search(text)
    if bad is None:
        return text
    at = bad.start()
    mark = Mark(file, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
    problems.add(mark, "LP002", (), *_not_allowed(bad))
    return None


def _not_allowed(bad: re.Match[str]) -> tuple[str, str]:
    """What was found, and what mends it."""
    return f"character U+{ord(bad[0]):04X} is not allowed: nobody sees it", "delete it"


def _width(line: bytes) -> int:
    return len(line.decode("utf-8", "replace"))


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str, problems: Problems) -> None:
    said = error.problem or ""
    # What is never closed is told where it opens: where the file ends says nothing.
    unclosed = any(fragment in said for fragment in _UNCLOSED)
    at = (unclosed and error.context_mark) or error.problem_mark or error.context_mark
    mark = Mark(file, at.line + 1, at.column + 1) if at else Mark(file, 1, 1)
    lines = text.split("\n", mark.line)
    if len(lines) >= mark.line and lines[mark.line - 1][mark.column - 1 : mark.column] == "\t":
        problems.add(mark, "LP003", (), "a tab in the indentation", "indent with spaces")
        return
    for fragment, message, mend in _SYNTAX:
        if fragment in said:
            problems.add(mark, "LP003", (), message, mend)
            return
    problems.add(mark, "LP003", (), "not readable as YAML here", "look for a missing quote, colon or indent above")


_UNCLOSED: Final = ("unexpected end of stream", "expected ',' or")

# The scanner's sentence -> ours. Its own text is never passed on: it may quote the file.
_SYNTAX: Final = (
    ("could not find expected ':'", "a key without its colon", "write `key: value`, and quote text over lines"),
    (
        "mapping values are not allowed",
        "a `: ` where no key can stand",
        "quote values that hold a colon, and write a space after a key's",
    ),
    ("cannot start any token", "a character that no plain word may start with", "use spaces, or quote the value"),
    ("did not find expected key", "indentation that fits no open map", "line it up with the keys above"),
    ("expected <block end>", "indentation that fits no open map", "line it up with the keys above"),
    ("did not find expected '-' indicator", "indentation that fits no open list", "line it up with the `-` above"),
    ("unexpected end of stream", "a quote that is never closed", "close it"),
    ("document start", "text after the end of the profile", "keep one profile in a file"),
    ("did not find expected ',' or", "a list or map in brackets that is not closed", "close it, or add a comma"),
    ("expected ',' or", "a list or map in brackets that is not closed", "close it, or add a comma"),
    ("invalid Unicode", "an escape that is no character", "write the character itself"),
    ("unknown escape character", "an escape that double quotes do not know", "use single quotes, or double the \\"),
    ("sequence entries are not allowed", "a list begun on its key's line", "put `-` on a line of its own"),
)

_Opening = yaml.MappingStartEvent | yaml.SequenceStartEvent
_Tagged = yaml.ScalarEvent | _Opening


class _Open:
    """A map or list being filled. `path` names it; `key` is the entry that the next node belongs to."""

    __slots__ = ("awaits_value", "key", "key_mark", "keys_seen", "node", "path", "skip")

    def __init__(self, node: Map | Items, path: Path) -> None:
        self.node = node
        self.path = path
        self.key = ""
        self.key_mark = node.mark
        self.awaits_value = False
        self.skip = False  # the key was refused: read its value for its own problems, keep nothing
        self.keys_seen: dict[str, Mark] = {}


class _Builder:
    """Events to nodes on an explicit stack: depth costs no recursion."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self.problems = problems
        self.root: Node | None = None
        self.stack: list[_Open] = []
        self.documents = 0

    def take(self, event: yaml.Event | None) -> bool:
        """Take one event; False stops reading."""
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            return self._open(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self.stack.pop()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            return self._document(event)
        return True

    def _mark(self, event: yaml.Event) -> Mark:
        assert event.start_mark is not None  # of an event that was read
        return Mark(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _path(self) -> Path:
        """The path of the node that comes next."""
        if not self.stack:
            return ()
        top = self.stack[-1]
        if top.skip and not top.key:
            return top.path
        step = top.key if isinstance(top.node, Map) else len(top.node.nodes)
        return (*top.path, step)

    def _expects_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].node, Map) and not self.stack[-1].awaits_value

    def _document(self, event: yaml.DocumentStartEvent) -> bool:
        self.documents += 1
        if self.documents > 1:
            self.problems.add(
                self._mark(event), "LP004", (), "a second document begins here", "keep one profile in a file"
            )
            return False
        if event.version or event.tags:
            self.problems.add(self._mark(event), "LP006", (), "a % directive is not allowed", "delete it")
        return True

    def _alias(self, event: yaml.AliasEvent) -> None:
        mark = self._mark(event)
        name = shown(event.anchor or "", self._path())
        self.problems.add(
            mark,
            "LP005",
            () if self._expects_key() else self._path(),
            f"alias `*{name}` is not allowed: small files can expand without bound"
            if name != HIDDEN
            else f"an alias {HIDDEN} is not allowed: small files can expand without bound",
            "write the value out",
        )
        if self._expects_key():
            self._refused_key(mark)
        else:
            self._place(Unusable(mark))

    def _decorations(self, event: _Tagged) -> bool:
        """Report an anchor or a tag; True when a tag makes the value unusable."""
        mark = self._mark(event)
        path = () if self._expects_key() else self._path()
        if event.anchor is not None:
            self.problems.add(mark, "LP005", path, "an anchor (`&`) is not allowed", "delete it, and write values out")
        if event.tag is not None:
            self.problems.add(mark, "LP006", path, "a tag (`!`) is not allowed", "delete it, or quote the text")
            return True
        return False

    def _open(self, event: _Opening) -> bool:
        mark = self._mark(event)
        if len(self.stack) >= MOST_DEPTH:
            self.problems.add(mark, "LP010", (), f"nested deeper than {MOST_DEPTH} levels", "write it flatter")
            return False
        self._decorations(event)
        as_key = self._expects_key()
        node: Map | Items = Map(mark) if isinstance(event, yaml.MappingStartEvent) else Items(mark)
        path = self._path()
        if as_key:
            self.problems.add(mark, "LP008", self.stack[-1].path, "a map or list cannot be a key", "use a word")
            self._refused_key(mark)
        else:
            self._place(node)
        self.stack.append(_Open(node, path))
        return True

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        tagged = self._decorations(event)
        bad = _UNPRINTABLE_TEXT.search(event.value)
        if bad is not None:
            self._unseen(event, bad)
            return
        if self._expects_key():
            self._key(event)
            return
        mark, path = self._mark(event), self._path()
        quoted = not event.implicit[0]
        if tagged:
            self._place(Unusable(mark))
            return
        value = event.value if quoted else plain_value(event.value)
        if isinstance(value, Surprise):
            self._place(Unusable(mark))
            self._surprise(mark, path, event.value, value)
        else:
            self._place(Scalar(value, event.value, quoted, mark))

    def _unseen(self, event: yaml.ScalarEvent, bad: re.Match[str]) -> None:
        """A character that only an escape could write; texts go into dashboards, tables and terminals."""
        mark, as_key = self._mark(event), self._expects_key()
        self.problems.add(mark, "LP002", self.stack[-1].path if as_key else self._path(), *_not_allowed(bad))
        if as_key:
            self._refused_key(mark, event.value)
        else:
            self._place(Unusable(mark))

    def _surprise(self, mark: Mark, path: Path, text: str, surprise: Surprise) -> None:
        if self.problems.is_full:  # only counted: wording sixty thousand of them would take a second
            self.problems.add(mark, "LP009", (), "", "")
            return
        seen = shown(text, path)
        if seen == HIDDEN:
            message, mend = f"an unquoted value {HIDDEN} that is not text to YAML", "quote it"
        elif not text:
            if self.stack and isinstance(self.stack[-1].node, Map):
                mark = self.stack[-1].key_mark  # an empty value has no place of its own
            message, mend = "no value: reads as null", surprise.instead
        else:
            message, mend = f"`{seen}` reads as {surprise.reads_as}", surprise.instead
        self.problems.add(mark, "LP009", path, message, mend)

    def _key(self, event: yaml.ScalarEvent) -> None:
        top, mark, text = self.stack[-1], self._mark(event), event.value
        value = text if not event.implicit[0] else plain_value(text)
        if text == "<<" and event.implicit[0]:
            self.problems.add(mark, "LP005", top.path, "a merge key (`<<`) is not allowed", "write the keys out")
            self._refused_key(mark)
            return
        if not isinstance(value, str):
            reads_as = value.reads_as if isinstance(value, Surprise) else type_word(value)
            a_list = "; a list stands in brackets: [1, 2, 4]" if isinstance(value, int | float) else ""
            found, mend = f"key `{shown_key(text)}` reads as {reads_as}", f"quote it, or use a word{a_list}"
            self.problems.add(mark, "LP008", top.path, found, mend)
            self._refused_key(mark, text)
            return
        first = top.keys_seen.setdefault(text, mark)
        if first is not mark:
            where = f"{first.line}:{first.column}"
            self.problems.add(
                mark,
                "LP007",
                top.path,
                f"duplicate key `{shown_key(text)}` (first at {where}); the later would win silently",
                "delete one",
            )
            self._refused_key(mark, text)
            return
        top.key, top.key_mark, top.awaits_value, top.skip = text, mark, True, False

    def _refused_key(self, mark: Mark, text: str = "") -> None:
        """Keep the key's text: whether its value may be shown depends on it."""
        top = self.stack[-1]
        top.key, top.key_mark, top.awaits_value, top.skip = text, mark, True, True

    def _place(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top.node, Items):
            top.node.nodes.append(node)
            return
        if not top.skip:
            top.node.entries[top.key] = Entry(top.key_mark, node)
        top.awaits_value = False


def type_word(value: object) -> str:
    """How messages name the kind of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    return "text"
