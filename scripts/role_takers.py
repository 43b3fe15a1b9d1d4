"""Writes loadproof/catalog/data/role_takers.csv: the actions of each service that are given a role to run with.

From the service models of the installed botocore: an operation that makes or changes something and whose input holds a
role's ARN, at any depth. Needs the development environment:  python scripts/role_takers.py [DATE]
"""

from __future__ import annotations

import csv
import datetime
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import botocore
import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape

WRITTEN: Final = Path(__file__).resolve().parents[1] / "loadproof" / "catalog" / "data" / "role_takers.csv"
_ROLE: Final = re.compile(r"role|.*(?:role_?arn|iamrole|iaminstanceprofile|executionrole|servicerole)", re.IGNORECASE)
# What only looks, takes away, or asks for the role's own credentials.
_PASSES_NONE: Final = re.compile(
    r"(?:Assume|Batch(?:Delete|Get)|Delete|Describe|Detach|Disassociate|Get|List|Query|Remove|Search|Simulate|Validate)"
)


def role_takers() -> Mapping[str, list[str]]:
    """Service as IAM writes it -> its actions."""
    session, found = botocore.session.get_session(), dict[str, set[str]]()
    for service in session.get_available_services():
        model = session.get_service_model(service)
        for name in model.operation_names:
            asked = model.operation_model(name).input_shape
            if asked is not None and _PASSES_NONE.match(name) is None and _takes_role(asked, frozenset()):
                found.setdefault(model.signing_name, set()).add(name)
    return {service: sorted(actions) for service, actions in sorted(found.items())}


def _takes_role(shape: Shape, above: frozenset[str]) -> bool:
    if shape.name in above:  # a shape of itself
        return False
    above |= {shape.name}
    if isinstance(shape, StructureShape):
        return any(
            # Who says a message is a role too, of an enumeration.
            (_ROLE.fullmatch(name) is not None and not getattr(member, "enum", None)) or _takes_role(member, above)
            for name, member in shape.members.items()
        )
    if isinstance(shape, ListShape):
        return _takes_role(shape.member, above)
    return isinstance(shape, MapShape) and _takes_role(shape.value, above)


def main(date: str) -> None:
    with WRITTEN.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("service", "actions", "source", "date"))
        for service, actions in role_takers().items():
            writer.writerow((service, " ".join(actions), f"botocore {botocore.__version__}", date))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else datetime.datetime.now(datetime.UTC).date().isoformat())
