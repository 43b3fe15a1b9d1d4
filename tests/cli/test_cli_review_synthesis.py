"""Which processes a review starts, and what it makes of their words."""

from __future__ import annotations

from pathlib import Path

from loadproof.sides.synthesis import SynthesisJob, jobs_of, split

MANY = tuple(f"p{at:03}" for at in range(100))


def sizes(jobs: tuple[SynthesisJob, ...]) -> list[int]:
    return [sum(len(names) for names in job.wanted.values()) for job in jobs]


def test_the_same_names_in_two_environments_are_one_job() -> None:
    """`-c env=dev,prod -c profile=chat`."""
    (job,) = jobs_of({"prod": ["chat"], "dev": ["chat"]}, {"prod": ["chat", "x"], "dev": ["chat"]})
    assert (list(job.wanted), job.names) == (["dev", "prod"], ("chat",))


def test_other_names_share_a_job_where_little_is_made_in_vain() -> None:
    """Twenty profiles more cost less than a second start; a hundred cost more."""
    wanted = {"dev": ["a"], "prod": ["b"]}
    (shared,) = jobs_of(wanted, {"dev": ["a", "x"], "prod": ["b", "y"]})
    assert shared.names is None
    assert [job.names for job in jobs_of(wanted, {"dev": ["a", *MANY], "prod": ["b"]})] == [("a",), ("b",)]


def test_an_environment_that_wants_nothing_has_no_job() -> None:
    """All of it came from the cache."""
    assert jobs_of({"dev": []}, {"dev": ["a"]}) == ()


def test_a_large_job_is_split_over_the_cores() -> None:
    """A hundred profiles make two halves and then four quarters; thirty stay together."""
    jobs = jobs_of({"dev": MANY}, {"dev": MANY})
    assert (sizes(split(jobs, 1)), sizes(split(jobs, 2)), sizes(split(jobs, 4))) == ([100], [50, 50], [25, 25, 25, 25])
    assert sizes(split(jobs_of({"dev": MANY[:30]}, {"dev": MANY}), 4)) == [30]


def test_parts_hold_each_profile_once() -> None:
    """Split by environment first."""
    jobs = split(jobs_of({"dev": MANY, "prod": MANY}, {"dev": MANY, "prod": MANY}), 4)
    made = sorted((environment, name) for job in jobs for environment, names in job.wanted.items() for name in names)
    assert made == [(environment, name) for environment in ("dev", "prod") for name in MANY]


def test_a_refusal_is_told_without_paths_or_traceback(tmp_path: Path) -> None:
    """The last line of a traceback; else every line, without our own prefix."""
    from loadproof.sides.synthesis import _words

    traced = f'Traceback (most recent call last):\n  File "{tmp_path}/app.py", line 1\nValueError: no {tmp_path}/x\n'
    assert _words(traced, tmp_path) == "ValueError: no x"
    assert _words("loadproof: profile a: b\n\nprofile c: d\n", tmp_path) == "profile a: b\nprofile c: d"
    assert _words("x" * 3000, tmp_path) == "x" * 2000 + "…"
