"""From files to profiles: read, merge, build, check; every problem at once, with its place."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from loadproof.errors import InputError, Problem, ProfileError
from loadproof.profiles.building import WRONG, build_part
from loadproof.profiles.calibrating import is_calibration, read_calibration, with_calibration
from loadproof.profiles.checks import check_rules
from loadproof.profiles.config_json import with_config_json
from loadproof.profiles.inheritance import SUFFIXES, read_bytes, read_part, read_with_parents
from loadproof.profiles.names import BENCHMARK, NETWORK, stack_name
from loadproof.profiles.reader import read_yaml
from loadproof.profiles.schema import Calibration, Environment, Profile, Workload
from loadproof.profiles.secrets import shown_path
from loadproof.profiles.tree import Mark, Node, Problems, place_of, scalars

ENVIRONMENT_FILE: Final = "environment.yaml"
_NEARLY: Final = "environment.yml"  # an easy slip, and never a profile
P = TypeVar("P", Profile, Environment)
A = TypeVar("A", Calibration, Workload)


@dataclass(frozen=True, slots=True)
class StackMaker:
    """What a stack is made for: the profile in `file`, or a key of that environment.yaml (`benchmark`, `network`)."""

    file: Path
    key: str = ""

    @property
    def stack_name(self) -> str:
        return stack_name(self.file.parent.name, self.key or self.file.stem)

    def made_in(self, environment: Environment) -> bool:
        """False for a key that this environment, its own, does not have."""
        network = environment.network
        has = {BENCHMARK: environment.benchmark is not None, NETWORK: network is not None and network.vpc_endpoints}
        return has.get(self.key, True)

    def __str__(self) -> str:
        return f"{self.file.parent.name}/{self.file.name}" + (f" (`{self.key}`)" if self.key else "")


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome for one file. `profile` (or `environment`) is set exactly when there is no error."""

    file: Path
    problems: tuple[Problem, ...]
    suppressed: int  # problems past the limit: counted, not listed
    profile: Profile | None = None
    environment: Environment | None = None

    @property
    def ok(self) -> bool:
        """True without errors; warnings are allowed."""
        return self.profile is not None or self.environment is not None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What stands in the way of its profile or environment: problems that are no warnings."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    def refused_for(self, problems: Iterable[Problem]) -> Checked:
        """With errors that rules over the profile alone do not know of; itself without any."""
        further = tuple(problems)
        if not further:
            return self
        return replace(self, problems=tuple(sorted((*self.problems, *further))), profile=None)

    @property
    def is_environment(self) -> bool:
        """True when the file was read as an environment."""
        return self.file.name == ENVIRONMENT_FILE


def check_file(path: Path, content: bytes | None = None) -> Checked:
    """Check one profile, or one environment.yaml. Never raises: a file that cannot be read is a problem too.

    With `content` a profile is checked as if it were what `path` holds: what an edit would lead to.
    """
    problems = Problems()
    try:
        if path.name == _NEARLY:
            problems.add(
                Mark(str(path), 1, 1),
                "LP013",
                (),
                f"an environment stands in {_NEARLY}",
                f"rename it to {ENVIRONMENT_FILE}",
            )
            tree = None
        elif path.name == ENVIRONMENT_FILE:
            tree = read_yaml(read_bytes(path), str(path), problems)
        else:
            read = with_config_json(read_with_parents(path, problems, content), path, problems)
            tree = with_calibration(read, path, problems)
    except (OSError, RuntimeError) as error:  # links that lead in a circle: RuntimeError before Python 3.13
        why = "its link leads nowhere"
        if isinstance(error, OSError) and error.errno != errno.ELOOP:
            why = error.strerror or why
        problems.add(
            Mark(str(path), 1, 1), "LP012", (), f"file cannot be read ({why})", "look at its name and permissions"
        )
        tree = None
    if path.name == ENVIRONMENT_FILE:
        environment = _built(Environment, path, tree, problems, None)
        return Checked(path, tuple(sorted(problems.found)), problems.suppressed, environment=environment)
    profile = _built(Profile, path, tree, problems, environment_beside(path))
    return Checked(path, tuple(sorted(problems.found)), problems.suppressed, profile=profile)


def load_profile(path: Path) -> Profile:
    """The profile in one file. Raises ProfileError with every problem."""
    checked = check_file(path)
    if checked.profile is None and checked.environment is not None:
        raise InputError(f"{path}: this is an environment, not a profile; name a profile beside it")
    if checked.profile is None:
        raise ProfileError(checked.errors)
    return checked.profile


def load_calibration(path: Path) -> Calibration:
    """The calibration in one file. Raises ProfileError with every problem, InputError for a file it cannot read."""
    return _part_in(path, Calibration, read_calibration)


def load_workload(path: Path) -> Workload:
    """The workload in one file of its keys. Raises ProfileError with every problem, InputError as above."""
    return _part_in(path, Workload, read_part)


def _part_in(path: Path, model: type[A], read: Callable[[Path, Problems], Node | None]) -> A:
    problems = Problems()
    try:
        tree = read(path, problems)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; look at its name and permissions") from None
    part = WRONG if tree is None else build_part(model, tree, problems)
    if problems.errors or part is WRONG:
        raise ProfileError(problems.found)
    return part


def load_environment(folder: Path) -> Environment:
    """The environment of one folder. Raises ProfileError with every problem."""
    checked = check_file(folder / ENVIRONMENT_FILE)
    if checked.environment is None:
        raise ProfileError(checked.errors)
    return checked.environment


def place_in(file: Path, path: tuple[str | int, ...]) -> Mark:
    """Where a field of a good profile stands, in its file or a parent's."""
    tree = read_with_parents(file, Problems())
    return Mark(str(file), 1, 1) if tree is None else place_of(tree, path)


def places_in(file: Path) -> dict[str, Mark]:
    """Where every value of a profile stands, in its file or a parent's, by the path that a check would name."""
    tree = read_with_parents(file, Problems())
    return {} if tree is None else {shown_path(path): place_of(tree, path) for path, _ in scalars(tree)}


def profile_files(root: Path, environment: str) -> list[Path]:
    """The profiles of one environment, sorted by name. Raises InputError when there is no such folder."""
    folder = root / environment
    if not folder.is_dir():
        known = sorted(child.parent.name for child in root.glob(f"*/{ENVIRONMENT_FILE}"))
        raise InputError(f"no environment `{environment}` in {root}; known: {', '.join(known) or 'none'}")
    return sorted(filter(_is_profile, folder.iterdir()))


def _is_profile(file: Path) -> bool:
    return file.suffix in SUFFIXES and file.name != ENVIRONMENT_FILE and not is_calibration(file) and file.is_file()


def makers_of_one_stack(maker: StackMaker, environment: Environment) -> Iterator[StackMaker]:
    """What else, in any environment beside its own, makes a stack of this name in this account and region."""
    root = maker.file.parent.parent
    for folder in sorted(file.parent for file in root.glob(f"*/{ENVIRONMENT_FILE}")):
        stem = maker.stack_name.removeprefix(stack_name(folder.name, ""))
        if stem == maker.stack_name:
            continue
        files = [file for suffix in sorted(SUFFIXES) if _is_profile(file := folder / f"{stem}{suffix}")]
        own = [StackMaker(folder / ENVIRONMENT_FILE, stem)] if stem in (BENCHMARK, NETWORK) else []
        others = [other for other in (*map(StackMaker, files), *own) if other != maker]
        there = check_file(folder / ENVIRONMENT_FILE).environment if others else None
        if there is not None and (there.account, there.region) == (environment.account, environment.region):
            yield from (other for other in others if other.made_in(there))


def profile_hash(profile: Profile) -> str:
    """SHA-256 (hexadecimal) over the profile as canonical JSON, defaults included: what evidence is tied to.

    Without `acknowledged` and `benchmark.evidence_from`: who accepted what, and whose word counts, says nothing about
    what runs, so evidence stays valid.
    """
    return document_hash(profile_document(profile))


def document_hash(document: Mapping[str, object]) -> str:
    """SHA-256 over a profile as plain values, as `profile_document` gives them or JSON brings them back."""
    written = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(written.encode()).hexdigest()


def profile_document(profile: Profile) -> dict[str, Any]:
    """What `profile_hash` is over: the profile as plain values, defaults included, without what changes no run."""
    return profile.model_dump(mode="json", exclude={"acknowledged": True, "benchmark": {"evidence_from"}})


def _built(
    model: type[P], file: Path, tree: Node | None, problems: Problems, environment: Environment | None
) -> P | None:
    if tree is None:
        return None
    part = build_part(model, tree, problems)
    if part is WRONG:
        return None
    check_rules(part, tree, problems, environment)
    if isinstance(part, Profile) and (file.parent / ENVIRONMENT_FILE).is_file():
        _file_named_after(part, file, tree, problems)
        _stack_is_its_own(file, tree, problems, environment)
    if isinstance(part, Profile) and not problems.errors:
        _files_are_there(part, file, tree, problems)
    return None if problems.errors else part


def _file_named_after(part: Profile, file: Path, tree: Node, problems: Problems) -> None:
    """LP013: `-c profile=NAME` chooses by file, everything deployed is named by the profile."""
    name = part.__dict__.get("name")
    if name is not None and name != file.stem:
        found = f"profile `{name}` stands in {file.name}"
        problems.add(
            place_of(tree, ("name",)), "LP013", ("name",), found, f"rename the file to {name}.yaml, or the profile"
        )


def _stack_is_its_own(file: Path, tree: Node, problems: Problems, environment: Environment | None) -> None:
    """LP392. What the profile's own environment makes beside it is LP268 and LP282."""
    if environment is None:
        return
    maker = StackMaker(file.absolute())
    for other in makers_of_one_stack(maker, environment):
        if not other.key or other.file.parent != maker.file.parent:
            mend = "rename the profile" if other.key else "rename one of them"
            problems.add(place_of(tree, ("name",)), "LP392", ("name",), one_stack(maker, other, environment), mend)


def one_stack(maker: StackMaker, other: StackMaker, place: Environment) -> str:
    """What is wrong about the two, without the mend."""
    where = f"account {place.account} and {place.region}"
    return f"{maker} and {other} are one stack, {maker.stack_name}, in {where}"


def _files_are_there(part: Profile, file: Path, tree: Node, problems: Problems) -> None:
    """LP289: what the benchmark reads beside the profile. A warning: a large file may be kept elsewhere on purpose."""
    for path, name in named_files(part):
        there = os.path.exists if path[-1] == "trace" else os.path.isfile  # neither raises; a trace may be a folder
        if not there(file.parent / name):
            found = f"`{name}` is no file beside {file.name}"
            mark = place_of(tree, path)
            problems.add(mark, "LP289", path, found, "write the path of one, relative to the profile", "warning")


def named_files(profile: Profile) -> list[tuple[tuple[str | int, ...], str]]:
    """Files that a benchmark of this profile reads, by the field that names each; relative to the profile's."""
    workload, phases = profile.workload, profile.benchmark.phases
    named: list[tuple[tuple[str | int, ...], str | None]] = [
        (("workload", "dataset"), workload.dataset),
        (("workload", "tokenizer"), workload.tokenizer),
        (("workload", "arrivals", "trace"), workload.arrivals.trace),
        *((("benchmark", "phases", at, "trace"), phase.trace) for at, phase in enumerate(phases)),
    ]
    return [(path, name) for path, name in named if name is not None]


def environment_beside(path: Path) -> Environment | None:
    """The environment of a profile's folder, where there is a good one: its region has not every image."""
    beside = path.parent / ENVIRONMENT_FILE
    return check_file(beside).environment if os.path.isfile(beside) else None  # noqa: PTH113 (never raises)
