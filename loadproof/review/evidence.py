"""The newest measured run of a profile: does it still speak for what the head would deploy?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loadproof.profiles import Profile, profile_document, profile_hash
from loadproof.review.fields import data_fields, reordered
from loadproof.review.model import EvidenceState, MeasuredRun

_HASH_ONLY = "the profile (only its hash is known)"


def evidence_of(
    profile: Profile | None, environment_name: str, name: str, runs: Sequence[MeasuredRun]
) -> EvidenceState:
    """`current` where the newest run measured this very profile, `stale` with the fields that differ since.

    Runs of another environment say nothing here; one that names none counts. A run of exactly this profile counts
    even where a newer one measured another: it is still true. Without a profile (removed, refused) the newest run is
    stale. Runs that prove nothing are passed over; where there are no others, the newest is `claimed`.
    """
    named = [run for run in runs if run.profile_name == name and run.environment_name in (None, environment_name)]
    state = _state_of(profile, [run for run in named if not run.gone])
    return replace(state, gone=tuple(run for run in named if run.gone))


def _state_of(profile: Profile | None, claimed: Sequence[MeasuredRun]) -> EvidenceState:
    own = [run for run in claimed if run.proves]
    if not claimed:
        return EvidenceState("none")
    newest_first = sorted(own or claimed, key=lambda run: (run.created_utc, run.run_id), reverse=True)
    if not own:
        return EvidenceState("claimed", newest_first[0], newest_first[0].elsewhere)
    if profile is None:
        return EvidenceState("stale", newest_first[0])
    own_hash = profile_hash(profile)
    current = next((run for run in newest_first if run.profile_sha256 == own_hash), None)
    if current is not None:
        return EvidenceState("current", current)
    newest = newest_first[0]
    return EvidenceState("stale", newest, _changed_since(newest, profile))


def _changed_since(run: MeasuredRun, profile: Profile) -> tuple[str, ...]:
    if run.profile is None:
        return (_HASH_ONLY,)
    # Who accepted what, and whose word counts, says nothing about what runs: no hash is over it, and runs may hold it.
    measured = {name: value for name, value in run.profile.items() if name != "acknowledged"}
    document = profile_document(profile)
    paths = (change.path for change in data_fields(measured, document))
    changed = tuple(dict.fromkeys(path for path in paths if path != "benchmark.evidence_from"))
    return changed or tuple(f"the order of {path}" for path in reordered(measured, document)) or (_HASH_ONLY,)
