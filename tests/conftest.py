"""What every test shares: hypothesis judges examples, not how busy the machine is; and which tests are `heavy`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from sys import modules

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")

TESTS = str(Path(__file__).parent)
# What starts clouds, servers, processes and synthesis. Whoever imports it here is left out of `make test-fast`.
WORLDS = ("aws_cdk", "moto", "subprocess", "multiprocessing", "http.server", "socket", "loadproof.localcloud")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as `heavy` what drives a world: by its own file, by a helper among the tests, or by a fixture."""
    for item in items:
        assert isinstance(item, pytest.Function)
        fixtures = (each.func.__module__ for found in item._fixtureinfo.name2fixturedefs.values() for each in found)
        if any(_drives(name) for name in (item.module.__name__, *fixtures)) or item.get_closest_marker("cdk"):
            item.add_marker(pytest.mark.heavy)


@cache
def _drives(name: str) -> bool:
    """True where a module of the tests imports a world, itself or by another module of the tests."""
    module = modules.get(name)
    if module is None or not (getattr(module, "__file__", None) or "").startswith(TESTS):
        return name.startswith(WORLDS)
    return any(_drives(imported) for imported in _imported(name))


def _imported(name: str) -> Iterator[str]:
    for value in vars(modules[name]).values():
        of = getattr(value, "__module__", None) or getattr(value, "__name__", None)
        if isinstance(of, str) and of != name:
            yield of
