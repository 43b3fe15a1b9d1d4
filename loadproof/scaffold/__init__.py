"""What a team owns beside its profiles: app.py, cdk.json, stacks/, benchmarks/. A wheel carries these files as data."""

from __future__ import annotations

from pathlib import Path


def checkout() -> Path | None:
    """The repository that this package runs from; None in an installation."""
    above = Path(__file__).resolve().parents[2]
    return above if (above / "cdk.json").is_file() else None


def team_files() -> Path:
    """The folder that holds them: in a checkout where they stand, in an installation what the wheel brought."""
    return checkout() or Path(__file__).resolve().parents[1] / "scaffold_files"
