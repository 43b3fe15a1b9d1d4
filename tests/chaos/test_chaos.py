"""The buffer under faults: every promise of its contract is kept, and a consumer with one thing broken is caught."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from chaos_crashes import Outcome, Start
from chaos_short import CAUGHT, HELD

_AT_ONCE = 4


@pytest.fixture(scope="module")
def outcomes(
    start: Start, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Outcome]]]:
    """All arms that were asked for, under way."""
    arms = HELD | {name: arm for name, (arm, _) in CAUGHT.items()}
    asked = [item.callspec.params["name"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield {name: pool.submit(arms[name], start, tmp_path_factory.mktemp("arm")) for name in asked}


@pytest.mark.parametrize("name", HELD)
def test_every_promise_is_kept(outcomes: Mapping[str, Future[Outcome]], name: str) -> None:
    """Nothing that the arm checks failed."""
    outcome = outcomes[name].result()
    assert outcome.missed == (), outcome


@pytest.mark.parametrize("name", CAUGHT)
def test_a_mutant_is_caught(outcomes: Mapping[str, Future[Outcome]], name: str) -> None:
    """The consumer with one thing broken fails the very check that is there for it."""
    outcome, check = outcomes[name].result(), CAUGHT[name][1]
    assert check in outcome.missed, outcome
