"""Which profiles a change touches, found without building any: by the ids of the files that each is made of."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from loadproof.errors import InputError
from loadproof.profiles.calibrating import is_calibration
from loadproof.profiles.inheritance import SUFFIXES
from loadproof.profiles.reader import MOST_BYTES, MOST_DEPTH
from loadproof.profiles.signers import FILE_NAME
from loadproof.sides.links import paths_below
from loadproof.sides.names import LONGEST_PATH, digest_of, readable_name
from loadproof.sides.tree import PROFILES, Tree

ENVIRONMENT: Final = "environment.yaml"
SIGNERS: Final = f"{PROFILES}/{FILE_NAME}"
SECOND_ENVIRONMENT: Final = "environment.yml"  # which an app takes for a profile
OF_ENVIRONMENT: Final = "environment"  # the pair of what belongs to no one profile; no file of that name is a profile
MOST_NAMED: Final = 100  # files that a profile is made of: its parents, its data, and what those name
MOST_YAML_BYTES: Final = 16 * 2**20  # of both sides, each content once: in them names are looked for
MOST_TEXTS: Final = 1_000_000  # that are held against a side's names, in all
_PATH: Final = re.compile(r"[^/\0][^\0]*")  # an absolute one is refused by the checks


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A profile by environment and name (its file's stem); OF_ENVIRONMENT for the environment's own stacks."""

    environment_name: str
    name: str

    @property
    def of_environment(self) -> bool:
        return self.name == OF_ENVIRONMENT


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place on one side: its file, everything in the tree that it is made of but code, and the digest of that.

    `unfollowed`: it names more than is followed. `anywhere`: a link may lead it there. Then it is taken as made of
    every file there is.
    """

    file: str
    made_of: tuple[str, ...]
    digest: str
    unfollowed: bool = False
    anywhere: bool = False


class Reader:
    """Reads the profiles of both sides, each content once."""

    def __init__(self) -> None:
        self._named_by_id: dict[str, tuple[str, ...]] = {}
        self._room_bytes = MOST_YAML_BYTES
        self._known: set[str] = set()  # paths of the trees before
        # Of the tree whose places are looked for: what each path names, what in a content may be names, and their ends.
        self._targets: dict[tuple[str, str], frozenset[str] | None] = {}
        self._room_texts = MOST_TEXTS
        self._likely_by_id: dict[str, tuple[str, ...]] = {}
        self._last_parts: set[str] = set()  # names of files and folders
        self._ordered: list[str] = []

    def places(self, tree: Tree) -> dict[Place, FoundPlace]:
        """Every environment and profile of a side."""
        files = places_of(tree)
        self._targets, self._likely_by_id = {}, {}
        self._ordered = sorted(tree.ids)
        self._last_parts = {"", ".", "..", *(part for path in tree.ids for part in path.split("/"))}
        profiles = [file for place, file in files.items() if not place.of_environment]
        new = {file for file in files.values() if file not in self._known}
        profiles.sort(key=lambda file: file in new)  # new ones take no room from others
        self._read(tree, profiles)
        self._known |= tree.ids.keys()
        through_folders = _has_links_to_folders(tree)
        everything: str | None = None
        found: dict[Place, FoundPlace] = {}
        peopled = {place.environment_name for place in files if not place.of_environment}
        for place, file in sorted(files.items(), key=lambda row: row[1] in new):
            folder = f"{PROFILES}/{place.environment_name}"
            own = (f"{folder}/{ENVIRONMENT}", file)
            made_of = self._made_of(tree, *own)
            if place.of_environment and made_of is not None:
                made_of += tuple(sorted({f"{folder}/{SECOND_ENVIRONMENT}", SIGNERS} & tree.ids.keys()))
            # By way of a link a name may lead anywhere, from where the link stands or from where it leads.
            anywhere = through_folders or not tree.source.links.isdisjoint(own)
            if made_of is None or anywhere:
                everything = everything or digest_of(sorted((*tree.ids.items(), *tree.converted.items())))
                digest = everything
            else:
                digest = digest_of([(path, tree.ids[path]) for path in made_of] + _converted(tree, made_of))
            if place.of_environment:  # its own stacks come with its first profile, and go with its last
                digest = digest_of([(digest, str(place.environment_name in peopled)), *_converted(tree, tree.code)])
            parts = made_of or tuple(sorted({*own}))
            found[place] = FoundPlace(file, parts, digest, unfollowed=made_of is None, anywhere=anywhere)
        return found

    def _made_of(self, tree: Tree, environment_file: str, file: str) -> tuple[str, ...] | None:
        """Sorted; None for more than is followed."""
        seen = {environment_file}
        waiting = {file} - seen
        while waiting:
            path = waiting.pop()
            if path not in tree.ids:
                continue
            seen.add(path)
            # A parent says what it extends from where it stands, and data from where the profile does.
            for folder in {posixpath.dirname(path), posixpath.dirname(file)}:
                if (path, folder) not in self._targets:
                    self._targets[path, folder] = self._named(tree, path, folder)
                targets = self._targets[path, folder]
                if targets is None:
                    return None
                waiting |= targets - seen
            if len(seen) + len(waiting) > MOST_NAMED:
                return None
        return tuple(sorted(seen))

    def _named(self, tree: Tree, path: str, folder: str) -> frozenset[str] | None:
        """Files of the tree that a YAML file names, from a folder, in whatever field; None where nobody looked."""
        if not path.endswith((".yaml", ".yml")):
            return frozenset()
        content = tree.ids[path]
        if content not in self._named_by_id:
            self._read(tree, [path])
        if content not in self._named_by_id:
            return None
        through = tree.submodules | tree.source.links
        if content not in self._likely_by_id:  # a file may hold thousands of texts, and few are names
            likely = (
                one for one in self._named_by_id[content] if through or one.rpartition("/")[2] in self._last_parts
            )
            self._likely_by_id[content] = tuple(likely)
        self._room_texts -= len(self._likely_by_id[content])
        if self._room_texts < 0:
            return None
        targets = {posixpath.normpath(posixpath.join(folder, text)) for text in self._likely_by_id[content]}
        if through:  # what a name leads to below one changes with it
            targets |= {part for target in targets for part in folders_of(target) if part in through}
        found = {target for target in targets if target in tree.ids and target != path}
        for target in targets:
            if len(found) > MOST_NAMED:  # nobody follows it
                break
            if not path.startswith(f"{target}/"):  # files of a folder, such as a trace's
                found.update(paths_below(target, self._ordered, MOST_NAMED + 1))
        return frozenset(found)

    def _read(self, tree: Tree, paths: list[str]) -> None:
        """One request for all of them: through git, each costs a process."""
        new = {tree.ids[path]: path for path in paths if tree.ids[path] not in self._named_by_id}
        if self._room_bytes < 0:
            return
        for path, content in tree.source.each(new.values()):
            self._room_bytes -= len(content) if len(content) <= MOST_BYTES else 0
            if self._room_bytes < 0:
                return
            linked = path in tree.source.links
            self._named_by_id[tree.ids[path]] = (os.fsdecode(content),) if linked else texts_of(content)


def _converted(tree: Tree, paths: Iterable[str]) -> list[tuple[str, str]]:
    return [(path, tree.converted[path]) for path in paths if path in tree.converted] if tree.converted else []


def folders_of(path: str) -> Iterator[str]:
    """From the nearest up; of a path that is none of a file's, none."""
    if len(path) > LONGEST_PATH:
        return
    while path := posixpath.dirname(path).rstrip("/"):
        yield path


def _has_links_to_folders(tree: Tree) -> bool:
    """Below `deploy_profiles`. Raises InputError for an environment that is one, or all of them."""
    links = [path for path in tree.source.links if path == PROFILES or path.startswith(f"{PROFILES}/")]
    found = False
    for path, target in tree.source.each(links):
        leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(target)))
        if leads_to not in tree.ids:
            found = True
            if path.count("/") <= 1:  # whose profiles an app deploys, and nobody would review
                raise InputError(
                    f"{tree.label}: {readable_name(path)} is a link to a folder, which no review follows; make it one"
                )
    return found


def places_of(tree: Tree) -> dict[Place, str]:
    """The file of every environment and profile: what stands beside an environment.yaml and is no calibration."""
    found: dict[Place, str] = {}
    for path in tree.profile_paths:
        _, environment_name, *rest = path.split("/")
        if len(rest) != 1 or f"{PROFILES}/{environment_name}/{ENVIRONMENT}" not in tree.ids:
            continue
        file = Path(path)
        if file.name == ENVIRONMENT:
            found[Place(environment_name, OF_ENVIRONMENT)] = path
        elif file.suffix in SUFFIXES and file.stem != OF_ENVIRONMENT and not is_calibration(file):
            # Of two files of one name the CDK app takes the last.
            found[Place(environment_name, file.stem)] = path
    return found


def affected(before: Mapping[Place, FoundPlace], after: Mapping[Place, FoundPlace], *, same_code: bool) -> list[Place]:
    """Places of which anything differs, sorted; all of them where the code does."""
    places = sorted({*before, *after})
    return [place for place in places if not same_code or _digest(before, place) != _digest(after, place)]


def _digest(found: Mapping[Place, FoundPlace], place: Place) -> str | None:
    return found[place].digest if place in found else None


def texts_of(content: bytes) -> tuple[str, ...]:
    """Every text of a YAML file that could be a path; those before the first mistake where it is none."""
    texts: dict[str, None] = {}
    if len(content) > MOST_BYTES:  # refused by the checks
        return ()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(content)
    depth = 0
    try:
        for event in iter(loader.get_event, None):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH:  # refused, too, and ever slower to read
                break
            if isinstance(event, yaml.ScalarEvent) and _PATH.fullmatch(event.value):
                texts[event.value] = None
            if isinstance(event, yaml.StreamEndEvent):
                break
    except (yaml.YAMLError, UnicodeDecodeError):
        pass
    finally:
        loader.dispose()
    return tuple(texts)
