"""Image rows from the SDK's data: what changes, what stays, and that ours agree with it."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from loadproof.catalog.readers import DATA, rows
from loadproof.catalog.sdk_images import as_csv, refreshed
from loadproof.cli.catalog.refresh import FOLDER, PACKAGE, sdk_data, sdk_files
from loadproof.errors import InputError

COLUMNS = ["family", "version", "account_group", "repository", "tag", "cuda", "protocol", "absent_regions"]


def entry(prefix: str, regions: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"registries": regions, "repository": "images", "tag_prefix": prefix, **more}


def folder_of(path: Path, versions: dict[str, dict[str, Any]]) -> Path:
    """The SDK's four files; LMI's has no `inference` level, as in the SDK."""
    for family, (file, _) in sdk_files().items():
        found = {"versions": versions.get(family, {})}
        (path / file).write_text(json.dumps(found if family == "lmi" else {"inference": found}), encoding="utf-8")
    return path


HERE = {"us-east-1": "111111111111", "cn-north-1": "222222222222"}
OURS = {
    "family": "lmi",
    "version": "0.2.0",
    "account_group": "dlc",
    "repository": "images",
    "tag": "0.2.0-lmi9-cu124",
    "cuda": "12.4",
    "protocol": "lmi",
    "absent_regions": "",
    "source": "an older SDK",
    "date": "2026-01-01",
}
ACCOUNTS = [
    {
        "account_group": "dlc",
        "region": region,
        "partition": partition,
        "dns_suffix": suffix,
        "account": account,
        "source": "an older SDK",
        "date": "2026-01-01",
    }
    for (region, account), partition, suffix in zip(
        sorted(HERE.items()), ("aws-cn", "aws"), ("amazonaws.com.cn", "amazonaws.com"), strict=True
    )
]


def test_nothing_changes_where_both_say_the_same(tmp_path: Path) -> None:
    """Rows keep the source and the date of the day they were first seen."""
    folder = folder_of(tmp_path, {"lmi": {"0.2.0": entry("0.2.0-lmi9-cu124", HERE)}})
    found = refreshed(folder, sdk_files(), [OURS], ACCOUNTS, sdk="sdk 9", date="2027-01-01")
    assert list(found.containers) == [OURS]
    assert list(found.accounts) == ACCOUNTS
    assert found.gone == ()


def test_newer_versions_are_added_first_and_older_ones_are_not(tmp_path: Path) -> None:
    """0.10.0 is newer than 0.2.0, not older; 0.1.0 was left out on purpose and stays out."""
    lmi = {name: entry(f"{name}-cu130", HERE) for name in ("0.1.0", "0.2.0", "0.10.0")}
    lmi["0.2.0"] = entry("0.2.0-lmi9-cu124", HERE)
    found = refreshed(folder_of(tmp_path, {"lmi": lmi}), sdk_files(), [OURS], ACCOUNTS, sdk="sdk 9", date="2027-01-01")
    assert [row["version"] for row in found.containers] == ["0.10.0", "0.2.0"]
    newest = found.containers[0]
    assert (newest["tag"], newest["cuda"], newest["date"]) == ("0.10.0-cu130", "13.0", "2027-01-01")
    assert newest["source"] == "sdk 9 sagemaker/core/image_uri_config/djl-lmi.json"


def test_a_changed_tag_and_a_missing_region_are_taken_over(tmp_path: Path) -> None:
    """With a new source and date; the tag of TGI is put together from four parts."""
    tgi = {
        "3.0.0": entry(
            "2.4.0-tgi3.0.0",
            {"us-east-1": "111111111111"},
            container_version={"gpu": "cu124-ubuntu22.04"},
            py_versions=["py311"],
        )
    }
    ours = OURS | {"family": "tgi", "version": "3.0.0", "tag": "old", "protocol": "tgi"}
    found = refreshed(folder_of(tmp_path, {"tgi": tgi}), sdk_files(), [ours], ACCOUNTS, sdk="sdk 9", date="2027-01-01")
    (row,) = found.containers
    assert row["tag"] == "2.4.0-tgi3.0.0-gpu-py311-cu124-ubuntu22.04"
    assert (row["absent_regions"], row["date"]) == ("cn-north-1", "2027-01-01")


def test_a_version_that_is_gone_is_kept_and_said(tmp_path: Path) -> None:
    """A profile may name it; its image may still be there."""
    found = refreshed(folder_of(tmp_path, {}), sdk_files(), [OURS], ACCOUNTS, sdk="sdk 9", date="2027-01-01")
    assert list(found.containers) == [OURS]
    assert found.gone == ("lmi 0.2.0",)


def test_new_regions_come_with_their_partition_and_isolated_ones_do_not(tmp_path: Path) -> None:
    """us-gov has a partition of its own; a profile cannot name us-iso, eu-isoe or eusc regions."""
    more = HERE | {
        "us-gov-west-1": "3",
        "us-iso-east-1": "4",
        "eu-isoe-west-1": "5",
        "eusc-de-east-1": "6",
        "mx-central-1": "7",
    }
    folder = folder_of(tmp_path, {"lmi": {"0.2.0": entry("0.2.0-lmi9-cu124", more)}})
    found = refreshed(folder, sdk_files(), [OURS], ACCOUNTS, sdk="sdk 9", date="2027-01-01")
    assert [(row["region"], row["partition"], row["account"]) for row in found.accounts] == [
        ("cn-north-1", "aws-cn", "222222222222"),
        ("mx-central-1", "aws", "7"),
        ("us-east-1", "aws", "111111111111"),
        ("us-gov-west-1", "aws-us-gov", "3"),
    ]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"versions": {"1": {}}}'])
def test_data_of_another_form_is_refused(tmp_path: Path, content: str | None) -> None:
    """A later SDK may keep it elsewhere: said, not guessed."""
    folder = folder_of(tmp_path, {})
    if content is None:
        (folder / "vllm.json").unlink()
    else:
        (folder / "vllm.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"vllm\.json: (cannot be read|not the image data known here)"):
        refreshed(folder, sdk_files(), [OURS], ACCOUNTS, sdk="sdk 9", date="2027-01-01")


def test_tables_are_written_as_they_are_read() -> None:
    """Our own files come back byte for byte, line ends apart: a refresh shows only what it changes."""
    for name in ("containers.csv", "accounts.csv"):
        table = rows(name)
        text = as_csv(table, list(table[0]))
        assert text.splitlines() == (DATA / name).read_text(encoding="utf-8").splitlines()


def installed() -> bool:
    try:
        return distribution(PACKAGE) is not None
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not installed(), reason="the extra `sagemaker` is not installed: nothing to compare our rows with")
def test_our_rows_agree_with_the_installed_sdk() -> None:
    """Each version and region of ours is in the SDK with the same tag and account; it may know newer ones besides."""
    folder, sdk = sdk_data()
    assert str(folder).endswith(FOLDER)
    ours, accounts = rows("containers.csv"), rows("accounts.csv")
    found = refreshed(folder, sdk_files(), ours, accounts, sdk=sdk, date="2027-01-01")
    versions = {(row["family"], row["version"]) for row in ours}
    assert [row for row in found.containers if (row["family"], row["version"]) in versions] == [
        dict(row) for row in ours
    ]
    assert [dict(row) for row in accounts] == [row for row in found.accounts if row["date"] != "2027-01-01"]
    assert found.gone == ()
