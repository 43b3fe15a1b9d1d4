"""Whether a stored run still speaks for the head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from review_profiles import profile

from loadproof.profiles import Profile, profile_hash
from loadproof.review.evidence import evidence_of
from loadproof.review.model import MeasuredRun

HEAD = profile()
OLD = profile({"copies": {"max": 4}, "objectives": {"e2e_p95_ms": 4000}})


def run(
    run_id: str = "r1",
    created_utc: str = "2026-11-01T00:00:00Z",
    of: Profile = HEAD,
    *,
    name: str = "chat",
    environment: str | None = "prod",
    with_profile: bool = True,
) -> MeasuredRun:
    stored: dict[str, Any] | None = of.model_dump(mode="json") if with_profile else None
    return MeasuredRun(run_id, created_utc, name, environment, profile_hash(of), "PASS", {}, stored)


def state(*runs: MeasuredRun, head: Profile | None = HEAD) -> tuple[str, str | None, tuple[str, ...]]:
    found = evidence_of(head, "prod", "chat", runs)
    return found.state, found.run.run_id if found.run else None, found.changed_since


def test_no_run_is_no_evidence() -> None:
    assert state() == ("none", None, ())


def test_a_run_of_this_very_profile_is_current() -> None:
    assert state(run()) == ("current", "r1", ())


def test_a_run_of_another_profile_is_stale_and_says_why() -> None:
    """The fields that are not the same any more."""
    assert state(run(of=OLD)) == ("stale", "r1", ("copies.max", "objectives.e2e_p95_ms"))


def test_only_a_hash_is_said_to_be_only_a_hash() -> None:
    assert state(run(of=OLD, with_profile=False)) == ("stale", "r1", ("the profile (only its hash is known)",))


def test_classes_in_another_order_are_said_to_be_that() -> None:
    """No field differs, and a seed draws other requests of them."""
    chat, agents = ({"name": name, "share": share} for name, share in (("chat", 0.7), ("agents", 0.3)))
    of, head = (profile({"workload": {"classes": classes}}) for classes in ([chat, agents], [agents, chat]))
    assert state(run(of=of), head=head) == ("stale", "r1", ("the order of workload.classes",))


def test_the_newest_run_counts() -> None:
    """By its time, not by its place in the list."""
    newer, older = run("r2", "2026-11-02T00:00:00Z"), run("r1", "2026-11-01T00:00:00Z")
    assert state(newer, older)[1] == state(older, newer)[1] == "r2"


def test_an_older_run_of_this_very_profile_is_still_true() -> None:
    """A newer run of another profile does not make it less so: a change that is rolled back has its evidence."""
    assert state(run("r1"), run("r2", "2026-11-02T00:00:00Z", OLD)) == ("current", "r1", ())


def test_other_names_and_other_environments_say_nothing() -> None:
    """One that names no environment counts: it was run from the profile's file alone."""
    assert state(run(name="other"), run(environment="dev")) == ("none", None, ())
    assert state(run(environment=None))[0] == "current"


def test_what_was_acknowledged_leaves_evidence_valid() -> None:
    """Who accepted which finding says nothing about what runs."""
    accepted = profile({"acknowledged": {"LS006": "no data of persons in it"}})
    assert state(run(), head=accepted)[0] == "current"


def test_a_refused_profile_leaves_its_run_stale() -> None:
    assert state(run(), head=None) == ("stale", "r1", ())


def test_a_run_that_measured_something_else_proves_nothing_and_says_what() -> None:
    """It is of exactly this profile, and of another region."""
    elsewhere = ("measured in ap-south-1, the profile's environment is in eu-central-1",)
    assert state(replace(run(), proves=False, elsewhere=elsewhere)) == ("claimed", "r1", elsewhere)
