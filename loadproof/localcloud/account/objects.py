"""Objects of this cloud's S3, looked at from inside."""

from __future__ import annotations

from dataclasses import dataclass

from moto.backends import get_backend
from moto.s3.models import FakeKey

from loadproof.localcloud.runtime.outside import split_uri


@dataclass(frozen=True, slots=True)
class StoredObjects:
    """This cloud's S3, read without requests: its reader may hold what requests wait for."""

    account: str

    def read(self, s3_uri: str) -> bytes | None:
        """A whole object; None where there is none."""
        found = self._found(s3_uri)
        return None if found is None else bytes(found.value)

    def start(self, s3_uri: str, length: int) -> bytes:
        """The first bytes of an object."""
        found = self._found(s3_uri)
        return b"" if found is None else bytes(found.value[:length])

    def sizes(self, s3_uri: str) -> dict[str, int]:
        """Bytes of each object below an address."""
        bucket, prefix = split_uri(s3_uri)
        kept = get_backend("s3")[self.account]["aws"].buckets.get(bucket)
        rows = [] if kept is None else list(kept.keys.items())
        return {f"s3://{bucket}/{key}": one.size for key, one in rows if key.startswith(prefix)}

    def _found(self, s3_uri: str) -> FakeKey | None:
        bucket, key = split_uri(s3_uri)
        backend = get_backend("s3")[self.account]["aws"]
        return backend.get_object(bucket, key) if bucket in backend.buckets else None
