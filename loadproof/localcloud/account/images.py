"""Amazon ECR: registries of other accounts (AWS's hold what the catalog lists, nobody else lets us in), own images."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from moto.backends import get_backend

from loadproof.catalog import container_images
from loadproof.catalog.registries import registries
from loadproof.localcloud.wire import AwsError, Caller, Params
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
    """What a stack event says of images that this cloud cannot vouch for: own ones that its ECR lacks (the twin stands
    for them, AWS would not), and tags of AWS's registries that the catalog does not list."""
    missing, unlisted = set(), set()
    for image in _IMAGE.finditer(json.dumps(properties)):
        name = image.group().strip('"')
        if image["account"] == caller.account:
            missing |= set() if _is_kept(image) else {name}
        elif _is_unlisted(image):
            unlisted.add(name)
    said = [f"Not in this cloud's ECR, so AWS would refuse it: {', '.join(sorted(missing))}."] if missing else []
    if unlisted:
        said.append(
            f"Not among the catalog's images, so whether AWS's registry has it is not known here: "
            f"{', '.join(sorted(unlisted))}. `loadproof preflight` asks the registry."
        )
    return " ".join(said) or None


def _is_kept(image: re.Match[str]) -> bool:
    repository = get_backend("ecr")[image["account"]][image["region"]].repositories.get(image["repository"])
    kept = [] if repository is None else repository.images
    names = {name for one in kept for name in (*one.image_tags, one.get_image_digest())}
    return (image["digest"] or image["tag"] or "latest") in names


def _is_unlisted(image: re.Match[str]) -> bool:
    """An image of a registry of AWS's by a tag that the catalog does not know; digests are never known."""
    published = _published(image["region"], image["account"])
    of_aws = image["account"] in {row.account for row in registries().values()}
    return of_aws and image["tag"] not in published.get(image["repository"], ())


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
