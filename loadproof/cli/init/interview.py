"""What `loadproof init` asks in a terminal for what no option gives; what it takes where nobody says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import typer

from loadproof.cli.init.first_profile import Wanted, in_flight_of, known_model
from loadproof.errors import InputError

_MODEL, _P95_MS, _TRAFFIC, _REGION = "Qwen/Qwen3-8B", 10_000, "4", "us-east-1"


@dataclass(frozen=True, slots=True)
class Given:
    """The options as typed; None was not."""

    model: str | None
    e2e_p95_ms: int | None
    traffic: str | None
    budget: float | None  # USD an hour
    region: str | None


def asked(given: Given, *, defaults: bool) -> Wanted:
    """As given; the rest as a terminal answers, or by default. With everything needed given, nothing is asked.

    Raises InputError where something is needed and nobody is there to ask.
    """
    needed = {"--model": given.model, "--p95": given.e2e_p95_ms, "--traffic": given.traffic}
    missing = [name for name, value in needed.items() if value is None]
    if missing and not defaults and not sys.stdin.isatty():
        raise InputError(f"nobody to ask here: give {', '.join(missing)}, or --defaults")
    ask = bool(missing) and not defaults
    model = given.model or (_prompted("Model (Hugging Face id)", _MODEL, known_model) if ask else _MODEL)
    p95_ms = given.e2e_p95_ms or (
        int(_prompted("95 in 100 answers whole within (ms)", str(_P95_MS), _milliseconds)) if ask else _P95_MS
    )
    question = "Traffic: requests in flight (4) or a second (2/s)"
    traffic = given.traffic or (
        _prompted(question, _TRAFFIC, lambda found: in_flight_of(found, p95_ms)) if ask else _TRAFFIC
    )
    region = given.region or (_prompted("Region", _REGION, _region) if ask else _REGION)
    budget = given.budget
    if budget is None and ask:
        budget = float(_prompted("USD an hour for one copy, at most (0: no limit)", "0", _usd)) or None
    return Wanted(model, p95_ms, in_flight_of(traffic, p95_ms), budget, region)


def _prompted(question: str, default: str, check: Callable[[str], object]) -> str:
    """Asked again until `check` takes it: one slip shall not cost the other answers."""

    def checked(text: str) -> str:
        try:
            check(text)
        except InputError as error:
            raise typer.BadParameter(str(error)) from None
        return text

    answer: str = typer.prompt(question, default=default, value_proc=checked)
    return answer


def _milliseconds(text: str) -> None:
    if not text.strip().isdigit() or int(text) < 1:
        raise InputError(f"expected whole milliseconds, at least 1, found `{text}`")


def _usd(text: str) -> None:
    if not re.fullmatch(r"\d+(\.\d+)?", text.strip()):
        raise InputError(f"expected USD an hour (2.50), or 0, found `{text}`")


def _region(text: str) -> None:
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-[0-9]", text.strip()):
        raise InputError(f"expected an AWS region ({_REGION}), found `{text}`")
