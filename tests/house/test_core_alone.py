"""The core without its extras: predicts, benchmarks and judges; what needs more says which extra, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from processes import run_process

ROOT = Path(__file__).parents[2]
PROFILE = str(ROOT / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml")


BYTECODE = 1.6  # of the source's length at most: numpy's is 1.54, most others' 1.2


@pytest.fixture(scope="module")
def closure() -> list[Distribution]:
    """What `pip install loadproof` would bring besides itself: its dependencies and theirs, no extra's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting, found = [Requirement(text) for text in project["dependencies"]], dict[str, Distribution]()
    while waiting:
        requirement = waiting.pop()
        if requirement.name in found or not (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            continue
        found[requirement.name] = distribution(requirement.name)
        waiting += [Requirement(text) for text in found[requirement.name].requires or ()]
    return list(found.values())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, closure: list[Distribution]) -> Path:
    """Links to the closure and to Loadproof, and to nothing else."""
    site = tmp_path_factory.mktemp("site")
    for found in closure:
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (site / top).symlink_to(Path(str(found.locate_file(top))))
    (site / "loadproof").symlink_to(ROOT / "loadproof")
    return site


def installed_bytes(files: Iterable[Path]) -> float:
    """Files with the bytecode that an installer makes of them; what is there already is not counted twice."""
    weighed = [file for file in files if file.suffix != ".pyc" and file.is_file()]
    return sum(file.stat().st_size * (1 + BYTECODE * (file.suffix == ".py")) for file in weighed)


def alone(site: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    return run_process(
        [sys.executable, "-S", "-P", "-m", "loadproof", *arguments],
        cwd=cwd,
        env=environment | {"PYTHONPATH": str(site), "HOME": str(cwd)},
    )


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_a_fresh_core_is_150_mb_at_most(closure: list[Distribution]) -> None:
    """Bytecode included; pip itself, which a virtual environment brings, is not counted."""
    theirs = [Path(str(file.locate())) for found in closure for file in found.files or ()]
    ours = [*(ROOT / "loadproof").rglob("*"), *(ROOT / "stacks").rglob("*"), *(ROOT / "benchmarks").rglob("*")]
    assert 50e6 < installed_bytes([*theirs, *ours]) <= 150e6  # numpy with its library is more than 50


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", PROFILE),
        ("plan", PROFILE, "--format", "json"),
        ("simulate", PROFILE, "--minutes", "0.2", "--rate", "1"),
        ("catalog", "show", "Qwen/Qwen3-8B"),
        ("schema", "profile"),
        ("evidence", "list"),
        ("doctor",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_core_does_its_work(site: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """With no CDK, no local cloud, and nothing on stderr but progress."""
    done = alone(site, *arguments, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


def test_a_run_is_judged_and_shown(site: Path, tmp_path: Path) -> None:
    """A benchmark of nothing that answers: could not run, and says so."""
    target = ("--target", "http://127.0.0.1:9", "--protocol", "openai", "--objective", "ttft_p95_ms=500")
    done = alone(site, "bench", *target, "--concurrency", "1", "--requests-per-level", "2", cwd=tmp_path)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("local", "up"), "loadproof[local]"),
        (("demo",), "loadproof[cdk,local]"),
        (("review", "HEAD~1", "HEAD"), "loadproof[cdk]"),
        (("bench", "dev/llama-3-1-8b"), "loadproof[aws]"),
        (("preflight", "dev"), "loadproof[aws]"),
        (("queue", "status", "dev/llama-3-1-8b"), "loadproof[aws]"),
        (("evidence", "list", "s3://bucket/evidence"), "loadproof[aws]"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_needs_an_extra_says_which(site: Path, tmp_path: Path, arguments: tuple[str, ...], extra: str) -> None:
    """In one line, with the command that brings it."""
    profiles = tmp_path / "deploy_profiles" / "dev"
    profiles.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "nothing yet")
    for name in ("environment.yaml", "llama-3-1-8b.yaml"):
        (profiles / name).write_text((Path(PROFILE).parent / name).read_text(encoding="utf-8"), encoding="utf-8")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "a profile")
    done = alone(site, *arguments, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.strip().splitlines()[-1].endswith(f"pip install '{extra}'")
    assert "Traceback" not in done.stderr
