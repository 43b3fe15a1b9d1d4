"""What a team owns beside its profiles: app.py, cdk.json, stacks/, benchmarks/. A wheel carries these files as data."""

from __future__ import annotations

from pathlib import Path


def team_files() -> Path:
    """The folder that holds them: in a checkout where they stand, in an installation what the wheel brought."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "cdk.json").is_file() else Path(__file__).resolve().parents[1] / "scaffold_files"
