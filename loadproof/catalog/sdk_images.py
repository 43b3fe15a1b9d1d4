"""Our rows of images and registries, made again from the `sagemaker` SDK's own data (its `image_uri_config/*.json`).

Pure: takes the folder of those files. Versions that our rows know are brought up to date, versions newer than our
newest are added, nothing is dropped: a profile may name it. A row keeps its source and date unless something changed.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loadproof.errors import InputError

GROUP: Final = "dlc"
# Regions of the partitions a profile may name; the isolated ones and the sovereign cloud are not among them.
_REGION: Final = re.compile(r"(?!us-iso|eu-iso)(?:af|ap|ca|cn|eu|il|me|mx|sa|us|us-gov)-[a-z]+-\d\Z")
_CUDA: Final = re.compile(r"cu(\d\d)(\d)")
_PROVENANCE: Final = ("source", "date")
Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Both tables as they would be, and the versions of ours that the SDK no longer knows."""

    containers: tuple[Row, ...]
    accounts: tuple[Row, ...]
    gone: tuple[str, ...]


def refreshed(
    folder: Path,
    files: Mapping[str, tuple[str, str]],
    containers: Sequence[Mapping[str, str]],
    accounts: Sequence[Mapping[str, str]],
    *,
    sdk: str,
    date: str,
) -> Refreshed:
    """The tables that the files in `folder` give, by family its file and the
    payloads its images speak; `sdk` names them in the source of rows that
    changed, seen on `date`.

    Raises InputError where a file is missing or no longer has the form known here.
    """
    versions = {family: _versions(folder / file) for family, (file, _) in files.items()}
    registries = {
        region: str(account)
        for entries in versions.values()
        for entry in entries.values()
        for region, account in entry["registries"].items()
        if _REGION.match(region)
    }
    names = ",".join(file.removesuffix(".json") for file, _ in files.values())
    source = f"{sdk} sagemaker/core/image_uri_config/{{{names}}}.json"
    known = {row["region"]: row for row in accounts if row["account_group"] == GROUP}
    regions = sorted({*known, *registries})
    new_accounts = [
        _kept_unless_changed(known.get(region), _account(region, registries[region], source, date))
        if region in registries
        else dict(known[region])
        for region in regions
    ]
    rows: list[Row] = []
    gone: list[str] = []
    for family, (file, protocol) in files.items():
        ours = {row["version"]: row for row in containers if row["family"] == family}
        newest = max(map(order_of, ours), default=())
        wanted = [version for version in versions[family] if version in ours or order_of(version) > newest]
        gone += [f"{family} {version}" for version in ours if version not in versions[family]]
        for version in sorted({*wanted, *ours}, key=order_of, reverse=True):
            if version not in versions[family]:
                rows.append(dict(ours[version]))
                continue
            source = f"{sdk} sagemaker/core/image_uri_config/{file}"
            fresh = _image(version, versions[family][version], regions) | {
                "family": family,
                "protocol": protocol,
                "source": source,
                "date": date,
            }
            rows.append(_kept_unless_changed(ours.get(version), fresh))
    others = [dict(row) for row in accounts if row["account_group"] != GROUP]
    return Refreshed(tuple(rows), (*new_accounts, *others), tuple(gone))


def as_csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    """The text of a table, one line a row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def listed_versions(file: Path) -> list[str]:
    """The versions in one family's file of the SDK. Raises InputError where it has another form."""
    return list(_versions(file))


def _versions(file: Path) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        entries = content.get("inference", content)["versions"]
        for entry in entries.values():
            _ = entry["registries"].items(), entry["repository"], entry["tag_prefix"]
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); install another version of the SDK") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{file}: not the image data known here; install the SDK's version 3.27") from None
    return dict(entries)


def _image(version: str, entry: Mapping[str, Any], regions: Sequence[str]) -> Row:
    """Tag = prefix, and where the SDK lists them the processor, Python and what the image is built on."""
    tag = entry["tag_prefix"]
    if "container_version" in entry:
        tag = "-".join((tag, "gpu", entry["py_versions"][0], entry["container_version"]["gpu"]))
    cuda = _CUDA.search(tag)
    return {
        "version": version,
        "account_group": GROUP,
        "repository": entry["repository"],
        "tag": tag,
        "cuda": f"{cuda.group(1)}.{cuda.group(2)}" if cuda else "",
        "absent_regions": " ".join(region for region in regions if region not in entry["registries"]),
    }


def _account(region: str, account: str, source: str, date: str) -> Row:
    partition = "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
    return {
        "account_group": GROUP,
        "region": region,
        "partition": partition,
        "dns_suffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
        "account": account,
        "source": source,
        "date": date,
    }


def _kept_unless_changed(ours: Mapping[str, str] | None, fresh: Row) -> Row:
    if ours is None:
        return fresh
    same = all(ours[key] == value for key, value in fresh.items() if key not in _PROVENANCE)
    return dict(ours) if same else fresh


def order_of(version: str) -> tuple[int, ...]:
    """The numbers in a version, by which it is newer or older than another."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
