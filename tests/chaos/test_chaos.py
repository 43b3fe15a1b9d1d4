"""The buffer under faults: every promise of its contract is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from chaos_crashes import Outcome, Start
from chaos_mutants import MUTANTS, mutant
from chaos_short import HELD
from chaos_world import RUNTIME

_AT_ONCE = 4


@pytest.fixture(scope="module")
def outcomes(start: Start, request: pytest.FixtureRequest) -> Iterator[Mapping[str, Future[Outcome]]]:
    """All arms that were asked for, under way."""
    asked = [name for name in HELD if any(item.name.endswith(f"_kept[{name}]") for item in request.session.items)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield {name: pool.submit(HELD[name], start) for name in asked}


@pytest.mark.parametrize("name", HELD)
def test_every_promise_is_kept(outcomes: Mapping[str, Future[Outcome]], name: str) -> None:
    """Nothing that the arm checks failed."""
    outcome = outcomes[name].result()
    assert outcome.missed == (), outcome


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_has_its_line_to_break(tmp_path: Path, name: str) -> None:
    """`make chaos` shows that each is caught; the line that it changes is still there."""
    file = MUTANTS[name][0]
    assert (mutant(name, tmp_path) / "consumer" / file).read_text() != (RUNTIME / "consumer" / file).read_text()
