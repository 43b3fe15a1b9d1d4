"""What every test shares: hypothesis judges examples, not how busy the machine is; less work for each worker; and which
tests are `heavy`."""

from __future__ import annotations

import gc
import os
import re
import signal
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
# As the command does before it loads numpy: products of small matrices by two threads take four times the processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: what tests start would hear no Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("COLUMNS", None)  # xdist's workers are given one; a test that wants a width says so

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
WORLD_IMPORT = re.compile(rf"^(?:import|from) (?:{'|'.join(map(re.escape, WORLDS))})\b", re.MULTILINE)


def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where `heavy` is left out, a file that imports a world itself need not even be imported."""
    if collection_path.suffix != ".py" or "not heavy" not in config.getoption("markexpr"):
        return None
    return True if WORLD_IMPORT.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks as `heavy` what drives a world: by its own file, by a helper among the tests, or by a fixture."""
    driving = [(f"{Path(str(one.__file__)).parent}/", vars(one).keys()) for one in _conftests(config) if _drives(one)]
    for item in items:
        assert isinstance(item, pytest.Function)
        asks = (
            str(item.path).startswith(folder) and not names.isdisjoint(item.fixturenames) for folder, names in driving
        )
        if item.get_closest_marker("cdk") or _drives(item.module) or any(asks):
            item.add_marker(pytest.mark.heavy)


def _conftests(config: pytest.Config) -> Iterator[ModuleType]:
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, ModuleType) and Path(plugin.__file__ or "").name == "conftest.py":
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
