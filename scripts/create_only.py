"""Writes loadproof/catalog/data/create_only.csv: which properties of which resource types only a replacement changes.

From AWS's own resource schemas, as cfn-lint carries them, and from the CDK's service specification (which also knows
what the CloudFormation user guide says under "Update requires"); a property is create-only if either says so. Needs
the development environment and `npm ci`:  python scripts/create_only.py [DATE]
"""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
WRITTEN: Final = REPOSITORY / "loadproof" / "catalog" / "data" / "create_only.csv"
_REGION: Final = "us-east-1"  # has every type that we and our neighbours use
_SPEC: Final = REPOSITORY / "node_modules" / "@aws-cdk" / "aws-service-spec"
# `yes` and `maybe` are the specification's words for what a change of the property does.
_DUMP: Final = """
const db = require(process.argv[1]).loadAwsServiceSpecSync();
const types = {};
for (const type of db.all('resource')) {
  types[type.cloudFormationType] = Object.fromEntries(Object.entries(type.properties)
    .map(([name, property]) => [name, property.causesReplacement])
    .filter(([, replaces]) => replaces && replaces !== 'no'));
}
console.log(JSON.stringify(types));
"""
# What AWS's schema leaves out: the update call of a component has no parameter for any of these.
_OWN: Final = {
    "AWS::SageMaker::InferenceComponent": dict.fromkeys(
        ("EndpointName", "InferenceComponentName", "VariantName"),
        ("always", "UpdateInferenceComponent has no such parameter (botocore 1.44.5 service model)"),
    )
}
COLUMNS: Final = ("type", "path", "kind", "identity", "source", "date")


def main(date: str) -> None:
    specified, lint = _specified(), f"cfn-lint {importlib.metadata.version('cfn-lint')}"
    spec = f"aws-service-spec {json.loads((_SPEC / 'package.json').read_text('utf-8'))['version']}"
    schemas = dict(_schemas())
    with WRITTEN.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name in sorted(schemas.keys() | specified.keys()):
            schema, replaced = schemas.get(name, {}), specified.get(name, {})
            found = _create_only(name, schema, replaced, lint, spec)
            identity = _identity(name, schema, found)
            if not found:
                writer.writerow((name, "", "none", "", lint if name in schemas else spec, date))
            for path, (kind, source) in sorted(found.items()):
                writer.writerow((name, path, kind, "yes" if path in identity else "", source, date))


def _create_only(
    name: str, schema: dict[str, Any], replaced: dict[str, str], lint: str, spec: str
) -> dict[str, tuple[str, str]]:
    """Path -> (`always` or `conditional`, source). Where the sources differ, the stricter one holds."""
    always = set(_paths(schema, "createOnlyProperties"))
    conditional = set(_paths(schema, "conditionalCreateOnlyProperties")) - always
    found = dict.fromkeys(always, ("always", lint)) | dict.fromkeys(conditional, ("conditional", lint))
    for path, replaces in replaced.items():
        kind = "always" if replaces == "yes" else "conditional"
        if path not in found or (found[path][0], kind) == ("conditional", "always"):
            found[path] = (kind, spec)
    return found | _OWN.get(name, {})


def _identity(name: str, schema: dict[str, Any], found: dict[str, tuple[str, str]]) -> set[str]:
    """The properties that together are the resource's physical name: two resources alike in all of them collide."""
    identifiers = set(_paths(schema, "primaryIdentifier"))
    if identifiers and identifiers <= found.keys():
        return identifiers
    kind = name.rsplit("::", 1)[1]
    return {
        path for path in found if path == "Name" or (path.endswith("Name") and kind.endswith(path.removesuffix("Name")))
    }


def _paths(schema: dict[str, Any], key: str) -> Iterator[str]:
    for pointer in schema.get(key) or ():
        yield str(pointer).removeprefix("/properties/")


def _schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    spec = importlib.util.find_spec("cfnlint")
    assert spec is not None
    assert spec.submodule_search_locations
    data = Path(spec.submodule_search_locations[0]) / "data" / "schemas"
    hashes = json.loads((data / "providers" / f"{_REGION}.json").read_text("utf-8"))
    for name, file in hashes.items():
        if name.startswith("AWS::"):
            yield name, json.loads((data / "resources" / f"{file}.json").read_text("utf-8"))


def _specified() -> dict[str, dict[str, str]]:
    dump = subprocess.run(["node", "-e", _DUMP, str(_SPEC)], check=True, capture_output=True, text=True)
    types: dict[str, dict[str, str]] = json.loads(dump.stdout)
    return types


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else datetime.datetime.now(datetime.UTC).date().isoformat())
