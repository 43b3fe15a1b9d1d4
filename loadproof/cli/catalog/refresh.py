"""`loadproof catalog refresh`: what the installed SDKs would change in our rows, as a diff, and the change."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from loadproof.catalog.installed_sdks import enumeration_rows, region_rows
from loadproof.catalog.readers import DATA, rows
from loadproof.catalog.sdk_images import Refreshed, as_csv, refreshed
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.families import FAMILIES

PACKAGE = "sagemaker-core"  # the part of the SDK (3.x) that carries the image data
FOLDER = "sagemaker/core/image_uri_config"
REGIONS_FILE = "cfnlint/data/schemas/extensions/aws_sagemaker_hosting/instancetype_enum.json"


def refresh_rows(*, write: bool) -> int:
    """Print what the installed SDKs would change in our rows as a diff, and write it when asked to.

    Exit 1 when something differs and nothing was written. Raises InputError where none of the SDKs is installed,
    CouldNotRunError where the rows cannot be written.
    """
    texts, named, kept = _fresh_texts()
    changed = {name: text for name, text in texts.items() if text != _current(name)}
    for name, text in changed.items():
        lines = difflib.unified_diff(
            _current(name).splitlines(), text.splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=1
        )
        print("\n".join(lines))
    for line in kept:
        print(line)
    if not changed:
        print(f"{', '.join(texts)} agree with {', '.join(named)}")
        return ExitCode.OK
    if not write:
        print("nothing written; `loadproof catalog refresh --write` does it")
        return ExitCode.MISSED
    for name, text in changed.items():
        try:
            (DATA / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CouldNotRunError(
                f"{DATA / name}: cannot be written ({error.strerror}); run it in a checkout"
            ) from None
    print(f"written: {', '.join(changed)}; read the diff before you commit it")
    return ExitCode.OK


def _fresh_texts() -> tuple[dict[str, str], list[str], list[str]]:
    """Tables as the installed SDKs have them, the names of those SDKs, and lines about what is kept or left out."""
    today = datetime.now(tz=UTC).date().isoformat()
    texts: dict[str, str] = {}
    named: list[str] = []
    kept: list[str] = []
    listing = installed("botocore", "botocore/data")
    if listing is not None:
        folder, sdk = listing
        texts["sdk_enumerations.csv"] = _text("sdk_enumerations.csv", enumeration_rows(folder, sdk=sdk, date=today))
        named.append(sdk)
    regions = installed("cfn-lint", REGIONS_FILE)
    if regions is not None:
        file, sdk = regions
        fresh = region_rows(file, [row["instance_type"] for row in rows("instances.csv")], sdk=sdk, date=today)
        texts["instance_regions.csv"] = _text("instance_regions.csv", fresh)
        named.append(sdk)
    try:
        folder, sdk = sdk_data()
    except InputError as error:
        if not texts:
            raise
        kept.append(f"containers.csv and accounts.csv are left as they are: {error}")
        return texts, named, kept
    found = refreshed(folder, sdk_files(), rows("containers.csv"), rows("accounts.csv"), sdk=sdk, date=today)
    texts |= _texts(found)
    kept += [f"{version}: no longer in {sdk}; kept, since a profile may name it" for version in found.gone]
    return texts, [*named, sdk], kept


def installed(package: str, path: str) -> tuple[Path, str] | None:
    """A file or folder of an installed package, with the package's name and version; None without it."""
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return None
    return Path(str(found.locate_file(path))), f"{package} {found.version}"


def sdk_files() -> dict[str, tuple[str, str]]:
    """Family -> its file in the SDK's image data, and the payloads its images speak."""
    return {
        family.name: (family.image.sdk_file, family.protocol)
        for family in FAMILIES.values()
        if family.image is not None and family.protocol is not None
    }


def sdk_data() -> tuple[Path, str]:
    """(folder of the image data, name and version for a row's source). Nothing of the SDK is imported: it is large.

    Raises InputError where the extra is not installed.
    """
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        raise InputError(
            "the sagemaker SDK is not installed; install the extra (pip install 'loadproof[sagemaker]', about 1 GB) "
            f"or only the part with the data (pip install --no-deps {PACKAGE})"
        ) from None
    return Path(str(found.locate_file(FOLDER))), f"{PACKAGE} {found.version} (PyPI wheel)"


def _texts(found: Refreshed) -> dict[str, str]:
    tables = {"containers.csv": found.containers, "accounts.csv": found.accounts}
    return {name: _text(name, table) for name, table in tables.items()}


def _text(name: str, table: Sequence[Mapping[str, str]]) -> str:
    return as_csv(table, list(rows(name)[0]))


def _current(name: str) -> str:
    return _text(name, rows(name))
