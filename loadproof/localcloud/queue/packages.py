"""What Lambda itself brings: the Python runtime's packages and known public layers, as folders of links.

A function that needs more must pack it; here it fails with the same ImportError as on AWS.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

# Lambda's Python runtimes ship boto3 and what it needs.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six")
# AWSLambdaPowertoolsPythonV3 ships Powertools with its extras.
_POWERTOOLS = (
    "aws_lambda_powertools",
    "jmespath",
    "typing_extensions",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_inspection",
)
_KNOWN_LAYERS = ((re.compile(r":layer:AWSLambdaPowertoolsPythonV3(-[\w-]+)?:\d+$"), _POWERTOOLS),)


class UnknownLayerError(Exception):
    """A layer whose content is not on this machine."""


def is_provided(layer_arn: str) -> bool:
    """Whether the local cloud has the content of this public layer."""
    return any(pattern.search(layer_arn) for pattern, _ in _KNOWN_LAYERS)


def layer_packages(layer_arn: str) -> tuple[str, ...]:
    """Packages of a public layer. Raises UnknownLayerError."""
    for pattern, packages in _KNOWN_LAYERS:
        if pattern.search(layer_arn):
            return packages
    raise UnknownLayerError(
        f"layer {layer_arn} is not known to the local cloud; known: AWSLambdaPowertoolsPythonV3. "
        "Pack the library with the function, or publish the layer here with its content"
    )


def link_packages(folder: Path, packages: tuple[str, ...]) -> None:
    """Fill `folder` with links to installed packages. Raises UnknownLayerError naming one that is not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in packages:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise UnknownLayerError(f"package {name} is not installed: install Loadproof with its extra [local]")
        origin = Path(spec.origin)
        source = origin.parent if spec.submodule_search_locations else origin
        link = folder / source.name
        if not link.exists():
            link.symlink_to(source.resolve())  # a sandbox has a /tmp of its own: no links that lie there
