"""Options of the stacks' tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-snapshots", action="store_true", default=False, help="write templates as they are now")
