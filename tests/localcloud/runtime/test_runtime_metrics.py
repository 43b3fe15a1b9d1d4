"""What the runtime publishes of a component's load, from one hand-over to the next."""

from __future__ import annotations

import pytest
from runtime_harness import FakeDirectory, container

from loadproof.localcloud.runtime.metrics import Metrics
from loadproof.localcloud.runtime.target import Target, component_target

WHERE = {"InferenceComponentName": "e-main"}


@pytest.fixture
def directory() -> FakeDirectory:
    known = FakeDirectory()
    known.add_component("e", "e-main", container(), copies=2)
    return known


def target_of(directory: FakeDirectory) -> Target:
    return component_target(directory.known_endpoints["e"], directory.known_components["e-main"])


def published(metrics: Metrics, directory: FakeDirectory, name: str) -> list[float]:
    directory.metrics.clear()
    metrics.hand_over(metrics.take(), [target_of(directory)])
    return [value for _, metric, value, where in directory.metrics if metric == name and where == WHERE]


def test_concurrency_is_the_most_and_the_least_for_each_copy(directory: FakeDirectory) -> None:
    """Three at once on two copies: 1.5 a copy, from 0; while they last, nothing less; then zeros."""
    metrics, target = Metrics(directory), target_of(directory)
    with metrics.counting(target), metrics.counting(target), metrics.counting(target):
        assert published(metrics, directory, "ConcurrentRequestsPerCopy") == [0.0, 1.5]
        assert published(metrics, directory, "ConcurrentRequestsPerCopy") == [1.5]
    assert published(metrics, directory, "ConcurrentRequestsPerCopy") == [0.0, 1.5]
    assert published(metrics, directory, "ConcurrentRequestsPerCopy") == [0.0]


def test_invocations_of_a_copy_are_its_share(directory: FakeDirectory) -> None:
    """Five invocations on two copies are 2.5 a copy; without any, 0 and not nothing."""
    metrics, target = Metrics(directory), target_of(directory)
    for _ in range(5):
        with metrics.counting(target):
            pass
    assert published(metrics, directory, "InvocationsPerCopy") == [2.5]
    assert published(metrics, directory, "InvocationsPerCopy") == [0.0]


def test_what_has_no_copies_publishes_no_load(directory: FakeDirectory) -> None:
    directory.add_component("e", "e-main", container(), copies=0)
    assert published(Metrics(directory), directory, "ConcurrentRequestsPerCopy") == []
