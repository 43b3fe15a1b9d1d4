"""Runs kept under a prefix of S3."""

from __future__ import annotations

from loadproof.bench.evidence.names import MARKS
from loadproof.bench.s3_store import S3Store, s3_client


class S3Place:
    """Objects under a prefix. Raises CouldNotRunError, with what S3 said, for whatever it refuses."""

    def __init__(self, uri: str) -> None:
        self._store = S3Store(uri, s3_client(attempts=4))

    @property
    def name(self) -> str:
        return self._store.uri

    def runs(self) -> dict[str, dict[str, int]]:
        sizes: dict[str, int] = {}
        while page := self._store.sizes("", max(sizes, default="")):
            sizes |= page
        folders = {key.rpartition("/")[0] for key in sizes if key.rpartition("/")[2] in MARKS}
        found: dict[str, dict[str, int]] = {folder: {} for folder in sorted(folders)}
        for key, size in sizes.items():
            folder, _, file = key.rpartition("/")
            if folder in found:
                found[folder][file] = size
        return {folder or ".": files for folder, files in found.items()}

    def read(self, run: str, file: str) -> bytes | None:
        return self._store.get(self._key(run, file))

    def create(self, run: str, file: str, body: bytes) -> bool:
        return self._store.create(self._key(run, file), body)

    def _key(self, run: str, file: str) -> str:
        return file if run == "." else f"{run}/{file}"
