"""docs/accuracy.md is what the shipped model gives: a model that changes without its report fails here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

import accuracy  # noqa: E402


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return dict(json.loads(accuracy.STORED.read_text(encoding="utf-8")))


def test_the_report_and_its_picture_are_of_the_shipped_model(stored: dict[str, Any]) -> None:
    """Every cell is predicted again; held-out figures are the stored ones of the same model."""
    for file, content in accuracy.pages(stored).items():
        assert file.read_text(encoding="utf-8") == content, f"{file.name} is stale; run scripts/accuracy.py"


def test_figures_of_another_model_are_refused(stored: dict[str, Any]) -> None:
    """Held-out figures take minutes to make again, so a page never mixes them with another model's."""
    with pytest.raises(SystemExit, match="another model"):
        accuracy.pages({**stored, "fingerprint": "0" * 16})
