"""Container families, one module each: `<name>.py` holds all that is known of one as its `FAMILY`.

A module beside these is found by itself; nothing else lists families (docs/decisions/0020-container-families.md).
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from loadproof.families.family import (
    MOUNTED_WEIGHTS,
    UNLIMITED,
    BatchLimits,
    Container,
    ContainerFamily,
    Contradiction,
    ModelVariables,
    Refusal,
    Settings,
    SpeculationMethod,
    Speculative,
)

__all__ = [
    "FAMILIES",
    "MOUNTED_WEIGHTS",
    "UNLIMITED",
    "BatchLimits",
    "Container",
    "ContainerFamily",
    "Contradiction",
    "ModelVariables",
    "Refusal",
    "Settings",
    "SpeculationMethod",
    "Speculative",
    "family_and_version",
]


def _found() -> dict[str, ContainerFamily[Any, Any]]:
    """Every module's family by name. Raises TypeError for a module without one, or with another's name."""
    found: list[ContainerFamily[Any, Any]] = []
    for module in iter_modules(__path__):
        if module.name == "family":
            continue
        family = getattr(import_module(f"{__name__}.{module.name}"), "FAMILY", None)
        if not isinstance(family, ContainerFamily) or family.name != module.name:
            raise TypeError(f"{__name__}.{module.name} has no FAMILY of that name")
        found.append(family)
    return {family.name: family for family in sorted(found, key=lambda family: (family.listed, family.name))}


FAMILIES: Final = _found()


def family_and_version(image: str) -> tuple[str, str] | None:
    """The server family and version an image URI names, None for an image of nobody's known.

    `…/djl-inference:0.38.0-lmi29.0.0-cu130` is (lmi, 0.38.0); TGI's version stands after `tgi` in its tag.
    """
    path, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    for name, family in FAMILIES.items():
        if family.image is not None and family.image.repository in path:
            found = re.search(family.image.tag_version, tag)
            return name, found.group(1) if found else ""
    return None
