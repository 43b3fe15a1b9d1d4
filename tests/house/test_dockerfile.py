"""The image of the command line is built from a few files: those that the wheel is made of are among them."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_image_is_given_all_that_the_wheel_is_made_of() -> None:
    """hatchling ends at the first forced include that is missing, and so would `docker build`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["force-include"], *wheel["packages"], "pyproject.toml", "requirements.txt"}
    needed |= {project["project"]["readme"], *project["project"]["license-files"]}
    copied = set()
    for line in re.findall(r"^COPY (?!--)(.+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE):
        *sources, target = line.split()
        place = target.removeprefix("/src").strip("/")
        for source in sources:
            assert place in (source, Path(source).parent.as_posix().replace(".", "")), line
            copied.add(source)
    missing = {one for one in needed if not any(one == have or one.startswith(f"{have}/") for have in copied)}
    assert missing == set()


@pytest.mark.parametrize("name", ["Dockerfile", "benchmarks/Dockerfile"])
def test_whatever_is_copied_into_an_image_is_there(name: str) -> None:
    """In the commit, not only on this disk; .dockerignore keeps none of it out."""
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    ignored = [line for line in (ROOT / ".dockerignore").read_text("utf-8").split() if "*" not in line]
    sources = [source for line in copies(ROOT / name) if not line.startswith("--from=") for source in line.split()[:-1]]
    assert sources
    for source in sources:
        assert source == "." or any(file == source or file.startswith(f"{source}/") for file in kept), source
        assert source.split("/")[0] not in ignored, source


@pytest.mark.parametrize("name", ["Dockerfile", "benchmarks/Dockerfile"])
def test_what_an_image_installs_is_supported_and_locked(name: str) -> None:
    """Python and Node as the docs name them; every file of requirements is one of hashes, and is copied first."""
    text = (ROOT / name).read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pythons = {one.removeprefix("Programming Language :: Python :: ") for one in project["classifiers"]}
    assert set(re.findall(r"/python:([\d.]+)-slim$", text, re.MULTILINE)) <= pythons
    assert set(re.findall(r"/node:(\d+)-slim", text)) <= {"22", "24"}
    copied = [source for line in copies(ROOT / name) for source in line.split()[:-1]]
    locked = re.findall(r"--require-hashes -r (\S+)", text)
    assert locked
    for file in (one.removeprefix("/src/") for one in locked):
        assert "." in copied or file in copied
        pins = (ROOT / file).read_text("utf-8")
        assert len(re.findall(r"^[a-z]\S+==", pins, re.MULTILINE)) == len(re.findall(r"^[a-z]", pins, re.MULTILINE)) > 0
        assert all("--hash=sha256:" in pin for pin in re.split(r"^(?=[a-z])", pins, flags=re.MULTILINE)[1:])


def copies(file: Path) -> list[str]:
    """What follows COPY, lines that are continued included."""
    joined = file.read_text("utf-8").replace("\\\n", " ")
    return re.findall(r"^COPY (.+)$", joined, re.MULTILINE)
