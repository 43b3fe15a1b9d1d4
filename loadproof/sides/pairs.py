"""From two trees to pairs: find what is affected, check it, and synthesize what the cache does not hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

from loadproof.errors import CouldNotRunError, InputError
from loadproof.profiles import profile_hash
from loadproof.review.model import Pair
from loadproof.sides.affected import Place, Reader, affected
from loadproof.sides.cache import Cache
from loadproof.sides.deadline import CHECKED, NONE, REVIEWED, Deadline
from loadproof.sides.names import readable_name
from loadproof.sides.programs import App, Programs
from loadproof.sides.side import UnfinishedSide, environment_place
from loadproof.sides.synthesis import (
    MOST_AT_A_TIME,
    SynthesisJob,
    Synthesized,
    Synthesizer,
    is_plain_name,
    jobs_of,
    split,
)
from loadproof.sides.traffic import Traces
from loadproof.sides.tree import Tree
from loadproof.walls.prison import prison_kind

Trust = Literal["base", "head", "unwalled"]  # whose code may run; "unwalled": HEAD's, as the user it runs as
NO_WALLS: Final = (
    "HEAD changes code, and this machine has no walls to run a change's code in (Linux with user namespaces, or "
    "bubblewrap; for root Linux 6.14): it does not run, as with --trust base; --trust unwalled runs it as you"
)
BASE, HEAD = "base", "head"  # folders of the work in which the sides are laid out
_MOST_NAMED: Final = 10_000  # files of changed code; more is not read by anybody
MOST_PLACES: Final = 5_000  # profiles of one review
AT_ONCE: Final = max(2, min(4, os.cpu_count() or 1))  # processes; each is Python and Node by turns


@dataclass(frozen=True, slots=True)
class Choice:
    """What `-c` says: names of environments and profiles (None for all), and what else goes to synthesis.

    `touched`: profiles that are shown where either side has one of these hashes, though nothing of theirs changed.
    """

    environments: tuple[str, ...] | None = None
    profiles: tuple[str, ...] | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    touched: Mapping[Place, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sides:
    """The pairs to review, sorted; how many profiles the change does not touch; where the templates came from.

    `not_run` are files of code that HEAD changes, and that nothing was synthesized by.
    """

    pairs: tuple[Pair, ...]
    unaffected: int
    synthesized: int
    from_cache: int
    processes: int
    not_run: tuple[str, ...] = ()


def find_sides(
    base: Tree,
    head: Tree,
    choice: Choice,
    cache: Cache,
    work: Path,
    say: Callable[[str], None],
    trust: Trust = "head",
    deadline: Deadline = NONE,
) -> Sides:
    """With `trust` base, no line of HEAD runs: its profiles are data for BASE's code. Nor does any with `trust` head
    where HEAD changes code and this machine has no walls to put around it.

    Raises InputError for a choice of what neither side has and for more than MOST_PLACES, CouldNotRunError where
    nothing can be synthesized.

    `work` is an empty folder of this review; `say` is told how far it is. What there is no time for is refused as that.
    """
    walled = trust != "unwalled" and prison_kind() != "none"
    if trust == "head" and not walled and _changed_code(base, head):
        say(NO_WALLS)
        trust = "base"
    if trust == "base":
        base = base.without_compiled()
    codebase = base if trust == "base" else head
    reader = Reader()
    before, after = (reader.places(tree) for tree in (base, head))
    _refuse_unknown(choice, {*before, *after})
    same_code = base.has_own_code == codebase.has_own_code and (
        not codebase.has_own_code or base.code_id == codebase.code_id
    )
    touched = choice.touched.keys() & before.keys() & after.keys()
    places = _looked_at({*affected(before, after, same_code=same_code), *touched}, before, choice)
    halves = tuple(
        UnfinishedSide(tree, code, found, tuple(p for p in places if p in found), work / name, choice.context)
        for name, tree, code, found in ((BASE, base, base, before), (HEAD, head, codebase, after))
    )
    for half in halves:
        half.root.mkdir(exist_ok=True)
        half.lay_out()
    _check(places, halves, deadline)
    programs = Programs(deadline, walled=walled)
    wanted = [_fill_from(cache, half, try_refused=not same_code) for half in halves]
    count = sum(len(names) for by_environment in wanted for names in by_environment.values())
    from_cache = sum(not place.of_environment for half in halves for place in half.templates)
    profiles = sum(not place.of_environment for place in places)
    total = sum(not place.of_environment and _is_chosen(place, choice) for place in {*before, *after})
    if profiles:
        kept = f", {from_cache} from the cache" if from_cache else ""
        say(f"{profiles} of {total} profiles affected; {count} to synthesize{kept}")
    if count:
        _synthesize(halves, wanted, programs, deadline, cache)
    pairs = sorted(_pairs(places, halves, deadline, choice), key=lambda one: (one.pair.environment_name, one.pair.name))
    shown = sum(not pair.environment_level for pair in pairs)
    not_run = () if codebase is head else _changed_code(base, head)
    return Sides(tuple(pair.pair for pair in pairs), total - shown, count, from_cache, programs.started, not_run)


def _changed_code(base: Tree, head: Tree) -> tuple[str, ...]:
    if not (base.has_own_code or head.has_own_code):
        return ()
    paths = sorted({*base.code, *head.code})
    changed = [readable_name(path) for path in paths if base.ids.get(path) != head.ids.get(path)]
    more = [f"and {len(changed) - _MOST_NAMED:,} more"] if len(changed) > _MOST_NAMED else []
    return (*changed[:_MOST_NAMED], *more)


def _is_chosen(place: Place, choice: Choice) -> bool:
    return (choice.environments is None or place.environment_name in choice.environments) and (
        choice.profiles is None or place.of_environment or place.name in choice.profiles
    )


def _refuse_unknown(choice: Choice, places: set[Place]) -> None:
    """Whoever names a profile that is nowhere must not read that nothing changed."""
    environments = {place.environment_name for place in places}
    chosen = environments if choice.environments is None else environments.intersection(choice.environments)
    names = {place.name for place in places if not place.of_environment and place.environment_name in chosen}
    for option, asked, known in (("env", choice.environments, environments), ("profile", choice.profiles, names)):
        unknown = [name for name in asked or () if name not in known]
        if unknown:
            there = "" if choice.environments is None or option == "env" else f" in {', '.join(choice.environments)}"
            raise InputError(
                f"-c {option}={','.join(asked or ())}: neither side has {', '.join(unknown)}{there}; leave it out"
            )


def _looked_at(found: Collection[Place], before: Collection[Place], choice: Choice) -> list[Place]:
    """What is deployed comes first, so that no number of new profiles takes the time for it. Raises InputError."""
    places = [place for place in found if _is_chosen(place, choice)]
    if len(places) > MOST_PLACES:
        raise InputError(
            f"{len(places):,} profiles are affected, and a review takes {MOST_PLACES:,}; choose with -c env=NAME and "
            "-c profile=NAME"
        )
    return sorted(places, key=lambda place: (not place.of_environment, place not in before, place))


def _check(places: Sequence[Place], halves: Sequence[UnfinishedSide], deadline: Deadline) -> None:
    for place in places:
        for half in halves:
            if place in half.found and deadline.is_over(CHECKED):
                half.put_off(place, deadline.refusal)
            elif place in half.found:
                half.check(place)


def _fill_from(cache: Cache, half: UnfinishedSide, *, try_refused: bool) -> dict[str, list[str]]:
    """Take what is cached; what is left to synthesize, by environment.

    A profile that this installation's checks refuse is synthesized only where the sides' code differs: that of one
    side may know what ours does not.
    """
    wanted: dict[str, list[str]] = {}
    good: dict[str, list[str]] = {}
    for place in half.places:
        if place.of_environment or place in half.refusals:
            continue
        if not (is_plain_name(place.environment_name) and is_plain_name(place.name)):
            half.refusals.setdefault(place, "its name is none that can be deployed; use a-z, 0-9 and hyphens")
            continue
        if half.is_refused(place) and not try_refused:
            continue
        good.setdefault(place.environment_name, []).append(place.name)
        found = cache.get(half.key(place))
        if found is None:
            wanted.setdefault(place.environment_name, []).append(place.name)
        else:
            half.templates[place] = found
    for place in half.places:
        if place.of_environment and place.environment_name in good:
            found = cache.get(half.key(place))
            if found is not None:
                half.templates[place] = found
            elif place.environment_name not in wanted:  # any profile brings the environment's stacks along
                wanted[place.environment_name] = good[place.environment_name][:1]
    return wanted


def _synthesize(
    halves: Sequence[UnfinishedSide],
    wanted: Sequence[Mapping[str, Sequence[str]]],
    programs: Programs,
    deadline: Deadline,
    cache: Cache,
) -> None:
    """Both sides at once."""
    synthesizer = Synthesizer(programs, deadline)
    for half, names in zip(halves, wanted, strict=True):
        if names:
            half.lay_out_code()
    sides = sum(bool(names) for names in wanted)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running: list[tuple[UnfinishedSide, Future[Synthesized]]] = []
        try:
            of_sides = []
            for half, names in zip(halves, wanted, strict=True):
                app = App(half.root, half.codebase.has_own_code, half.settings())
                jobs = _jobs(names, half, halves[0].found, AT_ONCE // sides, deadline)
                of_sides.append([(half, app, job) for job in jobs])
            for half, app, job in (one for both in zip_longest(*of_sides) for one in both if one is not None):
                running.append((half, pool.submit(synthesizer.synthesize, app, job)))
            outcomes = [(half, future.result()) for half, future in running]
        finally:
            for _, future in running:
                future.cancel()
            synthesizer.stop()
    for half, outcome in outcomes:
        _keep(half, outcome, cache)
    cache.trim()
    crashed = {id(half): outcome.crash for half, outcome in outcomes if outcome.crash}
    if len(crashed) == len(halves):  # of one side, it is the change; of both, nothing was compared
        raise CouldNotRunError(f"neither side can be synthesized: {crashed[id(halves[1])]}")


def _jobs(
    names: Mapping[str, Sequence[str]],
    half: UnfinishedSide,
    deployed: Collection[Place],
    at_once: int,
    deadline: Deadline,
) -> list[SynthesisJob]:
    """Against a deadline in parts that each say something, what is deployed first."""
    if not deadline.is_one:
        return [*split(jobs_of(names, half.existing), at_once)]
    first, last = (
        {env: [name for name in found if (Place(env, name) in deployed) is is_first] for env, found in names.items()}
        for is_first in (True, False)
    )
    return [job for part in (first, last) for job in split(jobs_of(part, half.existing), at_once, MOST_AT_A_TIME)]


def _keep(half: UnfinishedSide, outcome: Synthesized, cache: Cache) -> None:
    """Templates and refusals go to the side; templates to the cache as well."""
    of_environments = {environment_place(name): templates for name, templates in outcome.shared.items()}
    of_profiles = {Place(*key): templates for key, templates in outcome.profiles.items()}
    for place, templates in {**of_environments, **of_profiles}.items():
        if place in half.places:
            half.templates[place] = templates
            cache.put(half.key(place), templates)
    for key, refusal in outcome.refusals.items():
        half.refusals[Place(*key)] = refusal
    half.late |= {Place(*key) for key in outcome.late}
    for environment_name in {key[0] for key in outcome.late}:  # its own stacks come with its profiles
        own = environment_place(environment_name)
        if own in half.places and own not in half.templates:
            half.late.add(own)
            half.refusals[own] = half.refusals[Place(*outcome.late[0])]


@dataclass(frozen=True, slots=True)
class _Paired:
    pair: Pair
    environment_level: bool


def _pairs(
    places: Sequence[Place], halves: Sequence[UnfinishedSide], deadline: Deadline, choice: Choice
) -> Iterator[_Paired]:
    base, head = halves
    traces = Traces(deadline.bounded)
    for place in places:
        if deadline.is_over(REVIEWED):
            for half in halves:
                half.put_off(place, deadline.refusal)
        is_touched = any(_hash(half, place) in choice.touched.get(place, ()) for half in halves)
        if (_is_same(place, base, head) and not is_touched) or _is_nothing(place, base, head):
            continue
        bare = [half.is_bare(place) for half in halves]  # of both, the environment's file is all there is to tell of
        before, after = (
            half.side(place, traces) if place in half.found and (all(bare) or not half.is_bare(place)) else None
            for half in halves
        )
        yield _Paired(
            Pair(readable_name(place.environment_name), readable_name(place.name), before, after), place.of_environment
        )


def _hash(half: UnfinishedSide, place: Place) -> str | None:
    profile = half.checked[place].profile if place in half.checked else None
    return None if profile is None else profile_hash(profile)


def _is_same(place: Place, base: UnfinishedSide, head: UnfinishedSide) -> bool:
    """Other code, and nothing came of it."""
    if place not in base.found or place not in head.found or base.found[place].digest != head.found[place].digest:
        return False
    if place in base.late or place in head.late:
        return False
    outcomes: list[tuple[object, object]] = [
        (half.templates.get(place), half.refusals.get(place)) for half in (base, head)
    ]
    return outcomes[0] == outcomes[1]


def _is_nothing(place: Place, base: UnfinishedSide, head: UnfinishedSide) -> bool:
    """An environment without stacks of its own, whose file is well: its profiles say all there is to say."""
    halves = [half for half in (base, head) if place in half.found]
    return (
        place.of_environment
        and all(
            place not in half.refusals and not half.templates.get(place) and half.checked[place].ok for half in halves
        )
        and all(half.data(place) == halves[0].data(place) for half in halves)
        and all(half.converted(place) == halves[0].converted(place) for half in halves)
    )
