"""Data capture: a sample of requests and answers, written to S3 as lines of JSON in SageMaker's layout.

`s3://DESTINATION/ENDPOINT/VARIANT/yyyy/mm/dd/hh/FILE.jsonl`. Source: SageMaker developer guide, capture data from a
real-time endpoint.
"""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from loadproof.localcloud.directory import CaptureView
from loadproof.localcloud.model_server.container import ContainerRequest
from loadproof.localcloud.runtime.outside import Outside
from loadproof.wire.documents import Document


@dataclass(frozen=True, slots=True)
class File:
    """The lines of one variant since the last time."""

    s3_uri: str
    kms_key_id: str | None
    lines: list[str]


class Capture:
    """Collects on the event loop's thread; `take` hands out what `write` puts into S3 from any other."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._files: dict[tuple[str, str], File] = {}

    def record(
        self,
        view: CaptureView,
        endpoint: str,
        variant: str,
        call: ContainerRequest,
        answer: tuple[str, bytes],
    ) -> None:
        """Keep one request and its answer (content type and body), by the percentage of the configuration."""
        if self._random.random() * 100 >= view.sampling_percentage:
            return
        at = datetime.now(UTC)
        known = self._files.get((endpoint, variant))
        if known is None:
            folder = f"{view.destination_uri.rstrip('/')}/{endpoint}/{variant}/{at:%Y/%m/%d/%H}"
            name = f"{at:%M-%S}-{at.microsecond // 1000:03d}-{uuid.uuid4()}.jsonl"
            known = self._files[(endpoint, variant)] = File(f"{folder}/{name}", view.kms_key_id, [])
        known.lines.append(json.dumps(_line(view, call, answer, at)))

    def take(self) -> list[File]:
        taken, self._files = list(self._files.values()), {}
        return taken


def write(outside: Outside, files: list[File]) -> None:
    """Raises OutsideError."""
    for file in files:
        body = "".join(f"{line}\n" for line in file.lines).encode()
        outside.write(file.s3_uri, body, "application/x-jsonlines", file.kms_key_id)


def _line(view: CaptureView, call: ContainerRequest, answer: tuple[str, bytes], at: datetime) -> Document:
    captured: dict[str, Mapping[str, str]] = {}
    if view.captures_input:
        captured["endpointInput"] = _side(view, "INPUT", call.content_type, call.body)
    if view.captures_output:
        captured["endpointOutput"] = _side(view, "OUTPUT", *answer)
    metadata: Document = {"eventId": str(uuid.uuid4()), "inferenceTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    if call.custom_attributes is not None:
        metadata["customAttributes"] = [call.custom_attributes]
    return {"captureData": captured, "eventMetadata": metadata, "eventVersion": "0"}


def _side(view: CaptureView, mode: str, content_type: str, body: bytes) -> dict[str, str]:
    """Text as it is where its type is configured as CSV or JSON, anything else in base64."""
    kind = content_type.partition(";")[0].strip().lower()
    encoding = "CSV" if kind in view.csv_types else "JSON" if kind in view.json_types else "BASE64"
    data = base64.b64encode(body).decode() if encoding == "BASE64" else body.decode("utf-8", "replace")
    return {"observedContentType": content_type, "mode": mode, "data": data, "encoding": encoding}
