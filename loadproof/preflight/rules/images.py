"""Images: whether the manifest is there that containers are started from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.preflight.needs import Image
from loadproof.preflight.rules.rule import Found, image_rule

_NO_REPOSITORY: Final = ("RepositoryNotFoundException",)
_MANIFESTS: Final = [
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
]


@image_rule(
    "LA161",
    "The image is not there",
    reason="SageMaker pulls the image when an instance has started. A tag that was never pushed, or that a lifecycle "
    "policy has removed, leaves the endpoint in Creating until its time-out.",
    mend="Push the image, or name a tag that is there.",
)
def image_missing(need: Image) -> Iterator[Found]:
    image = need.image
    named = f"{image.repository}{'@' + image.digest if image.digest else ':' + (image.tag or 'latest')}"
    wanted = {"imageDigest": image.digest} if image.digest else {"imageTag": image.tag or "latest"}
    params = {
        "registryId": image.account,
        "repositoryName": image.repository,
        "imageIds": [wanted],
        "acceptedMediaTypes": _MANIFESTS,
    }
    found = need.account.read("ecr", "batch_get_image", params, _NO_REPOSITORY)
    about = f"--registry-id {image.account} --repository-name {image.repository} --region {image.region}"
    if found is None:
        make = (
            f"aws ecr create-repository --repository-name {image.repository} --region {image.region}, then docker push"
        )
        yield Found(
            named,
            f"registry {image.account} has no repository {image.repository}",
            make,
            needed=f"image of {need.what}",
        )
    elif not found.get("images"):
        yield Found(
            named,
            f"the repository in registry {image.account} has no such image",
            f"aws ecr list-images {about}",
            needed=f"image of {need.what}",
        )
