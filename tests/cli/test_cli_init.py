"""`loadproof init`: a repository that synthesizes, with a profile the planner chose; upgrades keep what is ours."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from processes import run_process

from loadproof.advice.alternatives import Goal
from loadproof.advice.comparison import Constraints, Settled
from loadproof.cli.init import first_profile
from loadproof.cli.init.first_profile import in_flight_of
from loadproof.cli.main import run
from loadproof.errors import ExitCode, InputError
from loadproof.profiles import check_file, load_environment, load_profile
from loadproof.profiles.judging import requests_to_judge
from loadproof.profiles.schema import Environment, Profile
from loadproof.scaffold import repository
from loadproof.scaffold.kept import apply, changes, read_manifest, write_new
from loadproof.scaffold.repository import Place
from loadproof.sides.git import hosted_at

PLANTED = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTED0KEY0ID00",
    "AWS_SECRET_ACCESS_KEY": "plantedSecret/Access+Key0000000000000000",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luPlantedSessionToken0123456789abcdef",
    "HF_TOKEN": "hf_plantedHubTokenabcdefghijklmnopqrst",
}
PLACE = Place("0.1.0", "none")
SMALL = ("--defaults", "--model", "Qwen/Qwen3-0.6B", "--p95", "4000", "--traffic", "2/s")


@pytest.fixture(scope="module", autouse=True)
def searched_once() -> Iterator[None]:
    """The planner looks at all machines once for each profile: most repositories here begin with the same one."""
    search, found = first_profile.settle, dict[str, Settled]()

    def searched(profile: Profile, goal: Goal, constraints: Constraints, environment: Environment | None) -> Settled:
        asked = repr((profile, goal, constraints, environment))
        if asked not in found:
            found[asked] = search(profile, goal, constraints, environment)
        return found[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_profile, "settle", searched)
        yield


@pytest.fixture(scope="module")
def made(searched_once: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team") / "repository"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PLANTED.items():
            patch.setenv(name, value)
        assert run(["init", str(folder), *SMALL, "--environment", "live", "--region", "eu-west-1"]) == 0
    return folder


def test_no_file_holds_a_credential_of_the_environment(made: Path) -> None:
    """Nothing that a shell holds for AWS and the hub is the repository's."""
    texts = [file.read_bytes() for file in made.rglob("*") if file.is_file()]
    assert [name for name, secret in PLANTED.items() if any(secret.encode() in text for text in texts)] == []


def copy_of(made: Path, target: Path) -> Path:
    for file in made.rglob("*"):
        if file.is_file():
            place = target / file.relative_to(made)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    return target


def test_everything_that_it_writes_is_right(made: Path) -> None:
    """No problem, no warning, in profile and environment."""
    files = sorted((made / "deploy_profiles" / "live").glob("*.yaml"))
    assert [file.name for file in files] == ["environment.yaml", "qwen3-0-6b.yaml"]
    assert [str(problem) for file in files for problem in check_file(file).problems] == []


def test_the_profile_asks_for_what_was_asked(made: Path) -> None:
    """Two a second, each there for four seconds: eight in flight."""
    profile = load_profile(made / "deploy_profiles" / "live" / "qwen3-0-6b.yaml")
    assert profile.objectives is not None
    assert (profile.objectives.at_concurrency, profile.objectives.e2e_p95_ms) == (8, 4000)
    assert profile.model.id == "Qwen/Qwen3-0.6B"


def test_the_profile_says_how_many_requests_its_p95_needs(made: Path) -> None:
    """861 where it is judged (tests/test_sizing.py), and 32 elsewhere."""
    file = made / "deploy_profiles" / "live" / "qwen3-0-6b.yaml"
    assert requests_to_judge(load_profile(file)) == 861
    assert "# At 8 in flight, where the objectives are judged, 861 go out" in file.read_text()
    assert "requests_per_level: 32}" in file.read_text()


def test_the_first_test_of_the_repository_passes(made: Path) -> None:
    """It synthesizes every environment with the repository's own app.py."""
    done = run_process(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=made,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_pipelines_know_the_first_environment_alone(made: Path) -> None:
    workflows = made / ".github" / "workflows"
    deploy = yaml.safe_load((workflows / "deploy.yml").read_text())
    nightly = yaml.safe_load((workflows / "nightly.yml").read_text())
    called = {name: job["with"]["environment"] for name, job in deploy["jobs"].items() if "uses" in job}
    assert called == {"live": "live"}
    assert nightly["jobs"]["look"]["strategy"]["matrix"] == {"environment": ["live"]}


def test_gitlab_has_one_file_with_the_first_environment_alone(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path), *SMALL, "--ci", "gitlab", "--environment", "live", "--region", "eu-west-1"]) == 0
    pipeline = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())
    assert pipeline["stages"] == ["review", "live", "nightly"]
    assert {"deploy-live", "benchmark-live"} == {
        name for name in pipeline if name.startswith(("deploy-", "benchmark-"))
    }
    assert not (tmp_path / ".github").exists()


def test_a_new_repositorys_readme_and_gitignore_stay(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("ours\n")
    (tmp_path / ".gitignore").write_text("*.secret\n")
    assert run(["init", str(tmp_path), *SMALL]) == 0
    assert (tmp_path / "README.md").read_text() == "ours\n"
    assert (tmp_path / ".gitignore").read_text() == "*.secret\n"


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text("ours\n")
    assert run(["init", str(tmp_path), *SMALL]) == 2
    assert "app.py" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["app.py"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--defaults", "--model", "acme/nothing-9b"], "acme/nothing-9b"),
        (["--defaults", "--account", "12"], "expected twelve digits"),
        (["--defaults", "--traffic", "many"], "--traffic"),
        (["--defaults", "--lengths", "512"], "--lengths"),
        (["--defaults", "--write"], "--upgrade"),
        ([], "--defaults"),
    ],
)
def test_bad_answers_are_told_and_nothing_is_written(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(tmp_path / "new"), *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


def test_a_budget_that_is_too_small_is_told_the_least_that_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 1, and the repository there all the same, as without the budget."""
    assert run(["init", str(tmp_path / "a"), *SMALL, "--budget", "0.10"]) == 1
    said = capsys.readouterr().out.split("\n", 1)[1].splitlines()
    assert run(["init", str(tmp_path / "b"), *SMALL]) == 0
    without = capsys.readouterr().out.split("\n", 1)[1].splitlines()
    assert "--budget 0.1 USD an hour" in said[0]
    assert said[1:] == [line.replace(str(tmp_path / "b"), str(tmp_path / "a")) for line in without]


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("git@github.com:acme/endpoints.git", "https://github.com/acme/endpoints/blob/HEAD/docs/runbook.md"),
        (
            "https://x:token@gitlab.acme.io/ml/llm/endpoints",
            "https://gitlab.acme.io/ml/llm/endpoints/blob/HEAD/docs/runbook.md",
        ),
        ("ssh://git@github.com:22/acme/endpoints.git", "https://github.com/acme/endpoints/blob/HEAD/docs/runbook.md"),
        ("https://git-codecommit.us-east-1.amazonaws.com/v1/repos/x", None),
        ("/srv/git/endpoints.git", None),
        (None, None),
    ],
)
def test_a_clones_pages_are_where_its_hub_shows_them(origin: str | None, expected: str | None, tmp_path: Path) -> None:
    """Without the token that the address may have; nowhere, where the host is not known to show pages so."""
    cloned(tmp_path, origin)
    assert hosted_at(tmp_path, "docs/runbook.md") == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("git@github.com:acme/endpoints.git", "https://github.com/acme/endpoints/blob/HEAD/docs/runbook.md"),
        (None, "docs/runbook.md"),
    ],
)
def test_alarms_of_a_clone_link_its_runbook(origin: str | None, expected: str, tmp_path: Path) -> None:
    """Where its hub shows it, and else by its path; the page itself is there in both."""
    cloned(tmp_path, origin)
    assert run(["init", str(tmp_path), *SMALL]) == 0
    assert load_environment(tmp_path / "deploy_profiles" / "dev").runbook_url == expected
    assert (tmp_path / "docs" / "runbook.md").is_file()


def cloned(folder: Path, origin: str | None) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if origin is not None:
        subprocess.run(["git", "remote", "add", "origin", origin], cwd=folder, check=True)


@pytest.mark.parametrize(("traffic", "p95_ms", "expected"), [("8", 1000, 8), ("2/s", 4000, 8), ("0.1/s", 1000, 1)])
def test_traffic_is_in_flight_or_a_second(traffic: str, p95_ms: int, expected: int) -> None:
    assert in_flight_of(traffic, p95_ms) == expected


def test_a_place_that_takes_no_file_is_told_before_anything_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    """Root may write anywhere by its rights, and no folder can be made in /proc."""
    assert run(["init", "/proc/x", *SMALL]) == ExitCode.BAD_INPUT
    assert "DIR: nothing can be written into /proc" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [("--traffic", "100"), ("--traffic", "10/s"), ("--region", "eu-west-3"), ("--region", "eu-central-1")]
)
def test_ordinary_traffic_and_regions_make_a_profile_that_check_takes(options: tuple[str, ...], tmp_path: Path) -> None:
    """Levels send enough requests to keep that many in flight; eu-west-3 has no inference components."""
    assert run(["init", str(tmp_path), "--defaults", *options]) == 0
    (file,) = (tmp_path / "deploy_profiles" / "dev").glob("qwen*.yaml")
    assert [str(problem) for problem in check_file(file).problems if problem.severity == "error"] == []


def test_a_slip_in_the_interview_is_asked_again(tmp_path: Path) -> None:
    """A model that nobody knows, words for milliseconds, less than no traffic: each is told, and nothing is lost."""
    ours, its = pty.openpty()
    os.write(ours, b"Qwen/Qwen3-0.66B\nQwen/Qwen3-0.6B\nabc\n4000\n-3\n2/s\nmars\neu-west-1\nlots\n0\n")
    done = subprocess.run(
        [sys.executable, "-m", "loadproof", "init", str(tmp_path / "new")],
        stdin=its,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    for said in (
        "did you mean Qwen/Qwen3-0.6B",
        "expected whole milliseconds",
        "expected requests a second",
        "expected an AWS region",
        "expected USD",
    ):
        assert said in " ".join(told.split())
    assert (tmp_path / "new" / "deploy_profiles" / "dev" / "qwen3-0-6b.yaml").is_file()


def test_a_wheel_that_is_on_no_index_comes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed from a file (PEP 610), that file stands in wheels/ and requirements.txt looks there."""
    wheel = tmp_path / "loadproof-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    found = SimpleNamespace(read_text=lambda _: json.dumps({"url": wheel.as_uri(), "archive_info": {}}))
    monkeypatch.setattr(repository, "distribution", lambda _: found)
    files = repository.files_of(repository.Place("0.1.0"))
    assert files["wheels/loadproof-0.1.0-py3-none-any.whl"] == b"a wheel"
    assert files["requirements.txt"].startswith(b"--find-links wheels\n")


def test_a_repository_that_installs_from_its_own_wheel_keeps_it(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pip install --find-links wheels` leaves no direct_url.json: `--upgrade` there has nothing to change."""
    wheel = tmp_path / "loadproof-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK\0a wheel")
    found = SimpleNamespace(read_text=lambda _: json.dumps({"url": wheel.as_uri(), "archive_info": {}}))
    folder = tmp_path / "team"
    with monkeypatch.context() as patched:
        patched.setattr(repository, "distribution", lambda _: found)
        assert run(["init", str(folder), *SMALL]) == 0
    capsys.readouterr()
    monkeypatch.setattr(repository, "distribution", lambda _: SimpleNamespace(read_text=lambda _: None))
    assert run(["init", str(folder), "--upgrade"]) == 0
    assert capsys.readouterr().out == ""


def test_a_teams_environment_hands_its_wheel_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make setup` of one repository installed from its wheels/ goes into the next one."""
    wheel = tmp_path / "team" / "wheels" / "loadproof-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"PK\0a wheel")
    monkeypatch.setattr(repository.sys, "prefix", str(tmp_path / "team" / ".venv"))
    assert repository.files_of(repository.Place("0.1.0"))[f"wheels/{wheel.name}"] == b"PK\0a wheel"


def test_a_wheel_is_shown_in_one_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not as the 50,000 lines of what is no text."""
    folder = copy_of(made, tmp_path)
    _older(folder, "wheels/loadproof-0.0.9-py3-none-any.whl", "PK\0an older wheel")
    assert run(["init", str(folder), "--upgrade"]) == 1
    name = "wheels/loadproof-0.0.9-py3-none-any.whl"
    assert capsys.readouterr().out == f"Binary files a/{name} and b/{name} differ\n"


def test_a_newer_wheel_takes_the_place_of_the_older(made: Path, tmp_path: Path) -> None:
    """Both would be installed from; one that the team put there itself stays."""
    folder = copy_of(made, tmp_path)
    _older(folder, "wheels/loadproof-0.0.9-py3-none-any.whl", "PK\0an older wheel")
    (folder / "wheels/own-1.0-py3-none-any.whl").write_bytes(b"PK\0of the team")
    assert run(["init", str(folder), "--upgrade", "--write"]) == 0
    names = {one.name for one in (folder / "wheels").iterdir()}
    assert names == {"own-1.0-py3-none-any.whl", "loadproof-0.1.0-py3-none-any.whl"}
    assert run(["init", str(folder), "--upgrade"]) == 0


def test_from_a_checkout_its_wheel_comes_along(made: Path) -> None:
    """It holds the package, and what a team owns as data; an upgrade has nothing to change."""
    (wheel,) = (made / "wheels").iterdir()
    assert (made / "requirements.txt").read_text().startswith("--find-links wheels\n")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"loadproof/cli/main.py", "loadproof/scaffold_files/app.py"} <= set(names)
    assert run(["init", str(made), "--upgrade"]) == 0


def test_from_an_index_no_wheel_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "checkout", lambda: None)
    files = repository.files_of(repository.Place("0.1.0"))
    assert b"--find-links" not in files["requirements.txt"] and not any(name.startswith("wheels") for name in files)


def test_whatever_is_wrong_with_the_options_is_said_at_once_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file is named that was never written; what a default in a wrong option's place would lead to is not said."""
    (tmp_path / "file").touch()
    wrong = ("--environment", "../x", "--account", "", "--lengths", "5,a", "--traffic", "x", "--region", "mars-1")
    assert run(["init", str(tmp_path / "file" / "here"), "--defaults", "--model", "", *wrong, "--p95", "1"]) == 2
    said = capsys.readouterr().err
    assert [line.removeprefix("loadproof: ").split(":")[0] for line in said.splitlines()] == [
        "DIR", "--model", "--traffic", "--region", "--lengths", "--environment", "--account",
    ]  # fmt: skip
    assert f"{tmp_path / 'file'} is a file" in said and "yaml" not in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--p95", "1", "--p95: objectives.e2e_p95_ms: 1 ms is less than any endpoint takes"),
        ("--traffic", "1000000", "--traffic: 1,000,000 in flight, and a benchmark drives 4,096 at most: "),
        ("--traffic", "50000/s", "--traffic: `50000/s` with answers of up to 10 s is 500,000 in flight, and a "),
        ("--lengths", "500000,10", "--lengths: workload.input_tokens: "),
        ("--region", "us-gov-west-1", "--region: container: the catalog has no vllm "),
        ("--region", "eu-wset-1", "--region: the catalog knows no region `eu-wset-1`; did you mean eu-west-1"),
        ("--model", "Qwen/Qwen3-8BB", "--model: the catalog does not know `Qwen/Qwen3-8BB`; did you mean Qwen/"),
        ("--account", "", "--account: expected twelve digits in quotes, found ``; write it like 123456789012"),
    ],
)
def test_what_a_check_says_is_said_of_the_option(
    option: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written."""
    assert run(["init", str(tmp_path / "new"), "--defaults", option, value]) == 2
    assert capsys.readouterr().err.startswith(f"loadproof: {said}")
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_a_publisher_who_is_not_listed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be weights published again, and a slip."""
    assert run(["init", str(tmp_path / "new"), "--defaults", "--model", "meta-lama/Llama-3.1-8B-Instruct"]) == 0
    assert "taken for meta-llama/Llama-3.1-8B, published again by meta-lama" in capsys.readouterr().out


def test_no_folder_is_not_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unset variable in quotes."""
    monkeypatch.chdir(tmp_path)
    assert run(["init", "", "--defaults"]) == 2
    assert "'DIR': expected a path, found none" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_no_traffic_is_no_number() -> None:
    with pytest.raises(InputError, match="--traffic"):
        in_flight_of("0", 1000)


def test_an_upgrade_to_the_same_version_changes_nothing(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the team changed files of ours."""
    folder = copy_of(made, tmp_path)
    (folder / "stacks" / "application.py").write_text("# ours now\n")
    assert run(["init", str(folder), "--upgrade"]) == 0
    assert capsys.readouterr().out == ""


def _older(folder: Path, path: str, content: str) -> None:
    """As if an older version had written `content` to `path`."""
    import hashlib

    (folder / path).write_text(content)
    manifest = json.loads((folder / ".loadproof.json").read_text())
    manifest["files"][path] = hashlib.sha256(content.encode()).hexdigest()
    (folder / ".loadproof.json").write_text(json.dumps(manifest))


def test_an_upgrade_shows_what_is_newer_and_writes_when_told(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(made, tmp_path)
    _older(folder, "Makefile", "old:\n")
    assert run(["init", str(folder), "--upgrade"]) == 1
    assert "-old:\n" in capsys.readouterr().out
    assert (folder / "Makefile").read_text() == "old:\n"
    assert run(["init", str(folder), "--upgrade", "--write"]) == 0
    assert (folder / "Makefile").read_bytes() == (made / "Makefile").read_bytes()
    assert run(["init", str(folder), "--upgrade"]) == 0


def test_an_upgrade_keeps_what_the_team_changed(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both changed: shown, left alone, exit 1, and still so the next time."""
    folder = copy_of(made, tmp_path)
    _older(folder, "Makefile", "old:\n")
    (folder / "Makefile").write_text("ours:\n")
    for _ in range(2):
        assert run(["init", str(folder), "--upgrade", "--write"]) == 1
        shown = capsys.readouterr()
        assert "-ours:\n" in shown.out
        assert "both changed" in shown.err
    assert (folder / "Makefile").read_text() == "ours:\n"


def _committed(folder: Path) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *command], cwd=folder, check=True)


def _with_an_older_makefile(made: Path, folder: Path) -> tuple[str, str]:
    """Committed with one line less at its end than this version has: (that text, this version's)."""
    newer = (made / "Makefile").read_text()
    older = newer[: newer.rstrip("\n").rindex("\n") + 1]
    _older(folder, "Makefile", older)
    _committed(folder)
    return older, newer


def test_an_upgrade_merges_what_both_changed(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In different lines, from what the repository's history has."""
    folder = copy_of(made, tmp_path)
    older, newer = _with_an_older_makefile(made, folder)
    (folder / "Makefile").write_text("# ours\n" + older)
    assert run(["init", str(folder), "--upgrade", "--write"]) == 0
    assert "1 of them merged" in capsys.readouterr().err
    assert (folder / "Makefile").read_text() == "# ours\n" + newer
    assert run(["init", str(folder), "--upgrade"]) == 0


def test_a_conflict_shows_what_is_newer_and_ends_when_it_is_settled(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(made, tmp_path)
    older, newer = _with_an_older_makefile(made, folder)
    ours = older[: older.rstrip("\n").rindex("\n") + 1] + "ours\n"
    (folder / "Makefile").write_text(ours)
    assert run(["init", str(folder), "--upgrade", "--write"]) == 1
    shown = capsys.readouterr().out.splitlines()
    changed = [line for line in shown if line[:1] in "+-" and line[:3] not in ("---", "+++")]
    assert changed == [f"+{newer.splitlines()[-1]}"]
    assert run(["init", str(folder), "--upgrade", "--settled", "Makefile"]) == 0
    assert run(["init", str(folder), "--upgrade"]) == 0
    assert (folder / "Makefile").read_text() == ours


def test_only_what_is_left_can_be_settled(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy_of(made, tmp_path)
    assert run(["init", str(folder), "--upgrade", "--settled", "Makefile"]) == 2
    assert "nothing is left to settle" in capsys.readouterr().err


def test_an_upgrade_does_not_bring_back_what_the_team_removed(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(made, tmp_path)
    _older(folder, "Makefile", "old:\n")
    (folder / "Makefile").unlink()
    assert run(["init", str(folder), "--upgrade", "--write"]) == 1
    assert "removed here" in capsys.readouterr().err
    assert not (folder / "Makefile").exists()


@pytest.mark.parametrize(
    "manifest", [None, "no json", "{}", '{"loadproof": "1", "ci": "x", "environment": "dev", "files": {}}']
)
def test_a_folder_that_is_not_ours_is_not_upgraded(
    manifest: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if manifest is not None:
        (tmp_path / ".loadproof.json").write_text(manifest)
    assert run(["init", str(tmp_path), "--upgrade"]) == 2
    assert ".loadproof.json" in capsys.readouterr().err


def test_no_repository_is_written_among_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the folder leaves another repository's profiles as they are."""
    folder = tmp_path / "deploy_profiles"
    folder.mkdir()
    assert run(["init", str(folder), "--defaults"]) == 2
    assert "name a folder of its own" in " ".join(capsys.readouterr().err.split())
    assert list(folder.iterdir()) == []


def test_a_price_says_whence_it_is_and_where_it_is_another_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`init`, then `plan` and `simulate` of its profile; in the price's own region only whence."""
    for region, told in (("eu-west-1", True), ("us-east-1", False)):
        folder = tmp_path / region
        assert run(["init", str(folder), *SMALL, "--budget", "9", "--region", region]) == 0
        said = [" ".join(capsys.readouterr().out.split())]
        (profile,) = (folder / "deploy_profiles" / "dev").glob("qwen*.yaml")
        for verb in (["plan", str(profile)], ["simulate", str(profile), "--minutes", "1"]):
            run(verb)
            said.append(" ".join(capsys.readouterr().out.split()))
        for text in said:
            assert re.search(r"n[- ]demand (price of|in) us-(west-2|east-1), seen 20\d\d-", text), text
            assert (f"{region}'s own are not known here" in text) is told
        assert ("--budget was held against them" in said[0]) is told


def test_make_prints_words_and_no_recipe(made: Path, tmp_path: Path) -> None:
    """`make setup` and `make lock` with stand-ins for what installs: they are run, and no line of shell is shown."""
    folder = copy_of(made, tmp_path / "mine")
    places = [folder / ".venv" / "bin" / name for name in ("pip", "python", "uv")] + [tmp_path / "path" / "npm"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f'#!/bin/sh\necho "{place.name} $1" >> {tmp_path / "ran"}\n', encoding="utf-8")
        place.chmod(0o755)
    (folder / "node_modules").mkdir()
    told = {"PATH": f"{tmp_path / 'path'}:/usr/bin:/bin", "PIP_INDEX_URL": "x", "PIP_CERT": "y"}
    for goal in ("setup", "lock"):
        done = run_process(["make", goal], cwd=folder, env=told)
        assert (done.returncode, done.stderr) == (0, "")
        assert "{" not in done.stdout and "env " not in done.stdout
        assert "requirements" in done.stdout
    ran = (tmp_path / "ran").read_text(encoding="utf-8").splitlines()
    assert ran.count("uv pip") == 2 and "npm ci" in ran


@pytest.mark.parametrize("named", ["my-endpoints", "our models' endpoints", "."])
def test_what_is_next_runs_as_it_is_pasted(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a shell that stands where `init` was called; what installs and synthesizes is stood in for, git is not."""
    here, programs = tmp_path / "here", tmp_path / "bin"
    for folder in (here, programs):
        folder.mkdir()
    stand_ins = {
        "make": "test -f Makefile && mkdir -p .venv/bin && touch .venv/bin/activate",
        "npx": "test -f cdk.json",
        "loadproof": 'case $1 in plan) test -f "$2";; review) git rev-parse --verify --quiet "$2";; *) exit 2;; esac',
    }
    for name, script in stand_ins.items():
        (programs / name).write_text(f"#!/bin/bash\necho {name} $@ >> {tmp_path}/called\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.chdir(here)
    assert run(["init", named, *SMALL]) == 0
    commands = capsys.readouterr().out.partition("\nNext:\n")[2]
    assert ("cd " in commands) == (named != ".")
    author = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **author, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e"], input=commands, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    called = [line.split()[:2] for line in (tmp_path / "called").read_text().splitlines()]
    assert called == [["make", "setup"], ["npx", "cdk"], ["loadproof", "plan"], ["loadproof", "review"]]
    first, *_ = (here / named / "README.md").read_text().partition("npx cdk deploy")
    assert first.index("git init") < first.index("loadproof review HEAD")


def test_a_folder_of_a_clone_is_not_made_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".git").mkdir()
    assert run(["init", str(tmp_path / "llm"), *SMALL]) == 0
    assert "\n  git add . && git commit" in capsys.readouterr().out


def _full_after(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes so many files more."""
    written, write = [0], Path.write_bytes

    def refuse(path: Path, content: bytes) -> int:
        written[0] += 1
        if written[0] > files:
            write(path, content[:9])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", refuse)


@pytest.mark.parametrize("there", [False, True])
def test_what_a_full_disk_left_is_taken_back(tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command went on to say that files were in its way; what was there before stays."""
    folder, files = tmp_path / "team", {"a.txt": b"a" * 99, "docs/deep/b.txt": b"b" * 99, "docs/c.txt": b"c" * 99}
    if there:
        (folder / "docs").mkdir(parents=True)
        (folder / "README.md").write_text("ours")
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as full:
        _full_after(2, full)
        with pytest.raises(OSError, match=r"docs/c\.txt"):
            write_new(folder, PLACE, files, {})
    assert sorted(tmp_path.rglob("*")) == before
    write_new(folder, PLACE, files, {})
    assert (folder / "docs/deep/b.txt").read_bytes() == b"b" * 99


def test_an_upgrade_goes_on_after_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is left in half, which would look like the team's own change."""
    old, new = (dict.fromkeys(("a", "b"), text * 99) for text in (b"old", b"new"))
    write_new(tmp_path, PLACE, old, {})
    manifest = read_manifest(tmp_path)
    with monkeypatch.context() as full:
        _full_after(1, full)
        with pytest.raises(OSError, match="/b"):
            apply(tmp_path, manifest, PLACE, new, changes(tmp_path, manifest, new))
    assert (tmp_path / "b").read_bytes() == old["b"] and sorted(one.name for one in tmp_path.iterdir()) == [
        ".loadproof.json",
        "a",
        "b",
    ]
    left = changes(tmp_path, read_manifest(tmp_path), new)
    assert [(one.path, one.state) for one in left] == [("b", "newer")]
