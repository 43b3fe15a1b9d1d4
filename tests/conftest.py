"""What every test shares: hypothesis judges examples, not how busy the machine is; less work for each worker; and which
tests are `heavy`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from sys import modules
from types import ModuleType

import botocore.session
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
# Else boto3 reads a service's description for every session, and the collector walks through all of them and all tests.
botocore.session.create_loader = cache(botocore.session.create_loader)
gc.set_threshold(50_000, 20, 10)

TESTS = Path(__file__).parent
# What starts clouds, servers, processes and synthesis. Whoever imports it here is left out of `make test-fast`.
WORLDS = (
    "aws_cdk",
    "moto",
    "subprocess",
    "multiprocessing",
    "threading",
    "http.server",
    "socket",
    "loadproof.localcloud",
)


def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as `heavy` what drives a world: by its own file, by a helper among the tests, or by a fixture."""
    for item in items:
        assert isinstance(item, pytest.Function)
        if item.get_closest_marker("cdk") or any(_drives(module) for module in _modules_of(item)):
            item.add_marker(pytest.mark.heavy)


def _modules_of(item: pytest.Function) -> Iterator[ModuleType]:
    """The test's own, and each conftest of whose fixtures it asks for one."""
    yield item.module
    for plugin in item.config.pluginmanager.get_plugins():
        if isinstance(plugin, ModuleType) and plugin.__file__ and Path(plugin.__file__).name == "conftest.py":
            above = item.path.is_relative_to(Path(plugin.__file__).parent)
            if above and not vars(plugin).keys().isdisjoint(item.fixturenames):
                yield plugin


@cache
def _drives(module: ModuleType) -> bool:
    """True where a module of the tests imports a world, itself or by another module of the tests."""
    if module.__name__.startswith(WORLDS):
        return True
    if not (getattr(module, "__file__", None) or "").startswith(str(TESTS)):
        return False
    return any(_drives(one) for one in _imported(module))


def _imported(module: ModuleType) -> Iterator[ModuleType]:
    for value in vars(module).values():
        name = getattr(value, "__module__", None) or getattr(value, "__name__", None)
        imported = modules.get(name) if isinstance(name, str) else None
        if imported is not None and imported is not module:
            yield imported
