"""What stored runs are worth for the profiles as they are now: current or stale, and whether a profile is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import orjson

from loadproof.bench.evidence.measured import measured_by
from loadproof.bench.evidence.standing import Standing, proves, said_of, standing_of
from loadproof.bench.evidence.store import Row, StoredRun, measured_run, part_of
from loadproof.bench.from_profile import asked_of, objectives_of, workload_of
from loadproof.bench.objectives import ERROR_RATE
from loadproof.loads import Load, problems_of
from loadproof.profiles import Profile, profile_hash
from loadproof.profiles.signers import Signers
from loadproof.review.evidence import evidence_of
from loadproof.review.wording import other_traffic

_CLOCKS_DIFFER = timedelta(minutes=10)  # between the machine that measured and this one
_MOST_NAMED = 5  # runs that were passed over
State = Literal["current", "stale", "no profile", "unknown"]


@dataclass(frozen=True, slots=True)
class TreeProfile:
    """A profile as it is in the tree; `profile` None where the checks refuse it."""

    file: Path
    environment: str
    name: str
    profile: Profile | None


@dataclass(frozen=True, slots=True)
class EvidenceStatus:
    """A run beside its profile. `no profile`: the run was of none; `unknown`: the tree has none of that name, or one
    that is refused. `since`: the fields that differ."""

    state: State
    since: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a profile's objectives are proven, by which run, and else why not.

    `notes`: what is not known of the run, and newer runs of the profile that were passed over.
    """

    profile: TreeProfile
    run: StoredRun | None
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems


def status_of(run: StoredRun, profiles: Sequence[TreeProfile]) -> EvidenceStatus:
    if not run.profile:
        return EvidenceStatus("no profile")
    one = next((one for one in profiles if _is_of(run, one)), None)
    if one is None or one.profile is None:
        return EvidenceStatus("unknown")
    state = evidence_of(one.profile, one.environment, one.name, [measured_run(run)])
    return EvidenceStatus("current") if state.state == "current" else EvidenceStatus("stale", state.changed_since)


def proof_of(
    profile: TreeProfile,
    runs: Sequence[StoredRun],
    now: datetime,
    most: timedelta | None,
    *,
    local_cloud: bool = False,
    signers: Signers | None = None,
) -> Proof:
    """By the newest run of exactly this profile, whatever older ones said. `runs`: the newest first.

    Runs against a local cloud count only where asked for: nothing was measured at AWS. Runs that are only claimed
    count where nobody is listed who could sign; else they prove nothing, and disprove nothing either.
    """
    if profile.profile is None:
        return Proof(profile, None, ("refused by the checks: loadproof check says why",))
    own = [run for run in runs if _is_of(run, profile) and not run.problem]
    rest = profile, runs, signers
    counted = [run for run in own if local_cloud or run.local_cloud is None]
    if not counted:
        local = f"; {len(own)} against a local cloud (--local-cloud counts them)" if own else ""
        return Proof(profile, None, (f"no run{local}",), _passed_over(None, *rest))
    own_hash = profile_hash(profile.profile)
    of_this = [run for run in counted if run.profile.get("sha256") == own_hash]
    current = next((run for run in of_this if proves(standing_of(run, signers), profile.profile, signers)), None)
    if current is None and of_this:
        alone = profile.profile.benchmark.evidence_from == "gate"
        words = standing_of(of_this[0], signers).words
        return Proof(profile, of_this[0], (f"{words}{'; the profile takes the gate alone' if alone else ''}",))
    if current is None:
        since = status_of(counted[0], [profile]).since
        said = f"stale: changed since the run: {', '.join(since)}"
        said = f"{said}.{other_traffic(since)}" if other_traffic(since) else said
        return Proof(profile, counted[0], (said,), _passed_over(counted[0], *rest))
    problems = [] if current.verdict == "PASS" else [f"the verdict is {current.verdict}"]
    problems += current.misfits
    problems += judged_otherwise(current, profile.profile, profile.file)
    measured = measured_by(current, profile.profile, profile.file)
    problems += measured.differs
    if (age := age_of(current, now)) is not None and age < -_CLOCKS_DIFFER:
        problems.append(f"begun on {current.created_utc}, which is still to come")
    elif age is not None and most is not None and age > most:
        problems.append(f"{in_days(age)} old, at most {in_days(most)} are wanted")
    return Proof(profile, current, tuple(problems), (*measured.unknown, *_passed_over(current, *rest)))


def _passed_over(
    decides: StoredRun | None, profile: TreeProfile, runs: Sequence[StoredRun], signers: Signers | None
) -> tuple[str, ...]:
    """Runs of this profile, newer than the one that decides, that do not count: they are damaged, or not signed.

    Else whoever damages a FAIL, or takes its signature away, would bring the PASS before it back without a word.
    """
    found = []
    for run in runs:
        said = said_of(run)
        began = str(part_of(said, "window").get("began_utc") or run.latest_utc)
        if run is decides or (decides is not None and "" < began < decides.created_utc):
            continue
        filed = dict(zip(("environment", "name"), run.where.split("/")[-3:-1], strict=False)) if run.is_damaged else {}
        if not any(_names(named, profile) for named in (*run.named_profiles, part_of(said, "profile"), filed)):
            continue
        standing = standing_of(run, signers)
        claimed = _is_claimed_of(run, profile, standing) and signers is not None
        if run.is_damaged or standing.broken or claimed:
            why = run.problem or (standing.words if standing.broken or claimed else "; ".join(run.misfits))
            found.append(f"passed over, though no older: {run.where}, {run.verdict} ({why})")
    more = (f"passed over, though no older: {len(found) - _MOST_NAMED} more runs",) if len(found) > _MOST_NAMED else ()
    return (*found[:_MOST_NAMED], *more)


def _is_claimed_of(run: StoredRun, profile: TreeProfile, standing: Standing) -> bool:
    own = profile.profile is not None and run.profile.get("sha256") == profile_hash(profile.profile)
    return own and standing.by == "claimed" and run.local_cloud is None


def judged_otherwise(run: StoredRun, profile: Profile, file: Path) -> list[str]:
    """Where a run of the profile was told on the command line to judge less than the profile asks."""
    bounds = {row.name: row.bound for row in run.summary.objectives if not row.part} if run.summary else {}
    found = []
    for objective in objectives_of(profile):
        bound = bounds.get(objective.name)
        if bound is None or not objective.met_by(bound):  # a tighter bound than the profile's proves it, too
            said = "was not judged" if bound is None else f"was judged by {bound:g}"
            found.append(f"{objective.name} {said}, the profile says {objective.comparison} {objective.bound:g}")
    found += _drove_less(run, profile, file)
    workload = orjson.loads(orjson.dumps(asdict(workload_of(profile, file.parent))))
    ran = part_of(run.plan, "spec", "workload")
    other = [name for name in _OF_WORKLOAD if ran.get(name, workload[name]) != workload[name]]
    if part_of(run.plan, "spec", "target").get("streaming") != profile.workload.streaming:
        other.append("streaming")
    allowed = part_of(run.plan, "spec").get("max_error_rate")
    if ERROR_RATE not in bounds and allowed:
        found.append(f"requests were allowed to fail (--max-error-rate {allowed}), the profile allows none")
    return found + ([f"sent another {', '.join(other)} than the profile's"] if other else [])


def _drove_less(run: StoredRun, profile: Profile, file: Path) -> Iterator[str]:
    """Levels that were others than the profile asks for, or ended sooner: the one that is judged, and every phase."""
    asked, judged = asked_of(profile, file)
    at = run.summary.verdict.at_load if run.summary else None
    if run.summary is None or at != asked[judged].words:
        yield f"judged at {at}, the profile says {asked[judged].words}"
        return
    by_place = {level.planned.level: level for level in run.summary.levels}
    rows = [(by_place.get(place), place, load) for place, load in enumerate(asked)]
    if not profile.benchmark.phases:
        rows = [(next(filter(run.summary.is_judged, run.summary.levels), None), judged, asked[judged])]
    for level, place, wanted in rows:
        said = {one.name: getattr(level.planned, one.name) for one in fields(Load)} if level else {}
        ran = Load(**{name: value for name, value in said.items() if value is not None})
        if level is None or problems_of(ran) or ran.words != wanted.words:
            yield f"{wanted.words} was not driven, which the profile has as level {place + 1}"
        elif _is_less(ran, wanted, level.requests or 0):
            yield f"{wanted.words} was driven for {ran.length}, the profile asks for {wanted.length}"


def _is_less(ran: Load, asked: Load, requests: int) -> bool:
    """Whether a level of the same words could end sooner; a ramp of another length is another ramp."""
    if (ran.ramp_s or 0) != (asked.ramp_s or 0):
        return True
    if asked.from_requests_per_s is not None:
        return (ran.duration_s, ran.requests) != (asked.duration_s, asked.requests)
    if asked.requests is not None and requests >= asked.requests:
        return False
    ends = ((ran.requests, asked.requests), (ran.duration_s, asked.duration_s))
    return any(own is not None and (wanted is None or own < wanted) for own, wanted in ends)


_OF_WORKLOAD = (
    "input_tokens", "first_input_tokens", "output_tokens", "shared_prefix_tokens", "turns", "think_time_s",
    "think_time_stddev_s", "continues", "max_context_tokens", "turn_correlation", "classes", "paired_lengths",
    "unique_prompts", "answer_length", "images",
)  # fmt: skip


def age_of(run: StoredRun, now: datetime) -> timedelta | None:
    """Since it was begun; None where it does not say when."""
    try:
        began = datetime.fromisoformat(run.created_utc)
    except ValueError:
        return None
    return now - (began if began.tzinfo else began.replace(tzinfo=UTC))


def in_days(age: timedelta) -> str:
    """`12 minutes`, `5 hours`, `31 days`; never less than nothing."""
    seconds = max(0, int(age.total_seconds()))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length or (unit == "minute"):
            count = seconds // length
            return f"{count} {unit}{'' if count == 1 else 's'}"
    raise AssertionError


def _is_of(run: StoredRun, profile: TreeProfile) -> bool:
    return _names(run.profile, profile)


def _names(named: Row, profile: TreeProfile) -> bool:
    return named.get("name") == profile.name and named.get("environment") == profile.environment
