"""The image of the command line is built from a few files: those that the wheel is made of are among them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
