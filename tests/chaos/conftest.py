"""The stores are started once for all worlds of a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from chaos_crashes import Start
from chaos_world import Setting, Stores, World, stores, world

_numbers = itertools.count()


@pytest.fixture(scope="session")
def where() -> Iterator[Stores]:
    with stores() as running:
        yield running


@pytest.fixture(scope="session")
def start(where: Stores, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Builds worlds; may be called from several threads at once."""
    folder = tmp_path_factory.mktemp("chaos")

    def begin(setting: Setting, **behaviour: object) -> AbstractContextManager[World]:
        return world(where, folder / f"{next(_numbers)}.jsonl", setting, **behaviour)

    return begin
