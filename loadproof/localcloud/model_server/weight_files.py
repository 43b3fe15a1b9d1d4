"""Weights that lie in S3, against the model that they are said to be: what a server's loader would meet first.

Nothing needs to lie there: without weights the twin goes by `config.json` or the tags. What lies there is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import orjson

from loadproof.catalog import Architecture
from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import CannotStartError

_SUFFIX: Final = ".safetensors"
_LENGTH_BYTES: Final = 8  # https://huggingface.co/docs/safetensors: the header's length, little-endian, goes first
_MOST_HEADER_BYTES: Final = 100_000_000
_LEAST_BYTES_PER_PARAMETER: Final = 0.4  # 4 bits are 0.5; no published checkpoint packs tighter


class Stored(Protocol):
    """Objects of S3, by their addresses."""

    def read(self, s3_uri: str) -> bytes | None: ...

    def start(self, s3_uri: str, length: int) -> bytes: ...

    def sizes(self, s3_uri: str) -> Mapping[str, int]: ...


def least_bytes(shape: Architecture) -> float:
    """Less than this cannot hold the model, however it is packed."""
    return shape.parameters_b * 1e9 * _LEAST_BYTES_PER_PARAMETER


def check_weights(view: ContainerView, shape: Architecture, stored: Stored) -> None:
    """Raises CannotStartError for files that are none of safetensors, cut off, or too small for the model."""
    data_uri = view.model_data_s3_uri
    if data_uri is None or view.adapter or data_uri.endswith((".tar.gz", ".tgz")):
        return
    files = {uri: size for uri, size in stored.sizes(f"{data_uri.rstrip('/')}/").items() if uri.endswith(_SUFFIX)}
    for uri, size in files.items():
        _check_file(uri, size, stored)
    total, least = sum(files.values()), least_bytes(shape)
    if files and total < least:
        raise CannotStartError(
            f"{data_uri}: {total:,} bytes of weights; {shape.parameters_b:g} billion parameters take {least:,.0f} at "
            "the very least: parameters were not initialized from the checkpoint"
        )


def _check_file(uri: str, size: int, stored: Stored) -> None:
    told = f"SafetensorError: Error while deserializing header of {uri}"
    length = int.from_bytes(stored.start(uri, _LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES:
        raise CannotStartError(f"{told}: HeaderTooSmall")
    if length > _MOST_HEADER_BYTES:
        raise CannotStartError(f"{told}: HeaderTooLarge")
    try:
        header = orjson.loads(stored.start(uri, _LENGTH_BYTES + length)[_LENGTH_BYTES:])
        ends = [row["data_offsets"][1] for name, row in header.items() if name != "__metadata__"]
    except (orjson.JSONDecodeError, AttributeError, KeyError, IndexError, TypeError):
        raise CannotStartError(f"{told}: InvalidHeaderDeserialization") from None
    if size != _LENGTH_BYTES + length + max(ends, default=0):
        raise CannotStartError(f"{told}: MetadataIncompleteBuffer")
