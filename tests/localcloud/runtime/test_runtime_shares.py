"""Which copies answer: during a deployment, by weight, on pools. Through boto3, on a directory set by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError
from runtime_harness import LocalRuntime, container, local_runtime

from loadproof.localcloud.directory import GroupView, VariantView

# The old container refuses what is longer than 16 tokens; the new one answers it.
OLD, NEW = container("tgi", {"MAX_INPUT_TOKENS": "16"}), container("tgi", {"MAX_INPUT_TOKENS": "1024"})
LONG = json.dumps({"inputs": "word " * 100, "parameters": {"max_new_tokens": 1}})


@pytest.fixture
def cloud() -> Iterator[LocalRuntime]:
    with local_runtime() as running:
        running.directory.add_component("e", "e-main", OLD)
        yield running


def deploying(cloud: LocalRuntime, share: float, old: int = 2, new: int = 2) -> None:
    groups = (
        GroupView(OLD, "ml.g5.2xlarge", 1, old, 1),
        GroupView(NEW, "ml.g5.2xlarge", 1, new, 2, following=True),
    )
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, copies=old + new, groups=groups, following_share=share)


def answers(cloud: LocalRuntime, requests: int) -> Counter[str]:
    client = cloud.client()
    found: Counter[str] = Counter()
    for _ in range(requests):
        try:
            client.invoke_endpoint(EndpointName="e", InferenceComponentName="e-main", Body=LONG)
            found["new"] += 1
        except ClientError as error:
            assert error.response["OriginalStatusCode"] == 422
            found["old"] += 1
    return found


@pytest.mark.parametrize(("share", "fewest", "most"), [(0.0, 0, 0), (0.5, 25, 75), (1.0, 100, 100)])
def test_new_copies_get_their_share_of_the_requests(cloud: LocalRuntime, share: float, fewest: int, most: int) -> None:
    """None, about half (5 standard deviations of 100 tosses), all; nothing is lost between."""
    deploying(cloud, share)
    assert fewest <= answers(cloud, 100)["new"] <= most


def test_side_without_copies_gets_nothing(cloud: LocalRuntime) -> None:
    """A share for copies that are not there yet goes to those that are."""
    deploying(cloud, 0.9, new=0)
    assert answers(cloud, 20) == {"old": 20}


def test_old_copies_drain_once_the_deployment_is_over(cloud: LocalRuntime) -> None:
    """Each generation is a group of its own; the one that nothing names any more goes."""
    deploying(cloud, 0.5)
    answers(cloud, 20)
    assert sorted(cloud.look(lambda: list(cloud.runtime.fleet.groups))) == [
        "component/e-main/ml.g5.2xlarge/1",
        "component/e-main/ml.g5.2xlarge/2",
    ]
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, container=NEW, copies=2, generation=2, groups=())
    cloud.look(cloud.runtime._sweep)
    assert cloud.look(lambda: list(cloud.runtime.fleet.groups)) == ["component/e-main/ml.g5.2xlarge/2"]
    assert answers(cloud, 5) == {"new": 5}


def test_copies_of_several_instance_types_share_by_outstanding_requests(cloud: LocalRuntime) -> None:
    """One name, two pools: idle copies of both take turns."""
    groups = (GroupView(OLD, "ml.g5.2xlarge", 1, 1, 1), GroupView(NEW, "ml.g6.2xlarge", 1, 1, 1))
    found = cloud.directory.known_components["e-main"]
    cloud.directory.known_components["e-main"] = replace(found, copies=2, groups=groups)
    assert answers(cloud, 10) == {"old": 5, "new": 5}


def test_variants_share_by_weight(cloud: LocalRuntime) -> None:
    """Weight 0 gets nothing, however many instances it has."""
    cloud.directory.add_plain("ab", OLD)
    found = cloud.directory.known_endpoints["ab"]
    (first,) = found.variants
    second = VariantView("Second", "ml.g5.2xlarge", 5, NEW, 1, weight=0.0)
    cloud.directory.known_endpoints["ab"] = replace(found, variants=(first, second))
    client = cloud.client()
    body = json.dumps({"inputs": "x", "parameters": {"max_new_tokens": 1}})
    variants = {client.invoke_endpoint(EndpointName="ab", Body=body)["InvokedProductionVariant"] for _ in range(20)}
    assert variants == {"AllTraffic"}
