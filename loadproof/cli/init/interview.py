"""What `loadproof init` asks in a terminal for what no option gives; what it takes where nobody says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import typer

from loadproof import catalog
from loadproof.cli.init.first_profile import Wanted, in_flight_of, known_model
from loadproof.errors import InputError
from loadproof.terminal import for_people

_MODEL, _P95_MS, _TRAFFIC, _REGION = "Qwen/Qwen3-8B", 10_000, "4", "us-east-1"
_WRONG = "Error: "


@dataclass(frozen=True, slots=True)
class Given:
    """The options as typed; None was not."""

    model: str | None
    e2e_p95_ms: int | None
    traffic: str | None
    budget: float | None  # USD an hour
    region: str | None

    @property
    def missing(self) -> list[str]:
        """What is needed and was not typed."""
        needed = {"--model": self.model, "--p95": self.e2e_p95_ms, "--traffic": self.traffic}
        return [name for name, value in needed.items() if value is None]


def wrong(given: Given, *, defaults: bool) -> Iterator[tuple[str, str]]:
    """(option, what is wrong with it as typed, and how to mend it) of each, before anything is asked."""
    checks: dict[str, tuple[str | None, Callable[[str], object]]] = {
        "--model": (given.model, known_model),
        "--traffic": (given.traffic, lambda found: in_flight_of(found, given.e2e_p95_ms or _P95_MS)),
        "--region": (given.region, _region),
    }
    for option, (value, check) in checks.items():
        try:
            if value is not None:
                check(value)
        except InputError as error:
            yield option, str(error)
    if given.missing and not defaults and not sys.stdin.isatty():
        yield "", f"nobody to ask here: give {', '.join(given.missing)}, or --defaults"


def asked(given: Given, *, defaults: bool) -> Wanted:
    """As given; the rest as a terminal answers, or by default. With everything needed given, nothing is asked."""
    ask = bool(given.missing) and not defaults
    model, p95_ms, traffic, region = given.model, given.e2e_p95_ms, given.traffic, given.region
    if model is None:
        model = _prompted("Model (Hugging Face id)", _MODEL, known_model) if ask else _MODEL
    if p95_ms is None:
        question = "95 in 100 answers whole within (ms)"
        p95_ms = int(_prompted(question, str(_P95_MS), _milliseconds)) if ask else _P95_MS
    in_flight = partial(in_flight_of, e2e_p95_ms=p95_ms)
    if traffic is None:
        question = "Traffic: requests in flight (4) or a second (2/s)"
        traffic = _prompted(question, _TRAFFIC, in_flight) if ask else _TRAFFIC
    if region is None:
        region = _prompted("Region", _REGION, _region) if ask else _REGION
    budget = given.budget
    if budget is None and ask:
        budget = float(_prompted("USD an hour for one copy, at most (0: no limit)", "0", _usd)) or None
    return Wanted(model, p95_ms, in_flight(traffic), budget, region)


def _prompted(question: str, default: str, check: Callable[[str], object]) -> str:
    """Asked again until `check` takes it: one slip shall not cost the other answers."""

    def checked(text: str) -> str:
        try:
            check(text)
        except InputError as error:
            # The prompt says it after this word of its own.
            raise typer.BadParameter(for_people(f"{_WRONG}{error}", sys.stdout).removeprefix(_WRONG)) from None
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
        raise InputError(f"--region: expected an AWS region ({_REGION}), found `{text}`")
    if mend := catalog.misspelt_region(text.strip()):
        raise InputError(f"--region: the catalog knows no region `{text}`; {mend}")
