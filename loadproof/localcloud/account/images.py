"""Amazon ECR: registries of other accounts (AWS's hold what the catalog lists, nobody else lets us in), own images."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from moto.backends import get_backend

from loadproof.catalog import container_images
from loadproof.catalog.registries import registries
from loadproof.localcloud.controlplane.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

TARGET = "AmazonEC2ContainerRegistry_V20150921.BatchGetImage"
_IMAGE = re.compile(
    r'"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com(?:\.cn)?/(?P<repository>[\w./-]+)'
    r'(?:@(?P<digest>sha256:\w+)|:(?P<tag>[\w.-]+))?"'
)


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


def missing_images(caller: Caller, properties: Document) -> str | None:
    """What a stack event says of own images that this cloud's ECR lacks: the twin stands for them, AWS would not."""
    missing = []
    for image in _IMAGE.finditer(json.dumps(properties)):
        home = get_backend("ecr")[image["account"]][image["region"]]
        repository = home.repositories.get(image["repository"]) if image["account"] == caller.account else None
        kept = [] if repository is None else repository.images
        there = (image["digest"] or image["tag"] or "latest") in {
            name for one in kept for name in (*one.image_tags, one.get_image_digest())
        }
        if image["account"] == caller.account and not there:
            missing.append(image.group().strip('"'))
    if not missing:
        return None
    return f"Not in this cloud's ECR, so AWS would refuse it: {', '.join(sorted(set(missing)))}."


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
