"""One side under work: its affected profiles laid out, checked, and with their templates once somebody made them."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from loadproof.errors import CouldNotRunError, InputError, Problem
from loadproof.profiles import Checked, check_file
from loadproof.profiles.inheritance import read_with_parents
from loadproof.profiles.loader import named_files
from loadproof.profiles.names import stack_name
from loadproof.profiles.secrets import shown_path
from loadproof.profiles.tree import Items, Map, Node, Problems
from loadproof.review.model import Side, Traffic
from loadproof.scaffold import team_files
from loadproof.sides.affected import (
    ENVIRONMENT,
    MOST_NAMED,
    MOST_YAML_BYTES,
    OF_ENVIRONMENT,
    SECOND_ENVIRONMENT,
    SIGNERS,
    FoundPlace,
    Place,
    folders_of,
)
from loadproof.sides.git import MOST_BLOB_BYTES, OVERSIZED
from loadproof.sides.names import digest_of, readable_name
from loadproof.sides.traffic import Traces
from loadproof.sides.tree import PROFILES, Tree

_CACHED_FORM: Final = "3"  # of what is kept and how it is made; another one finds nothing
_LFS: Final = b"version https://git-lfs.github.com/spec/"


@dataclass(slots=True)
class UnfinishedSide:
    """`places` are those to review that this side has; `context` is what `-c` gives beside env and profile.

    `codebase` is the side whose code synthesizes this one's profiles: its own, or BASE's where that alone is trusted.
    """

    tree: Tree
    codebase: Tree
    found: Mapping[Place, FoundPlace]
    places: tuple[Place, ...]
    root: Path
    context: Mapping[str, object]
    checked: dict[Place, Checked] = field(default_factory=dict)
    templates: dict[Place, Mapping[str, Any]] = field(default_factory=dict)
    refusals: dict[Place, str] = field(default_factory=dict)
    elsewhere: set[Place] = field(default_factory=set)  # those whose content git does not have
    late: set[Place] = field(default_factory=set)  # those that the review's time was over for
    _left_out: dict[str, str] = field(default_factory=dict)  # why a path could not be laid out
    _settings: dict[str, object] | None = None

    @property
    def existing(self) -> dict[str, list[str]]:
        """Every profile of every environment of this side."""
        names: dict[str, list[str]] = {place.environment_name: [] for place in self.found}
        for place in sorted(self.found):
            if not place.of_environment:
                names[place.environment_name].append(place.name)
        return names

    def lay_out(self) -> None:
        """Everything below `deploy_profiles`, and what the places name beside it."""
        if self.places:
            named = {path for place in self.places for path in self.found[place].made_of if path in self.tree.ids}
            if self.codebase is not self.tree:  # what lies among the code could be run, whatever it is called
                self._refuse_foreign()
                named = {path for path in named if self.codebase.ids.get(path) == self.tree.ids[path]}
            self._left_out = self.tree.lay_out(sorted(named.union(self.tree.profile_paths)), self.root)

    def check(self, place: Place) -> None:
        """Read a profile, and its environment before the first of it, as `loadproof check` does."""
        if left_out := sorted(self._left_out.keys() & {*self.found[place].made_of}):
            why = self._left_out[left_out[0]]
            self.refusals[place] = f"{left_out[0]} cannot be checked out ({why}); give it another name"
            return
        environment = environment_place(place.environment_name)
        if environment not in self.checked:
            self.checked[environment] = check_file(self.root / PROFILES / place.environment_name / ENVIRONMENT)
        if not place.of_environment:
            self.checked[place] = check_file(self.root / self.found[place].file)
        if pointer := self._kept_elsewhere(place) or self._outside(place):
            self.elsewhere.add(place)
            self.refusals[place] = pointer
        elif place.of_environment and (taken := _second_environment(self.found[place])):
            self.refusals[place] = (
                f"{taken} is taken for a profile, which stops every deployment of the environment; write what it says "
                f"into {ENVIRONMENT}, and delete it"
            )
        elif self.found[place].unfollowed:
            self.refusals[place] = (
                f"it leads to more than {MOST_NAMED} other files, or to files too large to look for names in "
                f"({MOST_YAML_BYTES // 2**20} MiB of all profiles): a review does not follow that; name fewer"
            )

    def put_off(self, place: Place, refusal: str) -> None:
        """The time was over before this one: nothing is told of it."""
        self.late.add(place)
        self.checked.pop(place, None)
        self.refusals[place] = refusal

    def _refuse_foreign(self) -> None:
        """Profiles that name a file beside `deploy_profiles` which the trusted side has not just so."""
        for place in self.places:
            for path in self.found[place].made_of:
                if not path.startswith(f"{PROFILES}/") and self.codebase.ids.get(path) != self.tree.ids.get(path):
                    self.refusals[place] = (
                        f"it names {path}, which this change brings from outside {PROFILES}: nothing of that is read "
                        f"with --trust base; move it below {PROFILES}"
                    )

    def is_bare(self, place: Place) -> bool:
        """True for an environment that has no profile here: nothing of it is deployed."""
        return place.of_environment and not self.existing.get(place.environment_name)

    def is_refused(self, place: Place) -> bool:
        """True where the checks stop this profile, or its environment, before anything is synthesized."""
        return place in self.refusals or not (
            self.checked[place].ok and self.checked[environment_place(place.environment_name)].ok
        )

    def lay_out_code(self) -> None:
        """Code beside the profiles: nothing else of the project is there for it to find, such as what git ignores."""
        if not self.codebase.has_own_code:
            return
        own = self.codebase is self.tree
        laid = {path for place in self.places for path in self.found[place].made_of} if own else set()
        self.codebase.lay_out([path for path in self.codebase.code if path not in laid], self.root)

    def settings(self) -> dict[str, object]:
        """What the CDK CLI would pass on: cdk.context.json, the context of cdk.json, and `-c`. Read once."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    def _read_settings(self) -> dict[str, object]:
        named = ("cdk.context.json", "cdk.json")
        if self.codebase.has_own_code:
            texts = dict(self.codebase.source.each(name for name in named if name in self.codebase.ids))
        else:
            own = team_files() / "cdk.json"
            texts = {"cdk.json": own.read_bytes()} if own.is_file() else {}
        merged: dict[str, object] = {}
        for name in named:
            merged |= self._context_of(name, texts.get(name, b"{}"))
        return {**merged, **self.context}

    def key(self, place: Place) -> str:
        """The hash of everything that the templates of a place are made of."""
        meets = sorted(
            (other.environment_name, other.name, self.found[other].digest)
            for other in self.found
            if not other.of_environment and other != place and _stack(other) == _stack(place)
        )
        rows = [
            ("loadproof review", _CACHED_FORM, _cdk_version()),
            ("code", self.codebase.code_id if self.codebase.has_own_code else _installed_code_id()),
            # Git's filters (line ends, LFS) may make other bytes of the same id on the disk.
            ("from", "git" if self.tree.source.folder is None else "disk"),
            ("context", json.dumps(self.settings(), sort_keys=True)),
            ("place", place.environment_name, place.name, self.found[place].digest),
        ]
        return digest_of([*rows, *meets])

    def side(self, place: Place, traces: Traces) -> Side:
        """What the review is given: problems where the checks found some, else why there is no template."""
        file = readable_name(self.tree.folder + self.found[place].file)
        if place not in self.checked:
            return Side(file, None, None, {}, refusal=self.refusals[place])
        checked, environment = self.checked[place], self.checked[environment_place(place.environment_name)]
        elsewhere = place in self.elsewhere  # what lies here instead is no profile, and not worth a word
        refusal = self.refusals.get(place, "")
        if not (refusal or environment.ok or self.templates.get(place)):
            beside = readable_name(f"{self.tree.folder}{PROFILES}/{place.environment_name}/{ENVIRONMENT}")
            refusal = f"{beside} is refused by the checks; mend that first"
        traffic, arrivals = self._traffic(place, traces)
        return Side(
            file=file,
            environment=environment.environment,
            profile=None if place.of_environment else checked.profile,
            templates=self.templates.get(place, {}),
            problems=() if elsewhere else tuple(self._told(place, checked)),
            refusal=refusal if checked.ok or elsewhere or place in self.late else "",
            places=self._places(checked),
            data=self.data(place),
            converted=self.converted(place),
            traffic=traffic,
            arrivals=arrivals,
        )

    def _traffic(self, place: Place, traces: Traces) -> tuple[dict[str, Traffic], str]:
        """What the traces of a profile say, by file, of those that lie in the project and were laid out; and which of
        them the workload's arrivals name."""
        profile = self.checked[place].profile
        if profile is None or place in self.refusals:
            return {}, ""
        found, arrivals, outside = dict[str, Traffic](), "", self._leading_out(place)
        for field_name, _, path in self._beside(place):
            file, name = self.root / path, readable_name(self.tree.folder + path)
            if not field_name.endswith("trace") or field_name in outside or not file.exists():
                continue
            found[name] = traces.traffic_of(profile, self.tree.ids.get(path, str(file)), file, name)
            if field_name.startswith("workload."):
                arrivals = name
        return found, arrivals

    def converted(self, place: Place) -> dict[str, str]:
        """What a checkout writes otherwise than it was read, and how: a place's own, and code with environments."""
        shared = f"{PROFILES}/{place.environment_name}/{ENVIRONMENT}"
        found = self.found[place]
        named = self.tree.converted if found.anywhere else found.made_of
        files = [path for path in named if place.of_environment or path != shared]
        if place.of_environment:
            files += self.tree.code
        how = self.tree.converted
        return {readable_name(self.tree.folder + path): how[path] for path in files if path in how} if how else {}

    def data(self, place: Place) -> dict[str, str]:
        """Ids of what is read beside a profile, and of whose signatures count in an environment, by file; of a folder,
        such as a trace's, one of all in it."""
        made_of = self.found[place].made_of
        wanted = [SIGNERS] if place.of_environment else [file for _, _, file in self._beside(place)]
        by_way = {part for one in wanted for part in folders_of(one) if part in self.tree.ids}  # a link, a submodule
        found = {path: self.tree.ids[path] for path in {*made_of, *by_way} if path in by_way or path in wanted}
        for one in wanted:
            if within := [(path, self.tree.ids[path]) for path in made_of if path.startswith(f"{one}/")]:
                found[one] = digest_of(within)
        return {readable_name(self.tree.folder + path): content for path, content in found.items()}

    def _context_of(self, name: str, text: bytes) -> dict[str, object]:
        try:
            document = json.loads(text)
            context = document if name == "cdk.context.json" else document.get("context", {})
            return dict(context)
        except (ValueError, TypeError, AttributeError):
            raise InputError(
                f"{self.codebase.label}: {name} is no JSON object as the CDK CLI reads it; mend it"
            ) from None

    def _kept_elsewhere(self, place: Place) -> str | None:
        """Why a file that the place is made of has no content here."""
        if self.tree.source.folder is not None:
            return None
        for path in self.found[place].made_of:
            file = self.root / path
            if not file.is_file():
                continue
            with file.open("rb") as opened:
                start = opened.read(len(_LFS))
            if start == _LFS:
                return f"{path} is kept in Git LFS, so git has no content of it; name a folder instead"
            if start == OVERSIZED:
                most = f"{MOST_BLOB_BYTES // 2**20} MiB"
                return f"{path} is larger than {most}, the most that a review reads of a file; shorten it"
        return None

    def _outside(self, place: Place) -> str | None:
        """Why a stranger's profile is not read: it names data that would be this machine's."""
        if self.codebase is self.tree:
            return None
        for field_name, name in self._leading_out(place).items():
            return f"{field_name} names {name}, outside of the project: nothing of that is read; move it here"
        return None

    def _leading_out(self, place: Place) -> dict[str, str]:
        """Data that would be this machine's, by the field that names it; a link on the way may lead there."""
        folder = self.root / posixpath.dirname(self.found[place].file)
        named = {field_name: name for field_name, name, _ in self._beside(place)}
        return {
            field_name: name
            for field_name, name in named.items()
            if not Path(os.path.realpath(folder / name)).is_relative_to(self.root)
        }

    def _beside(self, place: Place) -> Iterator[tuple[str, str, str]]:
        """Data that a profile names: in which field, how, and which file that is from the top."""
        profile = self.checked[place].profile if place in self.checked else None
        folder = posixpath.dirname(self.found[place].file)
        for path, name in named_files(profile) if profile is not None else ():
            yield shown_path(path), name, posixpath.normpath(posixpath.join(folder, name))

    def _told(self, place: Place, checked: Checked) -> Iterator[Problem]:
        """Whether a file outside of the project is there is this machine's own business."""
        outside = self._leading_out(place)
        for problem in checked.problems:
            if not (problem.code == "LP289" and problem.path in outside):
                yield self._relative(problem)

    def _relative(self, problem: Problem) -> Problem:
        """Named as in the repository, wherever it was read."""
        file, message, mend = (self._said(text) for text in (problem.file, problem.message, problem.mend))
        return replace(problem, file=file, message=message, mend=mend)

    def _said(self, text: str) -> str:
        return readable_name(text.replace(f"{self.root}/", self.tree.folder))

    def _places(self, checked: Checked) -> dict[str, tuple[str, int]]:
        places: dict[str, tuple[str, int]] = {}

        def note(node: Node, path: tuple[str | int, ...]) -> None:
            if isinstance(node, Map):
                for key, entry in node.entries.items():
                    mark = entry.key_mark
                    places[shown_path((*path, key))] = (self._said(mark.file), mark.line)
                    note(entry.node, (*path, key))
            elif isinstance(node, Items):
                for at, item in enumerate(node.nodes):
                    places[shown_path((*path, at))] = (self._said(item.mark.file), item.mark.line)
                    note(item, (*path, at))

        try:
            tree = read_with_parents(checked.file, Problems())
        except (OSError, RuntimeError):
            return {}
        if tree is not None:
            note(tree, ())
        return places


def _second_environment(found: FoundPlace) -> str | None:
    return next((path for path in found.made_of if path.endswith(f"/{SECOND_ENVIRONMENT}")), None)


def environment_place(name: str) -> Place:
    return Place(name, OF_ENVIRONMENT)


def _stack(place: Place) -> str:
    return stack_name(place.environment_name, place.name)


@cache
def _cdk_version() -> str:
    """Raises CouldNotRunError without the extra that brings it."""
    try:
        return version("aws-cdk-lib")
    except PackageNotFoundError:
        raise CouldNotRunError(
            "a review synthesizes both sides, which needs an extra; install it: pip install 'loadproof[cdk]'"
        ) from None


@cache
def _installed_code_id() -> str:
    """Of the packages that synthesize where a side has no code of its own."""
    folders = (Path(__file__).parents[1], team_files() / "stacks")
    files = sorted(
        (folder.name, file.relative_to(folder).as_posix(), file)
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )
    return digest_of((folder, name, hashlib.sha256(file.read_bytes()).hexdigest()) for folder, name, file in files)
