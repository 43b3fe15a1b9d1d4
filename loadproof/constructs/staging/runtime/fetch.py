"""One repository of the hub into S3: its list, then file by file in parts that outlive any one run.

Streams: nothing touches a disk. A run that dies or meets Lambda's limit leaves its parts in S3, and the next one goes
on after them. A file counts when it has been read back from S3 and has the checksum that the hub lists for its commit.
Hub API: https://huggingface.co/docs/hub/api
"""

import hashlib
import json
import posixpath
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from botocore.exceptions import ClientError

from loadproof.wire.documents import Document

PART_BYTES = 64 * 1024 * 1024
STREAMS = 4  # parts of one file in flight; four of them fit the function's memory
READ_BYTES_PER_S = 50_000_000  # what reading back from S3 in the region is trusted with
SPARE_MS = 120_000  # no part is begun with less time left
MOST_FILES = 1000  # a state machine hands on 256 KiB
MOST_PARTS = 10_000  # of one S3 upload
TIMEOUT_S = 60

# Weights in safetensors and what describes them. Pickles (.bin, .pt, .pth) run code when they are loaded.
SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".tiktoken", ".txt")
NAMES = re.compile(r"(?:LICENSE|NOTICE|USE_POLICY)(?:\.\w+)?\Z", re.IGNORECASE)
WHOLE = ("model.safetensors", "model.safetensors.index.json")


class RefusedError(Exception):
    """What no repetition mends: rights, a missing repository, an unusable listing."""


class ChecksumError(Exception):
    """The bytes in S3 are not the commit's; they have been deleted."""


def handler(event: Document, context: Any) -> Any:
    """A step of the state machine: `list` gives the files, `copy` says whether one of them is whole."""
    source = event["source"]
    hub = Hub(source)
    if event["step"] == "list":
        return list(hub.files())
    return {"done": Copy(hub, source, event["file"], context).run()}


class Hub:
    """The hub, or a mirror of it, at one commit of one repository."""

    def __init__(self, source: Document) -> None:
        self._address, self._repository = source["hub"].rstrip("/"), source["repository"]
        self._revision, self._with_code = source["revision"], source["code"]
        self._secret = source.get("secret")
        self._token = _secret_text(self._secret) if self._secret else None

    def files(self) -> Iterator[Document]:
        """Path, size and checksum of each file a server needs. Raises RefusedError where that is no model."""
        listed = {entry["path"]: entry for entry in self._tree() if entry.get("type") == "file"}
        chosen = [path for path in sorted(listed) if self._wanted(path, listed)]
        if not any(path.endswith(".safetensors") for path in chosen):
            raise RefusedError(f"{self._name} has no safetensors; convert the weights, or stage them yourself")
        if len(chosen) > MOST_FILES:
            raise RefusedError(f"{self._name} has {len(chosen)} files, allowed are {MOST_FILES}")
        for path in chosen:
            lfs = listed[path].get("lfs")
            sums = {"sha256": lfs["oid"].removeprefix("sha256:")} if lfs else {"git": listed[path]["oid"]}
            yield {"path": path, "bytes": int(lfs["size"] if lfs else listed[path]["size"]), **sums}

    def part(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes of a file from `start` on. Raises where fewer come: a cut stream looks like its end."""
        url = f"{self._address}/{self._repository}/resolve/{self._revision}/{urllib.parse.quote(path)}"
        headers = {"Range": f"bytes={start}-{start + length - 1}"} if length else {}
        with self._open(url, headers) as response:
            if length and response.status != 206 and start:
                raise RefusedError(f"{self._address} sends whole files only: it ignores Range")
            body: bytes = response.read(length + 1)
        if len(body) != length:
            raise ConnectionError(f"{path} at byte {start}: {len(body)} bytes instead of {length}")
        return body

    @property
    def _name(self) -> str:
        return f"{self._repository} at {self._revision[:12]}"

    def _wanted(self, path: str, listed: Document) -> bool:
        name = posixpath.basename(path)
        if any(part in ("", "..") or part.startswith(".") for part in path.split("/")):
            return False
        if name.startswith("consolidated") and any(whole in listed for whole in WHOLE):
            return False  # the same weights once more, in their maker's own layout
        code = self._with_code and name.endswith(".py")
        return code or name.endswith(SUFFIXES) or NAMES.match(name) is not None

    def _tree(self) -> Iterator[Document]:
        url = f"{self._address}/api/models/{self._repository}/tree/{self._revision}?recursive=true"
        while url:
            with self._open(url, {}) as response:
                yield from json.load(response)
                following = re.search(r'<([^>]+)>;\s*rel="next"', response.headers.get("Link", ""))
            url = urllib.parse.urljoin(url, following[1]) if following else ""

    def _open(self, url: str, headers: dict[str, str]) -> Any:
        """GET, redirects followed by hand: the token goes to the hub and never on to where it keeps the bytes."""
        for _ in range(5):
            request = urllib.request.Request(url, headers=headers)
            if self._token and _place(url) == _place(self._address):
                request.add_unredirected_header("Authorization", f"Bearer {self._token}")
            try:
                return _opener.open(request, timeout=TIMEOUT_S)
            except urllib.error.HTTPError as error:
                location = error.headers.get("Location")
                if error.code not in (301, 302, 303, 307, 308) or not location:
                    raise self._explained(error) from None
                url = urllib.parse.urljoin(url, location)
                if self._address.startswith("https:") and not url.startswith("https:"):
                    raise RefusedError(f"{self._address} redirects to an address without TLS") from None
        raise RefusedError(f"{self._address} redirects without end")

    def _explained(self, error: urllib.error.HTTPError) -> Exception:
        if error.code in (401, 403):
            token = f"the token in {self._secret} may not read it" if self._secret else "it wants a token"
            mend = "accept the model's licence with the token's account" if self._secret else "add token_secret_arn"
            return RefusedError(f"the hub answers {error.code} for {self._name}: {token}; {mend}")
        if error.code in (404, 410):
            return RefusedError(f"the hub knows no {self._name}; correct model.id or revision")
        return ConnectionError(f"the hub answers {error.code} for {self._name}")


class Copy:
    """One file on its way into S3. What has been done is asked of S3, so any run can go on where another ended."""

    def __init__(self, hub: Hub, source: Document, file: Document, context: Any) -> None:
        self._hub, self._file, self._context = hub, file, context
        self._s3: Any = boto3.client("s3")
        self._place = {"Bucket": source["bucket"], "Key": source["prefix"] + file["path"]}
        self._bytes = file["bytes"]
        # The same for every run, whatever their number: S3 takes 10,000 parts.
        self._part_bytes = max(PART_BYTES, -(-self._bytes // MOST_PARTS))

    def run(self) -> bool:
        """True when the file lies in S3 and has its checksum; False when another run has to go on."""
        fresh = self._stored_bytes() != self._bytes
        if fresh and not self._fetch():
            return False
        if fresh and self._ms_left() < SPARE_MS + 1000 * self._bytes / READ_BYTES_PER_S:
            return False
        self._verify()
        return True

    def _fetch(self) -> bool:
        if self._bytes <= self._part_bytes:
            body = self._hub.part(self._file["path"], 0, self._bytes)
            self._s3.put_object(**self._place, Body=body)
            return True
        upload = self._upload()
        have = self._parts(upload)
        count = -(-self._bytes // self._part_bytes)

        def sent(number: int) -> Document | None:
            if self._ms_left() < SPARE_MS:
                return None
            start = (number - 1) * self._part_bytes
            body = self._hub.part(self._file["path"], start, min(self._part_bytes, self._bytes - start))
            answer = self._s3.upload_part(**self._place, UploadId=upload, PartNumber=number, Body=body)
            return {"PartNumber": number, "ETag": answer["ETag"]}

        missing = [number for number in range(1, count + 1) if number not in have]
        with ThreadPoolExecutor(STREAMS) as pool:
            for number, part in zip(missing, pool.map(sent, missing), strict=True):
                if part is not None:
                    have[number] = part
        if len(have) < count:
            return False
        parts = {"Parts": [have[number] for number in sorted(have)]}
        self._s3.complete_multipart_upload(**self._place, UploadId=upload, MultipartUpload=parts)
        return True

    def _upload(self) -> str:
        """The upload an earlier run began, else a new one."""
        place = {"Bucket": self._place["Bucket"], "Prefix": self._place["Key"]}
        begun = self._s3.list_multipart_uploads(**place).get("Uploads", [])
        mine = [upload["UploadId"] for upload in begun if upload["Key"] == self._place["Key"]]
        return str(mine[0] if mine else self._s3.create_multipart_upload(**self._place)["UploadId"])

    def _parts(self, upload: str) -> dict[int, Document]:
        pages = self._s3.get_paginator("list_parts").paginate(**self._place, UploadId=upload)
        return {
            part["PartNumber"]: {"PartNumber": part["PartNumber"], "ETag": part["ETag"]}
            for page in pages
            for part in page.get("Parts", [])
        }

    def _stored_bytes(self) -> int | None:
        try:
            return int(self._s3.head_object(**self._place)["ContentLength"])
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise

    def _verify(self) -> None:
        """SHA-256 of what the hub keeps as large files, git's blob id of the rest. Raises ChecksumError."""
        wanted = self._file.get("sha256") or self._file["git"]
        digest = hashlib.sha256() if "sha256" in self._file else hashlib.sha1(b"blob %d\0" % self._bytes)  # noqa: S324  git's own
        body = self._s3.get_object(**self._place)["Body"]
        for chunk in body.iter_chunks(8 * 1024 * 1024):
            digest.update(chunk)
        if digest.hexdigest() != wanted:
            self._s3.delete_object(**self._place)
            raise ChecksumError(f"{self._file['path']}: checksum {digest.hexdigest()}, the commit has {wanted}")

    def _ms_left(self) -> float:
        return float(self._context.get_remaining_time_in_millis())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def _place(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


def _secret_text(arn: str) -> str:
    """The token: the secret's whole text, or its one value where it is kept as JSON."""
    secret = boto3.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"].strip()
    if not secret.startswith("{"):
        return str(secret)
    values = list(json.loads(secret).values())
    if len(values) != 1:
        raise RefusedError(f"{arn} holds {len(values)} values; keep the hub's token alone in a secret")
    return str(values[0])
