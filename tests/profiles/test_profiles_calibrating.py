"""`calibration:` reads one file inside the profiles' folder, and its mistakes have their place in that file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from profiles_samples import BAD, CHAT

from loadproof.profiles import check_file, profile_files

MEASURED = BAD / "measured" / "tgi.calibration.yaml"


def profile(folder: Path, names: str) -> Path:
    """A root with an environment, a calibration beside it, and a profile that names one."""
    root = folder / "deploy_profiles"
    (root / "dev").mkdir(parents=True)
    (root / "measured").mkdir()
    shutil.copy(MEASURED, root / "measured" / "tgi.calibration.yaml")
    shutil.copy(MEASURED, folder / "outside.calibration.yaml")
    shutil.copy(MEASURED, root / "measured" / "tgi.yaml")
    chat = root / "dev" / "chat.yaml"
    chat.write_text(f"{CHAT}calibration: {names}\n")
    return chat


def test_a_calibration_is_read_relative_to_the_profile(tmp_path: Path) -> None:
    """Beside the environments; its fields are the profile's then."""
    checked = check_file(profile(tmp_path, "../measured/tgi.calibration.yaml"))
    assert checked.problems == ()
    assert checked.profile is not None and checked.profile.calibration is not None
    assert checked.profile.calibration.parameters.step_ms == 1.2


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("../../outside.calibration.yaml", "lies outside deploy_profiles/; keep calibrations in that folder"),
        ("/etc/x.calibration.yaml", "is an absolute path; name it relative to this file"),
        ("../measured/tgi.yaml", "is not named like a calibration; rename it to tgi.calibration.yaml"),
        ("../measured/other.calibration.yaml", "does not exist; write it with `loadproof calibrate`"),
        ("{step_ms: 1}", "expected one file name"),
        ("12", "expected one file name"),
    ],
)
def test_what_cannot_be_read_is_one_problem_at_the_key(tmp_path: Path, names: str, says: str) -> None:
    """LP014, at the line that names it, with what to do."""
    (problem,) = check_file(profile(tmp_path, names)).problems
    assert (problem.code, problem.line) == ("LP014", CHAT.count("\n") + 1)
    assert says in str(problem)


def test_null_is_no_calibration(tmp_path: Path) -> None:
    """A child may undo its parent's."""
    checked = check_file(profile(tmp_path, "null"))
    assert checked.profile is not None and checked.profile.calibration is None


def test_a_parents_calibration_is_relative_to_the_parent(tmp_path: Path) -> None:
    """`extends` brings it along, wherever the child lies."""
    parent = profile(tmp_path, "../measured/tgi.calibration.yaml")
    child = parent.parents[1] / "child.yaml"
    child.write_text("extends: dev/chat.yaml\nname: child\n")
    checked = check_file(child)
    assert checked.profile is not None and checked.profile.calibration is not None


def test_calibrations_are_no_profiles(tmp_path: Path) -> None:
    """One in an environment's folder is neither listed nor deployed."""
    chat = profile(tmp_path, "tgi.calibration.yaml")
    shutil.copy(MEASURED, chat.parent / "tgi.calibration.yaml")
    assert [file.name for file in profile_files(chat.parents[1], "dev")] == ["chat.yaml"]
    assert check_file(chat).profile is not None
