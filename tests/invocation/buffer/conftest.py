"""One buffer on a local cloud for each file of the producer's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "cli"))  # buffer_cloud

from buffer_cloud import BufferCloud, buffer_cloud


@pytest.fixture(scope="module")  # its variables must not outlive the file: other tests of the process make clients too
def shared_buffer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BufferCloud]:
    with buffer_cloud(tmp_path_factory.mktemp("buffer"), "library") as cloud:
        yield cloud


@pytest.fixture
def cloud(shared_buffer: BufferCloud) -> BufferCloud:
    """With nothing visible in its queues."""
    shared_buffer.received()
    shared_buffer.received(dead=True)
    return shared_buffer
