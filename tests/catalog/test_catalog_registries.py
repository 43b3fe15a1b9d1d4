"""Image addresses by region, from the vendored rows."""

from __future__ import annotations

import pytest

from loadproof.catalog import container_image, container_images, image_uri, layer_arn, registry
from loadproof.catalog.registries import layers, registries
from loadproof.errors import InputError


@pytest.mark.parametrize(
    ("region", "account"),
    [
        ("us-east-1", "763104351884"),
        ("af-south-1", "626614931356"),
        ("eu-south-1", "692866216735"),
        ("ap-east-1", "871362719292"),
        ("cn-north-1", "727897471807"),
    ],
)
def test_newer_regions_have_accounts_of_their_own(region: str, account: str) -> None:
    """AWS's table of deep learning container registries."""
    assert registry(region).account == account


def test_uri_of_an_image() -> None:
    """Account, region, domain of the partition, repository, tag."""
    assert image_uri(container_image("lmi", "0.38.0"), "eu-south-1") == (
        "692866216735.dkr.ecr.eu-south-1.amazonaws.com/djl-inference:0.38.0-lmi29.0.0-cu130"
    )
    assert image_uri(container_image("lmi", "0.38.0"), "cn-north-1").startswith(
        "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/"
    )


def test_a_missing_image_is_told() -> None:
    """SGLang 0.5.20 is not in the government regions, 0.5.19 is."""
    with pytest.raises(InputError, match=r"sglang 0\.5\.20 is not published in us-gov-west-1"):
        image_uri(container_image("sglang", "0.5.20"), "us-gov-west-1")
    assert image_uri(container_image("sglang", "0.5.19"), "us-gov-west-1")


def test_unknown_regions_meet_their_neighbours() -> None:
    """A typing error is answered with the regions that look like it."""
    with pytest.raises(InputError, match=r"unknown region with dlc images `us-est-1`; known: .*us-east-1"):
        registry("us-est-1")


def test_layer_of_each_partition() -> None:
    """The same layer has another account in China; where none is known nothing is guessed."""
    name = "AWSLambdaPowertoolsPythonV3-python313-arm64:27"
    assert layer_arn("powertools", "eu-west-1") == f"arn:aws:lambda:eu-west-1:017000801446:layer:{name}"
    assert layer_arn("powertools", "cn-north-1") == f"arn:aws-cn:lambda:cn-north-1:498634801083:layer:{name}"
    with pytest.raises(InputError, match="no powertools layer is known for us-gov-west-1"):
        layer_arn("powertools", "us-gov-west-1")


def test_every_row_has_a_source_and_a_date() -> None:
    """A fact without provenance is not in the catalog; tags are never `latest`."""
    for row in [*registries().values(), *layers(), *container_images()]:
        assert row.source and len(row.date) == len("2026-11-21")
    assert not [image for image in container_images() if "latest" in image.tag]


def test_absent_regions_are_known_regions() -> None:
    """A region that an image is missing from has an account, else the row would say nothing."""
    known = {region for _, region in registries()}
    for image in container_images():
        assert image.absent_regions <= known
