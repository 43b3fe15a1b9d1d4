"""Where instance types are offered: the rows are AWS's own list as cfn-lint carries it."""

from __future__ import annotations

import json
from importlib import resources

from cfnlint.helpers import REGIONS
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from loadproof import catalog


def published() -> dict[str, set[str]]:
    """Instance type -> regions, from the data of cfn-lint's rule E3642."""
    folder = resources.files("cfnlint.data.schemas.extensions.aws_sagemaker_hosting")
    by_region = json.loads(folder.joinpath("instancetype_enum.json").read_text(encoding="utf-8"))
    found: dict[str, set[str]] = {}
    for region, listed in by_region.items():
        for name in listed["enum"] if isinstance(listed, dict) else ():
            found.setdefault(name, set()).add(region)
    return found


def test_every_row_is_what_aws_publishes() -> None:
    """After an upgrade of cfn-lint this says which rows of instance_regions.csv to renew."""
    offered = published()
    assert {name: set(regions) for name, regions in catalog.instance_regions().items()} == {
        name: offered[name] for name in catalog.instances() if name in offered
    }


def test_a_new_type_is_in_few_regions() -> None:
    """ml.p6-b300.48xlarge is offered in three regions, ml.g4dn.xlarge in twenty-five."""
    assert len(catalog.instance_regions()["ml.p6-b300.48xlarge"]) == 3
    assert len(catalog.instance_regions()["ml.g4dn.xlarge"]) == 25


def test_regions_without_inference_components_are_cloudformations() -> None:
    """Regions that have endpoints and no AWS::SageMaker::InferenceComponent, as cfn-lint carries the registry."""
    types = {region: PROVIDER_SCHEMA_MANAGER.get_resource_types(region) for region in REGIONS}
    assert catalog.regions_without("inference_components") == {
        region
        for region, known in types.items()
        if "AWS::SageMaker::Endpoint" in known and "AWS::SageMaker::InferenceComponent" not in known
    }
