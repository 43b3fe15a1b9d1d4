"""What the page on workloads shows is what is said of the profile that it shows."""

from __future__ import annotations

import re
from pathlib import Path

from site_build import ROOT

from loadproof.profiles import load_profile
from loadproof.profiles.mixture import mixture_of


def test_the_sessions_of_the_workloads_page_are_as_shown(tmp_path: Path) -> None:
    """Its first block of YAML is a profile; the lines below it are what `plan` begins with."""
    page = (ROOT / "docs" / "workload.md").read_text(encoding="utf-8")
    text = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0]
    file = tmp_path / "assistant.yaml"
    file.write_text(text, encoding="utf-8")
    shown = re.findall(r"^Sessions   (.*)$", page, re.MULTILINE)
    assert shown == list(mixture_of(load_profile(file).workload).words)
