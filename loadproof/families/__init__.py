"""Container families, one module each: `<name>.py` holds all that is known of one as its `FAMILY`.

A module beside these is found by itself; nothing else lists families (docs/decisions/0020-container-families.md).
"""

from __future__ import annotations

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
