"""From two trees to pairs: find what is affected, check it, and synthesize what the cache does not hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from loadproof.errors import CouldNotRunError, InputError
from loadproof.review.model import Pair
from loadproof.sides.affected import Place, Reader, affected
from loadproof.sides.cache import Cache
from loadproof.sides.programs import App, Programs
from loadproof.sides.side import UnfinishedSide, environment_place
from loadproof.sides.synthesis import Synthesized, Synthesizer, is_plain_name, jobs_of, split
from loadproof.sides.tree import Tree, readable_name
from loadproof.walls.prison import prison_kind

Trust = Literal["base", "head", "unwalled"]  # whose code may run; "unwalled": HEAD's, as the user it runs as
NO_WALLS: Final = (
    "HEAD changes code, and this machine has no walls to run a change's code in (Linux with user namespaces, or "
    "bubblewrap; for root Linux 6.14): it does not run, as with --trust base; --trust unwalled runs it as you"
)
BASE, HEAD = "base", "head"  # folders of the work in which the sides are laid out
_MOST_NAMED: Final = 10_000  # files of changed code; more is not read by anybody
AT_ONCE: Final = max(2, min(4, os.cpu_count() or 1))  # processes; each is Python and Node by turns


@dataclass(frozen=True, slots=True)
class Choice:
    """What `-c` says: names of environments and profiles (None for all), and what else goes to synthesis."""

    environments: tuple[str, ...] | None = None
    profiles: tuple[str, ...] | None = None
    context: Mapping[str, str] = field(default_factory=dict)


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
) -> Sides:
    """With `trust` base, no line of HEAD runs: its profiles are data for BASE's code. Nor does any with `trust` head
    where HEAD changes code and this machine has no walls to put around it.

    Raises InputError for a choice of what neither side has, CouldNotRunError where nothing can be synthesized.

    `work` is an empty folder of this review; `say` is told how far it is.
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
    places = [place for place in affected(before, after, same_code=same_code) if _is_chosen(place, choice)]
    halves = tuple(
        UnfinishedSide(tree, code, found, tuple(p for p in places if p in found), work / name, choice.context)
        for name, tree, code, found in ((BASE, base, base, before), (HEAD, head, codebase, after))
    )
    for half in halves:
        half.root.mkdir(exist_ok=True)
        half.check()
    programs = Programs(walled=walled)
    wanted = [_fill_from(cache, half, try_refused=not same_code) for half in halves]
    count = sum(len(names) for by_environment in wanted for names in by_environment.values())
    from_cache = sum(not place.of_environment for half in halves for place in half.templates)
    profiles = sum(not place.of_environment for place in places)
    total = sum(not place.of_environment and _is_chosen(place, choice) for place in {*before, *after})
    if profiles:
        kept = f", {from_cache} from the cache" if from_cache else ""
        say(f"{profiles} of {total} profiles affected; {count} to synthesize{kept}")
    if count:
        _synthesize(halves, wanted, Synthesizer(programs), cache)
    pairs = tuple(_pairs(places, *halves))
    shown = sum(not pair.environment_level for pair in pairs)
    not_run = () if codebase is head else _changed_code(base, head)
    return Sides(tuple(pair.pair for pair in pairs), total - shown, count, from_cache, programs.started, not_run)


def _changed_code(base: Tree, head: Tree) -> tuple[str, ...]:
    if not (base.has_own_code or head.has_own_code):
        return ()
    paths = sorted({*base.code, *head.code})
    changed = [readable_name(path) for path in paths if base.ids.get(path) != head.ids.get(path)]
    return tuple(changed[:_MOST_NAMED])


def _is_chosen(place: Place, choice: Choice) -> bool:
    return (choice.environments is None or place.environment_name in choice.environments) and (
        choice.profiles is None or place.of_environment or place.name in choice.profiles
    )


def _refuse_unknown(choice: Choice, places: set[Place]) -> None:
    """Whoever names a profile that is nowhere must not read that nothing changed."""
    environments = {place.environment_name for place in places}
    names = {place.name for place in places if not place.of_environment}
    for option, asked, known in (("env", choice.environments, environments), ("profile", choice.profiles, names)):
        unknown = [name for name in asked or () if name not in known]
        if unknown:
            raise InputError(
                f"-c {option}={','.join(asked or ())}: neither side has {', '.join(unknown)}; leave it out"
            )


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
    synthesizer: Synthesizer,
    cache: Cache,
) -> None:
    """Both sides at once."""
    for half, names in zip(halves, wanted, strict=True):
        if names:
            half.lay_out_code()
    sides = sum(bool(names) for names in wanted)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running: list[tuple[UnfinishedSide, Future[Synthesized]]] = []
        try:
            for half, names in zip(halves, wanted, strict=True):
                app = App(half.root, half.codebase.has_own_code, half.settings())
                jobs = split(jobs_of(names, half.existing), AT_ONCE // sides)
                running += [(half, pool.submit(synthesizer.synthesize, app, job)) for job in jobs]
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


@dataclass(frozen=True, slots=True)
class _Paired:
    pair: Pair
    environment_level: bool


def _pairs(places: Sequence[Place], base: UnfinishedSide, head: UnfinishedSide) -> Iterator[_Paired]:
    for place in places:
        if _is_same(place, base, head) or _is_nothing(place, base, head):
            continue
        before, after = (half.side(place) if place in half.found else None for half in (base, head))
        yield _Paired(
            Pair(readable_name(place.environment_name), readable_name(place.name), before, after), place.of_environment
        )


def _is_same(place: Place, base: UnfinishedSide, head: UnfinishedSide) -> bool:
    """Other code, and nothing came of it."""
    if place not in base.found or place not in head.found or base.found[place].digest != head.found[place].digest:
        return False
    outcomes: list[tuple[object, object]] = [
        (half.templates.get(place), half.refusals.get(place)) for half in (base, head)
    ]
    return outcomes[0] == outcomes[1]


def _is_nothing(place: Place, base: UnfinishedSide, head: UnfinishedSide) -> bool:
    """An environment without stacks of its own, whose file is well: its profiles say all there is to say."""
    halves = [half for half in (base, head) if place in half.found]
    return place.of_environment and all(not half.templates.get(place) and half.checked[place].ok for half in halves)
