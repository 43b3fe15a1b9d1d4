"""`loadproof catalog refresh`: what the installed sagemaker SDK would change in our rows, as a diff, and the change."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from loadproof.catalog.readers import DATA, rows
from loadproof.catalog.sdk_images import Refreshed, as_csv, refreshed
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.families import FAMILIES

PACKAGE = "sagemaker-core"  # the part of the SDK (3.x) that carries the image data
FOLDER = "sagemaker/core/image_uri_config"


def refresh_images(*, write: bool) -> int:
    """Print the diff of containers.csv and accounts.csv, and write both when asked to.

    Exit 1 when something differs and nothing was written. Raises InputError without the SDK, CouldNotRunError where
    the rows cannot be written.
    """
    folder, sdk = sdk_data()
    found = refreshed(
        folder,
        sdk_files(),
        rows("containers.csv"),
        rows("accounts.csv"),
        sdk=sdk,
        date=datetime.now(tz=UTC).date().isoformat(),
    )
    changed = {name: text for name, text in _texts(found).items() if text != _current(name)}
    for name, text in changed.items():
        lines = difflib.unified_diff(
            _current(name).splitlines(), text.splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=1
        )
        print("\n".join(lines))
    for version in found.gone:
        print(f"{version}: no longer in {sdk}; kept, since a profile may name it")
    if not changed:
        print(f"containers.csv and accounts.csv agree with {sdk}")
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
            "the sagemaker SDK is not installed; install the extra (pip install -e '.[sagemaker]', about 1 GB) "
            f"or only the part with the data (pip install --no-deps {PACKAGE})"
        ) from None
    return Path(str(found.locate_file(FOLDER))), f"{PACKAGE} {found.version} (PyPI wheel)"


def _texts(found: Refreshed) -> dict[str, str]:
    tables = {"containers.csv": found.containers, "accounts.csv": found.accounts}
    return {name: as_csv(table, list(rows(name)[0])) for name, table in tables.items()}


def _current(name: str) -> str:
    return as_csv(rows(name), list(rows(name)[0]))
