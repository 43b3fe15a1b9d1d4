"""What a YAML file holds once read: maps, lists and scalars, each with the place it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loadproof.errors import Problem, Severity
from loadproof.profiles.secrets import shown_path

Path = tuple[str | int, ...]
ScalarValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place: file as the user named it, line and column counted from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. `text` is what the file says; `quoted` is true for quoted and block scalars (always text)."""

    value: ScalarValue
    text: str
    quoted: bool
    mark: Mark


@dataclass(frozen=True, slots=True)
class Unusable:
    """A value whose problem is already reported: nothing that depends on it is checked."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    mark: Mark
    nodes: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's place and its value."""

    key_mark: Mark
    node: Node


@dataclass(frozen=True, slots=True)
class Map:
    """A map, keys in file order."""

    mark: Mark
    entries: dict[str, Entry] = field(default_factory=dict)


Node = Scalar | Unusable | Items | Map


class Problems:
    """Collects the problems of one check; keeps counting, but not storing, past `limit`."""

    def __init__(self, limit: int = 500) -> None:
        self.found: list[Problem] = []
        self.limit = limit
        self.suppressed = 0
        self.errors = 0

    @property
    def is_full(self) -> bool:
        """True when further problems are only counted: no need to word them well."""
        return len(self.found) >= self.limit

    def add(self, mark: Mark, code: str, path: Path, message: str, mend: str, severity: Severity = "error") -> None:
        """Record one problem at `mark`."""
        if severity == "error":
            self.errors += 1
        if self.is_full:
            self.suppressed += 1
            return
        self.found.append(Problem(mark.file, mark.line, mark.column, code, shown_path(path), message, mend, severity))


def place_of(root: Node, path: Path) -> Mark:
    """The place of the deepest part of `path` that the file has: the key's place, else the item's."""
    node, mark = root, root.mark
    for step in path:
        child = _child(node, step)
        if child is None:
            break
        mark, node = child
    return mark


def _child(node: Node, step: str | int) -> tuple[Mark, Node] | None:
    if isinstance(node, Map) and isinstance(step, str):
        entry = node.entries.get(step)
        return (entry.key_mark, entry.node) if entry else None
    if isinstance(node, Items) and isinstance(step, int) and step < len(node.nodes):
        return node.nodes[step].mark, node.nodes[step]
    return None


def scalars(root: Node, path: Path = ()) -> Iterator[tuple[Path, Scalar]]:
    """Every scalar with its path, in file order."""
    if isinstance(root, Scalar):
        yield path, root
    children: Iterable[tuple[str | int, Node]] = ()
    if isinstance(root, Map):
        children = ((key, entry.node) for key, entry in root.entries.items())
    elif isinstance(root, Items):
        children = enumerate(root.nodes)
    for step, node in children:
        yield from scalars(node, (*path, step))
