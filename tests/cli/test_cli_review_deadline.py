"""What a review says of what it had no time or no room for."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from review_repository import Project, names

from loadproof.capacity.plan import Plan
from loadproof.errors import InputError, Problem
from loadproof.review import assemble
from loadproof.review.assemble import LateError, review
from loadproof.review.model import Side
from loadproof.review.objectives import plan_of
from loadproof.sides import affected, tree
from loadproof.sides import pairs as sides_pairs
from loadproof.sides.deadline import CHECKED, SYNTHESIZED, Deadline
from loadproof.sides.pairs import Sides

MORE = {"min": 2, "max": 2, "memory_mib_per_copy": 16384}


class Cut(Deadline):
    """Over for one part of the work, after it was asked so often about that."""

    def __init__(self, part: float, after: int = 0) -> None:
        super().__init__(60.0)
        object.__setattr__(self, "_part", part)
        object.__setattr__(self, "_left", after)

    def is_over(self, part: float) -> bool:
        object.__setattr__(self, "_left", self._left - (part == self._part))  # type: ignore[attr-defined]
        return part == self._part and self._left < 0  # type: ignore[attr-defined]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """On `head` one profile is changed, one is taken away, and two are new, whose names come first."""
    made = Project(tmp_path / "repository", dev=("chat", "search"))
    monkeypatch.chdir(made.root)
    made.git("checkout", "-q", "-b", "head")
    made.profile("dev/search", copies=MORE)
    (made.root / "deploy_profiles/dev/chat.yaml").unlink()
    made.profile("dev/aaa", copies=MORE)
    made.profile("dev/aab", copies=MORE)
    made.commit()
    return made


def refused(sides: Sides) -> set[str]:
    """Names of pairs that are refused for want of time."""
    return {
        pair.name
        for pair in sides.pairs
        for side in (pair.before, pair.after)
        if side is not None and side.refusal.startswith("not reviewed: the review's 60 s were over")
    }


def test_without_time_to_check_every_profile_is_refused_for_that(project: Project) -> None:
    sides = project.sides("main", "head", deadline=Cut(CHECKED))
    assert names(sides) == ["dev/aaa", "dev/aab", "dev/chat", "dev/search"]
    assert refused(sides) == {"chat", "search", "aaa", "aab"}
    assert project.runs == 0


def test_what_is_deployed_comes_before_what_is_new(project: Project) -> None:
    """A stranger may add as many profiles as he likes; those that are deployed already are still looked at."""
    sides = project.sides("main", "head", deadline=Cut(CHECKED, after=3))
    assert refused(sides) == {"aaa", "aab"}
    assert all(side.templates for pair in sides.pairs[2:] for side in (pair.before, pair.after) if side)


def test_without_time_to_synthesize_profiles_are_refused_for_that(project: Project) -> None:
    sides = project.sides("main", "head", deadline=Cut(SYNTHESIZED))
    assert refused(sides) == {"chat", "search", "aaa", "aab"}
    assert project.runs == 0


def test_a_process_is_ended_when_the_time_is_over(project: Project) -> None:
    """That of code which sleeps for a minute; nothing is raised."""
    project.write("stacks/queue.py", "import time\ntime.sleep(60)\n")
    project.commit()
    sides = project.sides("main", "head", deadline=Deadline(8.0))
    late = {pair.name for pair in sides.pairs if pair.after and pair.after.refusal.startswith("not reviewed: ")}
    assert late == {"environment", "search", "aaa", "aab"}


def test_profiles_that_other_code_may_change_are_not_taken_as_the_same(project: Project) -> None:
    """Where the time is over, nobody knows what the new code makes of a profile that is as it was."""
    project.git("checkout", "-q", "-b", "code", "main")
    project.write("stacks/queue.py", "TIMEOUT_S = 90\n")
    project.commit()
    assert refused(project.sides("main", "code", deadline=Cut(CHECKED))) == {"chat", "search", "environment"}


def test_an_environments_own_stacks_are_late_with_its_profiles(project: Project) -> None:
    """They come with the synthesis of any profile; without one nobody knows of them."""
    project.git("checkout", "-q", "-b", "environment", "main")
    file = project.root / "deploy_profiles/dev/environment.yaml"
    file.write_text(file.read_text() + "tags: {owner: us}\n")
    project.commit()
    assert refused(project.sides("main", "environment", deadline=Cut(SYNTHESIZED))) == {"chat", "search", "environment"}


def test_pairs_that_there_was_no_time_to_look_at_break(project: Project) -> None:
    sides = project.sides("main", "head")
    said = iter(["", "no time", "no time", "no time"])
    found = review("main", "head", sides.pairs, (), 0, late=lambda: next(said))
    breaks = {one.pair.name: [row.message for row in one.findings if row.severity == "break"] for one in found.profiles}
    assert breaks["search"] == breaks["aaa"] == ["the head cannot be synthesized: no time"]


def test_one_profile_takes_half_of_what_is_left(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that takes a minute is cut off, and the others are looked at."""

    def planned(side: Side | None) -> tuple[Plan | None, str]:
        if side is not None and side.profile is not None and side.profile.name == "search":
            time.sleep(60)
        return plan_of(side)

    pairs = project.sides("main", "head").pairs
    monkeypatch.setattr(assemble, "plan_of", planned)
    found = review("main", "head", pairs, (), 0, bounded=Deadline(5.0).bounded).profiles
    told = {one.pair.name: [row.message for row in one.findings if row.code == "LR064"] for one in found}
    assert told["aaa"] == told["aab"] == []
    assert "not reviewed: it alone takes more than 2." in told["search"][0]


def test_an_alarm_that_nobody_heard_rings_again() -> None:
    """What is raised within `__del__`, or where compiled code calls back, is printed and lost."""

    class Deaf:
        def __del__(self) -> None:
            with suppress(LateError):
                time.sleep(60)

    with pytest.raises(LateError), Deadline(0.5).bounded():
        Deaf()
        time.sleep(60)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_was_deployed_and_cannot_be_synthesized_any_more_breaks(project: Project) -> None:
    """Whatever the checks say of it on both sides: the base's code makes a template of it, the head's none."""
    (search,) = [pair for pair in project.sides("main", "head").pairs if pair.name == "search"]
    assert search.before is not None and search.after is not None
    problems = (Problem("search.yaml", 1, 1, "", "wrong", "mend it", "LP999"),)
    before, after = replace(search.before, problems=problems), replace(search.after, problems=problems, templates={})
    (found,) = review("main", "head", [replace(search, before=before, after=after)], (), 0).profiles
    assert [(one.code, one.severity) for one in found.findings if one.code == "LR064"] == [("LR064", "break")]


def test_more_changed_code_than_is_named_is_counted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides_pairs, "_MOST_NAMED", 2)
    for at in range(4):
        project.write(f"stacks/more{at}.py", "")
    project.commit()
    not_run = project.sides("main", "head", trust="base").not_run
    assert not_run == ("stacks/more0.py", "stacks/more1.py", "and 2 more")


def test_a_removal_that_there_was_no_time_to_look_at_is_told(project: Project) -> None:
    (chat,) = [pair for pair in project.sides("main", "head").pairs if pair.name == "chat"]
    (found,) = review("main", "head", [chat], (), 0, late=lambda: "no time").profiles
    assert [(one.code, one.severity) for one in found.findings] == [("LR061", "risk"), ("LR064", "warning")]


@pytest.mark.parametrize(("bound", "most"), [("MOST_FILES", 5), ("MOST_PROFILE_FILES", 3)])
def test_more_files_than_are_read_are_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(tree, bound, most)
    with pytest.raises(InputError, match=f"a review reads {most} at the most"):
        project.sides("main", "head")


def test_a_folder_deeper_than_is_read_is_refused(project: Project) -> None:
    deep = Path("copy", "d/" * 101, "x")
    deep.parent.mkdir(parents=True)
    deep.touch()
    project.write("copy/deploy_profiles/dev/environment.yaml", "")
    with pytest.raises(InputError, match=r"\./copy: d/d/d/…: more than 100 folders deep; take the folder away"):
        project.sides("main", "./copy")


def test_a_profile_made_of_a_file_that_nobody_lays_out_is_refused(project: Project) -> None:
    project.profile("dev/search", extends="d/" * 101 + "x.yaml")
    project.write(f"deploy_profiles/dev/{'d/' * 101}x.yaml", "copies: {min: 2}\n")
    project.commit()
    (search,) = [pair for pair in project.sides("main", "head").pairs if pair.name == "search"]
    assert search.after is not None
    assert "cannot be checked out (more than 100 folders deep); give it another name" in search.after.refusal


def test_a_profile_that_names_more_than_is_followed_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it is as it was: what it leads to, here by a reason that is a file's name, is not."""
    folder = project.root / "deploy_profiles" / "dev"
    project.git("checkout", "-q", "-b", "naming", "main")
    project.profile("dev/chat", acknowledged={"LS005": "names.yaml"})
    (folder / "names.yaml").write_text("x: [" + ", ".join(f"file{at}.txt" for at in range(120)) + "]\n")
    for at in range(120):
        (folder / f"file{at}.txt").write_text("a")
    project.commit()
    (folder / "file119.txt").write_text("b")
    project.commit()
    pairs = {pair.name: pair for pair in project.sides("naming^", "naming").pairs}
    assert pairs["chat"].after is not None
    assert "leads to more than 100 other files" in pairs["chat"].after.refusal
    assert "search" not in pairs


def test_profiles_too_large_to_look_for_names_in_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affected, "MOST_YAML_BYTES", 100)
    found = {side.refusal for pair in project.sides("main", "head").pairs if (side := pair.after) is not None}
    assert found and all("too large to look for names in" in one for one in found)


@pytest.mark.parametrize("way", ["lnk/parent.yaml", "././" * 300 + "../real/parent.yaml", "../real/par\nent.yaml"])
def test_a_parent_is_found_whatever_way_leads_to_it(project: Project, way: str) -> None:
    """Through a link to a folder, a thousand characters long, or with a line end in its name."""
    project.git("checkout", "-q", "-b", "ways", "main")
    parent = project.root / "deploy_profiles/real" / way.rpartition("/")[2]
    parent.parent.mkdir()
    if "lnk" in way:
        (project.root / "deploy_profiles/dev/lnk").symlink_to("../real")
    parent.write_text("copies: {min: 1, max: 1, memory_mib_per_copy: 16384}\n")
    project.profile("dev/chat", extends=way)
    project.commit()
    parent.write_text("copies: {min: 1, max: 1, memory_mib_per_copy: 8192}\n")
    project.commit()
    assert "dev/chat" in names(project.sides("ways^", "ways"))


def test_an_environment_behind_a_link_is_refused(project: Project) -> None:
    """An app deploys its profiles, and a review that does not look there must not say that nothing changes."""
    (project.root / "deploy_profiles/prod").symlink_to("dev")
    project.commit()
    with pytest.raises(InputError, match="deploy_profiles/prod is a link to a folder"):
        project.sides("main", "head")
