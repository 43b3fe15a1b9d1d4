"""Good profiles: those of the tests, and those the repository ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiles_samples import CHAT, GOOD, REPOSITORY

from loadproof.errors import InputError, ProfileError
from loadproof.profiles import check_file, load_environment, load_profile, profile_files, profile_hash

SHIPPED = REPOSITORY / "deploy_profiles"


@pytest.mark.parametrize("file", sorted(GOOD.glob("*.y*ml")), ids=lambda file: file.name)
def test_a_good_profile_has_no_problem(file: Path) -> None:
    """Neither errors nor warnings."""
    checked = check_file(file)
    assert checked.problems == ()
    assert checked.ok


@pytest.mark.parametrize("file", sorted(SHIPPED.rglob("*.yaml")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_shipped_profile_has_no_problem(file: Path) -> None:
    """What an operator starts from is clean, and says which schema its editor should read."""
    assert check_file(file).problems == ()
    assert file.read_text().startswith("# yaml-language-server: $schema=../")


def test_dev_holds_one_profile_of_each_server() -> None:
    """The demo deploys two profiles: TGI and LMI."""
    families = [load_profile(file).container.family for file in profile_files(SHIPPED, "dev")]
    assert families == ["tgi", "lmi"]


def test_prod_overrides_only_what_it_names() -> None:
    """A child's map merges with its parent's, a list replaces it."""
    staging, prod = (load_profile(SHIPPED / name / "llama-3-1-8b.yaml") for name in ("staging", "prod"))
    assert prod.endpoint.instance_type == staging.endpoint.instance_type == "ml.g6e.2xlarge"
    assert (staging.copies.max, prod.copies.max) == (2, 8)
    assert prod.copies.memory_mib_per_copy == staging.copies.memory_mib_per_copy == 16384
    assert [policy.type for policy in prod.scaling.policies] == ["target_tracking", "scheduled", "scheduled"]


def test_the_hash_follows_the_meaning_not_the_text(tmp_path: Path) -> None:
    """Comments, order and written-out defaults keep the hash; a changed value does not."""
    (tmp_path / "a.yaml").write_text(CHAT)
    (tmp_path / "b.yaml").write_text("# chat\nbackend: sagemaker\n" + CHAT)
    (tmp_path / "c.yaml").write_text(CHAT.replace("500", "501"))
    first, same, other = (profile_hash(load_profile(tmp_path / f"{name}.yaml")) for name in "abc")
    assert first == same != other
    assert len(first) == 64 and int(first, 16) >= 0


def test_profiles_of_an_environment_are_sorted_without_the_environment(tmp_path: Path) -> None:
    """environment.yaml, other files and folders are no profiles."""
    for name in ("b.yaml", "a.yml", "environment.yaml", "notes.txt"):
        (tmp_path / "dev" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "dev" / name).write_text("")
    (tmp_path / "dev" / "c.yaml").mkdir()
    assert [file.name for file in profile_files(tmp_path, "dev")] == ["a.yml", "b.yaml"]


def test_an_unknown_environment_names_the_known_ones() -> None:
    """The error lists what could have been meant."""
    with pytest.raises(InputError, match=r"no environment `qa` in .*; known: dev, .*prod, staging"):
        profile_files(SHIPPED, "qa")


def test_loading_a_bad_profile_raises_all_its_errors(tmp_path: Path) -> None:
    """`load_profile` carries every error, without the warnings."""
    (tmp_path / "chat.yaml").write_text(CHAT.replace("64", '"64"').replace("500", "no") + "wrong: 1\n")
    with pytest.raises(ProfileError) as raised:
        load_profile(tmp_path / "chat.yaml")
    assert [problem.code for problem in raised.value.problems] == ["LP009", "LP103", "LP101"]


def test_a_missing_environment_is_a_problem_not_a_traceback(tmp_path: Path) -> None:
    """`load_environment` raises ProfileError with LP012."""
    with pytest.raises(ProfileError, match=r"environment.yaml:1:1 LP012 file cannot be read"):
        load_environment(tmp_path)


def test_an_environment_is_named_environment_yaml(tmp_path: Path) -> None:
    """`environment.yml` is not taken for a profile with thirty wrong keys: one problem says how to name it."""
    (tmp_path / "environment.yml").write_text("account: '123456789012'\nregion: us-east-1\n")
    (problem,) = check_file(tmp_path / "environment.yml").problems
    assert (problem.code, problem.mend) == ("LP013", "rename it to environment.yaml")
