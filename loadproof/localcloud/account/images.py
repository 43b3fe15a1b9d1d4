"""Amazon ECR's registries of other accounts: AWS's own hold what the catalog lists, and nobody else lets us in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from loadproof.catalog import container_images
from loadproof.catalog.registries import registries
from loadproof.localcloud.controlplane.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

TARGET = "AmazonEC2ContainerRegistry_V20150921.BatchGetImage"


def is_foreign(caller: Caller, target: str, body: bytes) -> bool:
    """Whether a request asks for images of a registry that is not the caller's own, which alone moto has."""
    if target != TARGET:
        return False
    try:
        registry = json.loads(body).get("registryId", caller.account)
    except (ValueError, AttributeError):
        return False
    return bool(registry != caller.account)


class ForeignImagesApi:
    """As an account outside sees them: manifests, nothing else."""

    def BatchGetImage(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        registry, repository = params["registryId"], params["repositoryName"]
        tags = _published(caller.region, registry).get(repository)
        if tags is None:
            raise AwsError(
                "AccessDeniedException",
                f"User: arn:aws:iam::{caller.account}:root is not authorized to perform: ecr:BatchGetImage on "
                f"resource: arn:aws:ecr:{caller.region}:{registry}:repository/{repository} because no "
                "resource-based policy allows the ecr:BatchGetImage action",
            )
        found = [one["imageTag"] for one in params["imageIds"] if one.get("imageTag") in tags]
        missing = [one for one in params["imageIds"] if one.get("imageTag") not in tags]
        return {
            "images": [_image(registry, repository, tag) for tag in found],
            "failures": [
                {"imageId": one, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
                for one in missing
            ],
        }


def _published(region: str, account: str) -> Mapping[str, set[str]]:
    """Tags by repository, of a registry of AWS's in a region. Digests are not known here, so none is there."""
    groups = {group for (group, place), row in registries().items() if place == region and row.account == account}
    found: dict[str, set[str]] = {}
    for image in container_images():
        if image.account_group in groups and region not in image.absent_regions:
            found.setdefault(image.repository, set()).add(image.tag)
    return found


def _image(registry: str, repository: str, tag: str) -> Document:
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"})
    digest = "sha256:" + hashlib.sha256(f"{registry}/{repository}:{tag}".encode()).hexdigest()
    return {
        "registryId": registry,
        "repositoryName": repository,
        "imageId": {"imageTag": tag, "imageDigest": digest},
        "imageManifest": manifest,
        "imageManifestMediaType": "application/vnd.oci.image.manifest.v1+json",
    }
