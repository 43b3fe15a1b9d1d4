"""What is wrong with the rows: missing against the installed SDK, stale, from memory, nowhere to be looked up.

Pure: takes what the SDKs list and the day. Each finding says where, what and how to mend it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal

from loadproof.catalog.installed_sdks import ENUMERATIONS, Kind, listed
from loadproof.catalog.provenance import unverified
from loadproof.catalog.readers import container_images, host_images, instances, rows
from loadproof.catalog.sdk_images import order_of

State = Literal["missing", "not offered", "no shape", "no price", "stale", "from memory", "uncheckable"]
STALE_AFTER: Final = timedelta(days=365)
# A reader cannot look these up: a number in somebody's index, or a word for where it was found.
_UNCHECKABLE: Final = re.compile(r"public GitHub (?:file )?ids? \d|^\s*$")
_ACCELERATED: Final = re.compile(r"^ml\.(?:g\d|p\d|inf\d|trn\d)")
_SOURCED: Final = ("bedrock_models.csv", "bedrock_prefixes.csv", "bedrock_quotas.csv", "accelerators.csv")
_KEYS: Final = {"bedrock_models.csv": "model_id", "bedrock_prefixes.csv": "prefix", "accelerators.csv": "accelerator"}

_PAGE: Final = "replace the source by a page"
_ASKED: Final = {
    "bedrock_models.csv": "look at the model's card in the Bedrock user guide, and write its page down",
    "bedrock_prefixes.csv": "write down the regions of the profiles {}.* in: "
    "aws bedrock list-inference-profiles --type-equals SYSTEM_DEFINED",
}


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One row, or the lack of one."""

    table: str
    key: str
    state: State
    found: str
    mend: str


def findings(
    sdk: Mapping[Kind, Sequence[str]] | None,
    images: Mapping[str, Sequence[str]] | None,
    offered: Mapping[Kind, Sequence[str]],
    today: date,
) -> Iterator[AuditFinding]:
    """Everything to say. `sdk`: names that botocore lists; `images`: versions by family that the sagemaker SDK lists;
    each None where it is not installed. `offered`: names that a profile may write.
    """
    if sdk is not None:
        yield from _missing(sdk)
    if images is not None:
        yield from _images(images)
    yield from _not_offered(offered)
    yield from _shapes()
    yield from _prices(today)
    yield from _sources()


def _missing(sdk: Mapping[Kind, Sequence[str]]) -> Iterator[AuditFinding]:
    for kind in ENUMERATIONS:
        ours, theirs = listed(kind), frozenset(sdk[kind])
        for name in sorted(theirs - ours):
            mend = "loadproof catalog refresh --write"
            yield AuditFinding("sdk_enumerations.csv", f"{kind} {name}", "missing", "the installed SDK lists it", mend)
        for name in sorted(ours - theirs):
            found = "the installed SDK lists it no more"
            yield AuditFinding(
                "sdk_enumerations.csv", f"{kind} {name}", "stale", found, "loadproof catalog refresh --write"
            )


def _images(images: Mapping[str, Sequence[str]]) -> Iterator[AuditFinding]:
    for family, versions in images.items():
        ours = [image.version for image in container_images() if image.family == family]
        newest = max(map(order_of, ours), default=())
        for version in versions:
            if version not in ours and order_of(version) > newest:
                mend = "loadproof catalog refresh --write"
                yield AuditFinding("containers.csv", f"{family} {version}", "missing", "newer than our newest", mend)


def _not_offered(offered: Mapping[Kind, Sequence[str]]) -> Iterator[AuditFinding]:
    for kind, names in offered.items():
        for name in sorted(listed(kind) - frozenset(names)):
            found = "the API takes it, a profile cannot write it"
            yield AuditFinding("sdk_enumerations.csv", f"{kind} {name}", "not offered", found, "offer it in the schema")
    for name in sorted(listed("ami") - host_images().keys()):
        yield AuditFinding("hosts.csv", name, "missing", "hosting lists the host image", "add its driver and CUDA")


def _shapes() -> Iterator[AuditFinding]:
    for name in sorted(listed("instance_type") - instances().keys()):
        if _ACCELERATED.match(name):
            found, mend = "hosting lists it, nothing is known of its accelerators", "add a row with its source"
            yield AuditFinding("instances.csv", name, "no shape", found, mend)
    for name in sorted(instances().keys() - listed("instance_type")):
        yield AuditFinding("instances.csv", name, "stale", "hosting does not list it", "delete the row")


def _prices(today: date) -> Iterator[AuditFinding]:
    for name, row in instances().items():
        if row.usd_per_hour is None:
            yield AuditFinding("instances.csv", name, "no price", "no on-demand price", _look_up(name))
            continue
        if row.price_unverified or row.price_derived:
            found = f"price derived or to be verified: {row.price_source}"
            yield AuditFinding("instances.csv", name, "from memory", found, _look_up(name))
        if _UNCHECKABLE.search(row.price_source):
            found = f"a price nobody can look up: {row.price_source}"
            yield AuditFinding("instances.csv", name, "uncheckable", found, "name the page or the file's repository")
        if _older(row.price_date, today):
            found = f"price of {row.price_date or 'no date'}"
            yield AuditFinding("instances.csv", name, "stale", found, _look_up(name))


def _look_up(instance_type: str) -> str:
    """With any AWS account's right to read prices: nothing that is installed carries them."""
    filters = " ".join(
        f"Type=TERM_MATCH,Field={field},Value={value}"
        for field, value in (("instanceName", instance_type), ("regionCode", "us-east-1"))
    )
    return (
        "write down, with its date, the component Hosting of: "
        f"aws pricing get-products --region us-east-1 --service-code AmazonSageMaker --filters {filters}"
    )


def _sources() -> Iterator[AuditFinding]:
    for name, row in instances().items():
        if row.unverified:
            yield AuditFinding("instances.csv", name, "from memory", row.source, _PAGE)
    for table in _SOURCED:
        for one in rows(table):
            if unverified(one["source"]):
                key = one[_KEYS[table]] if table in _KEYS else one["quota_name"]
                yield AuditFinding(table, key, "from memory", one["source"], _ASKED.get(table, _PAGE).format(key))


def _older(seen: str, today: date) -> bool:
    """Whether a day, month or year is more than `STALE_AFTER` ago; the end of a month or year counts."""
    parts = [int(part) for part in seen.split("-") if part]
    if not parts:
        return True
    year, month, day = (*parts, 12, 28)[:3] if len(parts) == 1 else (*parts, 28)[:3]
    return date(year, month, day) + STALE_AFTER < today
