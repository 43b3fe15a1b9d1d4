"""The site, built once as `make site` builds it, served on loopback; and the browser of tests/browser."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_servers import Files, serving_http
from site_build import ROOT, mkdocs


def _of_the_browser_tests() -> object:
    place = ROOT / "tests" / "browser" / "conftest.py"
    spec = importlib.util.spec_from_file_location("browser_conftest_for_site", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_shared = _of_the_browser_tests()
browser = _shared.browser  # type: ignore[attr-defined]
viewport = _shared.viewport  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site") / "built"
    done = mkdocs("--site-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """`http://127.0.0.1:PORT` of the site."""
    with serving_http(functools.partial(Files, directory=str(site))) as url:
        yield url
