"""A learned workload as an edit of the profile's own file: comments and order stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from loadproof.bench.learn.fitting import Learned, Lengths, ended_within
from loadproof.cli.plan.write import Edit
from loadproof.errors import InputError
from loadproof.profiles import Profile, check_file, load_profile, yaml_edit
from loadproof.profiles.schema import Arrivals, TokenDistribution, Workload
from loadproof.profiles.yaml_edit import Path as Keys
from loadproof.profiles.yaml_edit import Value
from loadproof.token_counts import TOKEN_SIDES
from loadproof.vocabulary import Part


class RefusedError(InputError):
    """`loadproof check` would refuse the learned workload."""


def learned_edit(file: Path, learned: Learned) -> tuple[Edit, Profile]:
    """The edit, and the profile that it makes. Raises RefusedError where `loadproof check` would refuse it."""
    before = file.read_bytes().decode("utf-8")
    load_profile(file)  # one that is refused as it stands is told of that first
    inherited = check_file(file, yaml_edit.remove_key(before, ("workload",)).encode("utf-8")).profile
    held_back = _held_back(inherited, learned)
    learned = replace(learned, paired=learned.paired and not held_back)
    for side in held_back:
        learned = replace(learned, **{side: replace(getattr(learned, side), distribution="lognormal", values=())})
    tried = []
    for one, within in _ends_of(learned):
        text = _written(before, inherited, _values(one, within=within))
        checked = check_file(file, text.encode("utf-8"))
        if checked.profile is not None:
            return Edit(file, before, text), checked.profile
        tried.append(checked)
    problems = "\n".join(map(str, tried[0].errors))
    raise RefusedError(
        f"{file}: left as it is, because `loadproof check` would refuse the learned workload (without a profile "
        f"the fit alone is shown):\n{problems}"
    )


def _ends_of(learned: Learned) -> Iterator[tuple[Learned, bool]]:
    """What is learned, and whether its requests are held to a length: the last ones are for servers that take no more.

    Drawn each by itself, long prompts and long answers meet that never met: nothing that was recorded was longer than
    the longest request, and no prompt longer than the longest one.
    """
    if not learned.ended_by_length:
        yield learned, False
    yield learned, True
    yield ended_within(learned, learned.longest_prompt_tokens + learned.output_tokens.min), True


def _written(text: str, inherited: Profile | None, values: dict[Keys, Value]) -> str:
    """The file's text with these; what goes from it goes from what its parent says, too."""
    for keys, value in values.items():
        if value is not None:
            text = yaml_edit.set_value(text, keys, value)
            continue
        text = yaml_edit.remove_key(text, keys)
        if inherited is not None and _is_set(inherited, keys):
            text = yaml_edit.set_value(text, keys, _unset(keys))
    return text


def _unset(keys: Keys) -> Value:
    """What a child writes to take back what its parent says: the default, where null is no value of the key."""
    _, *parts, name = keys
    part: type[Part] = TokenDistribution
    if parts in ([], ["arrivals"]):
        part = Arrivals if parts else Workload
    default: Value = part.model_fields[name].default
    return default


def notes_of(file: Path, learned: Learned) -> list[str]:
    """What the file could not be made to say, and what it says no more."""
    body = file.read_bytes().decode("utf-8")
    inherited = check_file(file, yaml_edit.remove_key(body, ("workload",)).encode("utf-8")).profile
    notes = [
        f"{side}: a lognormal, though the recorded counts are {getattr(learned, side).distance:.1%} off one: the "
        "parent names a distribution's mean and bounds, which a sample cannot take back; learn for the parent instead"
        for side in _held_back(inherited, learned)
    ]
    before = load_profile(file).workload
    if named := [name for name in ("classes", "steps") if getattr(before, name)]:
        notes.append(
            f"workload.{' and '.join(named)}: not learned and gone from the change, which has one kind of session"
        )
    if (before.arrivals.hours or before.arrivals.days) and not learned.shaped:
        notes.append("the shape of a day or week is gone from the change: these times do not tell the hour")
    return notes


def _held_back(inherited: Profile | None, learned: Learned) -> list[str]:
    """Lengths that are to be a sample where a parent says what a sample has no use for."""
    return [
        side
        for side in TOKEN_SIDES
        if (found := getattr(learned, side)) is not None
        and found.distribution == "empirical"
        and inherited is not None
        and _is_set(inherited, ("workload", side, "mean"))
    ]


def _values(learned: Learned, *, within: bool) -> dict[Keys, Value]:
    """What each key of the workload becomes; None: it goes. What is new comes first: an emptied map would go too.

    `within`: no request is to be longer than the longest recorded one.
    """
    bursts = learned.burstiness is not None
    arrivals: dict[str, Value] = {
        "process": "gamma" if bursts else "poisson",
        "requests_per_s": learned.requests_per_s,
        "burstiness": learned.burstiness,
        "from_requests_per_s": None,
        "trace": None,
    }
    values: dict[Keys, Value] = {}
    for side in TOKEN_SIDES:
        one: Lengths | None = getattr(learned, side)
        if one is None:
            values["workload", side] = None
        elif one.distribution == "fixed":
            values["workload", side] = one.min
        else:
            values |= {("workload", side, name): value for name, value in _lengths(one)}
    values |= {("workload", "arrivals", name): value for name, value in arrivals.items()}
    values["workload", "paired_lengths"] = True if learned.paired else None
    turns = learned.turns > 1
    values["workload", "turns"] = learned.turns if turns else None
    values["workload", "max_context_tokens"] = learned.max_context_tokens if within else None
    values["workload", "turn_correlation"] = learned.turn_correlation or None
    values["workload", "continues"] = learned.continues if turns and learned.continues < 1 else None
    if not turns or learned.think_time_s is not None:
        values["workload", "think_time_s"] = learned.think_time_s
        values["workload", "think_time_stddev_s"] = learned.think_time_stddev_s or None
    values |= {("workload", name): None for name in ("classes", "steps")}
    if not learned.shaped:
        values |= {("workload", "arrivals", name): None for name in ("hours", "days")}
    values["workload", "shared_prefix_tokens"] = learned.shared_prefix_tokens or None
    return {**values, ("workload", "name"): None}


def _lengths(lengths: Lengths) -> Iterator[tuple[str, Value]]:
    sampled = lengths.distribution == "empirical"
    yield "distribution", lengths.distribution
    yield "values", lengths.values if sampled else None
    shape: dict[str, Value] = {"mean": lengths.mean, "stddev": lengths.stddev, "min": lengths.min, "max": lengths.max}
    yield from ((name, None if sampled else value) for name, value in shape.items())


def _is_set(profile: Profile, keys: Keys) -> bool:
    """Whether a key has been said, not merely by default."""
    part: object = profile
    for name in keys:
        if name not in getattr(part, "model_fields_set", ()):
            return False
        part = getattr(part, name)
    return part is not None and part != ()
