"""A local cloud with the benchmark stack deployed, its image in ECR, and clients that may be late."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))  # stacks_cloud, stacks_support

# Tests share their machine: being late is no matter here.
PATIENT = """
import sys
if "loadproof.bench.remote.host" in sys.orig_argv:
    from loadproof.bench.judge import verdict
    verdict.OFFERED_AT_LEAST = 0
"""


@pytest.fixture(scope="session")
def patient_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("patient")
    (folder / "sitecustomize.py").write_text(PATIENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        yield
