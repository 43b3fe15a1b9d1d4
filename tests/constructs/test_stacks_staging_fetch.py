"""The program that stages weights, against a hub on loopback and S3 as moto serves it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto_server import moto_server
from staging_hub import REPOSITORY, REVISION, Hub, served

from loadproof.constructs.staging.runtime import fetch

PREFIX = f"models/{REPOSITORY}/{REVISION}/"
PART = 5 * 1024 * 1024  # S3's smallest part
BIG = "model-00001-of-00002.safetensors"
RUNTIME = Path(fetch.__file__).parent


@dataclass(frozen=True)
class Context:
    """What Lambda says about the time left, in milliseconds."""

    left_ms: int = 900_000

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


def noise(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture
def s3(cloud: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """A bucket of this test's own, reached as the function reaches S3: through its environment."""
    for name, value in {
        "AWS_ENDPOINT_URL": cloud,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fetch, "PART_BYTES", PART)
    client = boto3.client("s3")
    client.create_bucket(Bucket=bucket_of(request))
    return client


def bucket_of(request: pytest.FixtureRequest) -> str:
    return "b" + str(abs(hash(request.node.name)))


@pytest.fixture
def bucket(s3: Any, request: pytest.FixtureRequest) -> str:
    return bucket_of(request)


# Two shards, one of three parts; what a server needs beside them; and what it does not.
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": noise(3000, 1),
    "model.safetensors.index.json": b"{}",
    BIG: noise(2 * PART + 777, 2),
    "model-00002-of-00002.safetensors": noise(4096, 3),
    "LICENSE.txt": b"be good",
    "chat template.jinja": b"{{ messages }}",
    "modeling_chat.py": b"import os",
    "consolidated.safetensors": noise(64, 4),
    "pytorch_model.bin": b"a pickle",
    "original/consolidated.00.pth": b"a pickle",
    ".gitattributes": b"*",
    "../escape.json": b"{}",
}
LARGE = frozenset(name for name in FILES if name.endswith((".safetensors", ".bin", ".pth")))


@pytest.fixture
def hub() -> Iterator[Hub]:
    with served(Hub(dict(FILES), LARGE)) as running:
        yield running


def source(hub: Hub, bucket: str, **more: Any) -> dict[str, Any]:
    place = {"bucket": bucket, "prefix": PREFIX, "hub": hub.address}
    return {**place, "repository": REPOSITORY, "revision": REVISION, "code": False, **more}


def listed(hub: Hub, bucket: str, **more: Any) -> list[dict[str, Any]]:
    return fetch.handler({"step": "list", "source": source(hub, bucket, **more)}, Context())


def copied(hub: Hub, bucket: str, path: str, left_ms: int = 900_000) -> bool:
    (file,) = [file for file in listed(hub, bucket) if file["path"] == path]
    return bool(fetch.handler({"step": "copy", "source": source(hub, bucket), "file": file}, Context(left_ms))["done"])


def stored(s3: Any, bucket: str) -> dict[str, bytes]:
    found = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
    return {one["Key"]: s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read() for one in found}


def test_a_whole_repository(hub: Hub, s3: Any, bucket: str) -> None:
    """Safetensors and what describes them lie under models/<repository>/<commit>/, byte for byte; nothing else does."""
    for file in listed(hub, bucket):
        assert copied(hub, bucket, file["path"])
    names = [
        "LICENSE.txt",
        "chat template.jinja",
        "config.json",
        BIG,
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
    ]
    assert stored(s3, bucket) == {PREFIX + name: hub.files[name] for name in names}
    assert sorted(part for part in hub.ranges if part[0] == BIG) == [
        (BIG, 0, PART),
        (BIG, PART, 2 * PART),
        (BIG, 2 * PART, 2 * PART + 777),
    ]


def test_code_comes_only_where_the_profile_trusts_it(hub: Hub, bucket: str) -> None:
    """trust_remote_code brings the repository's Python along; without it not even the files are there."""
    assert "modeling_chat.py" not in {file["path"] for file in listed(hub, bucket)}
    assert "modeling_chat.py" in {file["path"] for file in listed(hub, bucket, code=True)}


def test_sums_are_the_commits(hub: Hub, bucket: str) -> None:
    """Large files are known by SHA-256 and by their own size, small ones as `git hash-object` names them."""
    files = {file["path"]: file for file in listed(hub, bucket)}
    assert files[BIG]["bytes"] == 2 * PART + 777
    assert len(files[BIG]["sha256"]) == 64
    assert files["LICENSE.txt"] == {
        "path": "LICENSE.txt",
        "bytes": 7,
        "git": "ae1786db5f6e78fa05328704b91f7eebba103b20",
    }


def test_the_token_stays_with_the_hub(hub: Hub, s3: Any, bucket: str) -> None:
    """The secret's token opens a gated repository, and is not sent on to where the hub keeps its bytes."""
    secrets = boto3.client("secretsmanager")
    arn = secrets.create_secret(Name=bucket, SecretString='{"token": "hf_open"}')["ARN"]
    hub.token = "hf_open"
    with_token = source(hub, bucket, secret=arn)
    (file,) = [one for one in listed(hub, bucket, secret=arn) if one["path"] == BIG]
    assert fetch.handler({"step": "copy", "source": with_token, "file": file}, Context()) == {"done": True}
    assert hub.tokens_at_storage == [None, None, None]


@pytest.mark.parametrize(
    ("status", "secret", "said"),
    [
        (401, False, "the hub answers 401 for acme/chat-7b at 0123456789ab: it wants a token; add token_secret_arn"),
        (403, True, "may not read it; accept the model's licence with the token's account"),
        (404, False, "the hub knows no acme/chat-7b at 0123456789ab; correct model.id or revision"),
    ],
)
def test_refusals_say_what_to_do(hub: Hub, s3: Any, bucket: str, status: int, secret: bool, said: str) -> None:
    """No repetition mends these, so they are of the kind that the state machine does not repeat."""
    hub.refuses_with = status
    more = {}
    if secret:
        made = boto3.client("secretsmanager").create_secret(Name=bucket, SecretString="hf_closed")
        more = {"secret": made["ARN"]}
    with pytest.raises(fetch.RefusedError) as refused:
        listed(hub, bucket, **more)
    assert said in str(refused.value)
    assert "hf_closed" not in str(refused.value)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_is_asked_again(hub: Hub, s3: Any, bucket: str, status: int) -> None:
    """A busy hub is no refusal: the state machine waits and repeats."""
    hub.refuses_with = status
    with pytest.raises(ConnectionError, match=f"the hub answers {status}"):
        listed(hub, bucket)


@pytest.mark.parametrize("path", [BIG, "config.json"])
def test_a_wrong_checksum_leaves_nothing(hub: Hub, s3: Any, bucket: str, path: str) -> None:
    """Bytes that are not the commit's are deleted before anybody can load them."""
    hub.wrong_sum = path
    with pytest.raises(fetch.ChecksumError, match=path):
        copied(hub, bucket, path)
    assert stored(s3, bucket) == {}


def test_a_run_whose_time_is_up_is_continued(hub: Hub, s3: Any, bucket: str) -> None:
    """With no time left nothing is begun; a later run finishes, and says so."""
    assert copied(hub, bucket, BIG, left_ms=60_000) is False
    assert hub.ranges == []
    assert copied(hub, bucket, BIG) is True
    assert len(hub.ranges) == 3


def test_a_cut_stream_is_no_part(hub: Hub, s3: Any, bucket: str) -> None:
    """An answer that ends early is an error and not a short part."""
    hub.cut_at = 1000
    with pytest.raises(ConnectionError, match="1000 bytes instead of"):
        copied(hub, bucket, BIG)
    hub.cut_at = None
    assert copied(hub, bucket, BIG)
    assert stored(s3, bucket) == {PREFIX + BIG: hub.files[BIG]}


def test_a_hub_without_ranges_is_refused(hub: Hub, s3: Any, bucket: str) -> None:
    """A mirror that answers a range with the whole file would fill S3 with repeated beginnings."""
    hub.ignores_ranges = True
    with pytest.raises((fetch.RefusedError, ConnectionError), match=r"ignores Range|bytes instead of"):
        copied(hub, bucket, BIG)
    assert stored(s3, bucket) == {}


def test_pickles_alone_are_refused(hub: Hub, bucket: str) -> None:
    """Without safetensors there is nothing to stage: pickles run code when they are loaded."""
    hub.files = {name: body for name, body in hub.files.items() if not name.endswith(".safetensors")}
    with pytest.raises(fetch.RefusedError, match="has no safetensors"):
        listed(hub, bucket)


def test_kill_and_resume(hub: Hub, s3: Any, bucket: str) -> None:
    """kill -9 in the middle of a file: the next run fetches only what S3 does not have yet."""
    hub.stall_after = 1
    program = (
        "import json, sys, fetch\n"
        "class Context:\n    def get_remaining_time_in_millis(self): return 900_000\n"
        f"fetch.PART_BYTES = {PART}\n"
        "fetch.handler(json.loads(sys.argv[1]), Context())\n"
    )
    (file,) = [file for file in listed(hub, bucket) if file["path"] == BIG]
    event = {"step": "copy", "source": source(hub, bucket), "file": file}
    child = subprocess.Popen([sys.executable, "-c", program, json.dumps(event)], cwd=RUNTIME, env=os.environ)
    uploads: list[Any] = []
    for _ in range(200):
        uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        if uploads and s3.list_parts(Bucket=bucket, Key=PREFIX + BIG, UploadId=uploads[0]["UploadId"]).get("Parts"):
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    (first,) = hub.ranges
    hub.stall_after = None
    assert copied(hub, bucket, BIG)
    assert len(hub.ranges) == 3
    assert len(set(hub.ranges)) == 3, f"{first} was fetched twice"
    assert stored(s3, bucket) == {PREFIX + BIG: hub.files[BIG]}
