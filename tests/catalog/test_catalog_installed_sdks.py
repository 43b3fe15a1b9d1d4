"""What installed SDKs list: hosting's own types and nothing else, and what a refresh makes of it."""

from __future__ import annotations

import gzip
import json
from importlib.metadata import distribution
from pathlib import Path

import pytest

from loadproof.catalog import host_images, instances
from loadproof.catalog.installed_sdks import ENUMERATIONS, enumeration_rows, enumerations, listed, region_rows
from loadproof.errors import InputError

BOTOCORE = Path(str(distribution("botocore").locate_file("botocore/data")))


@pytest.mark.parametrize("kind", list(ENUMERATIONS))
def test_the_pinned_sdk_lists_nothing_that_our_rows_lack(kind: str) -> None:
    """A newer botocore with a new type, host, strategy or tier fails here: `loadproof catalog refresh --write`."""
    assert set(enumerations(BOTOCORE)[kind]) == listed(kind)  # type: ignore[index, arg-type]


@pytest.mark.parametrize("name", ["ml.g7.2xlarge", "ml.g7.48xlarge", "ml.p3.8xlarge", "ml.p6e-gb200.36xlarge"])
def test_hosting_lists_it_and_the_catalog_has_its_shape(name: str) -> None:
    """Types that were unknown though SageMaker hosts them."""
    assert name in listed("instance_type")
    assert instances()[name].accelerator_count >= 1


@pytest.mark.parametrize("name", ["ml.gr6.4xlarge", "ml.gr6.8xlarge", "ml.trn2.3xlarge"])
def test_what_hosting_does_not_list_is_no_instance_of_ours(name: str) -> None:
    """They were recommended though no endpoint can run on them."""
    assert name not in listed("instance_type")
    assert name not in instances()


def test_every_instance_of_ours_is_hosted() -> None:
    """The enumeration and nothing else."""
    assert instances().keys() <= listed("instance_type")


def test_every_host_image_of_the_enumeration_has_its_row() -> None:
    """Driver and CUDA generation of each."""
    assert host_images().keys() == listed("ami")


def sdk_with(folder: Path, **changed: list[str]) -> Path:
    for kind, (service, shape) in ENUMERATIONS.items():
        file = folder / service / "2020-01-01" / "service-2.json.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        shapes = json.loads(gzip.decompress(file.read_bytes()))["shapes"] if file.exists() else {}
        shapes[shape] = {"enum": sorted({*listed(kind), *changed.get(kind, [])} - {"ml.p2.xlarge"})}
        file.write_bytes(gzip.compress(json.dumps({"shapes": shapes}).encode()))
    return folder


def test_a_refresh_adds_what_is_new_and_drops_what_is_gone(tmp_path: Path) -> None:
    """One new type, one gone; every other row keeps its source and date."""
    found = enumeration_rows(sdk_with(tmp_path, instance_type=["ml.g9.xlarge"]), sdk="botocore 9", date="2027-01-01")
    names = {row["name"]: row for row in found}
    assert names["ml.g9.xlarge"]["source"] == "botocore 9 sagemaker.ProductionVariantInstanceType"
    assert "ml.p2.xlarge" not in names
    assert names["ml.g5.xlarge"]["date"] < "2027"


def test_a_model_without_the_enumeration_is_said(tmp_path: Path) -> None:
    """An SDK of another form is an error with its name, no traceback."""
    for service in ("sagemaker", "bedrock-runtime"):
        (tmp_path / service / "1").mkdir(parents=True)
        (tmp_path / service / "1" / "service-2.json").write_text('{"shapes": {}}')
    with pytest.raises(InputError, match="no enumeration ProductionVariantInstanceType"):
        enumerations(tmp_path)


def test_regions_come_from_cfn_lint(tmp_path: Path) -> None:
    """A type's regions, sorted, without the isolated ones; a type it does not list keeps our row or has none."""
    file = tmp_path / "types.json"
    regions = {"us-west-2": ["ml.g7.2xlarge"], "eu-north-1": ["ml.g7.2xlarge"], "us-iso-east-1": ["ml.g7.2xlarge"]}
    file.write_text(json.dumps({"description": "made", **{name: {"enum": kinds} for name, kinds in regions.items()}}))
    (row,) = region_rows(file, ["ml.g7.2xlarge", "ml.p3.2xlarge"], sdk="cfn-lint 9", date="2027-01-01")
    assert row["regions"] == "eu-north-1 us-west-2"
    assert row["source"].startswith("cfn-lint 9 ")
