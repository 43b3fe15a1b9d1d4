"""Weights in S3 against the model they are said to be. The format: https://huggingface.co/docs/safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from loadproof.catalog import architecture
from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import CannotStartError
from loadproof.localcloud.model_server.weight_files import check_weights

DATA = "s3://weights/qwen"
EIGHT_BILLION = architecture("Qwen/Qwen3-8B")


class Objects:
    """Objects whose first bytes are kept, and whose sizes are said: nobody uploads 16 GB for a test."""

    def __init__(self, starts: Mapping[str, bytes], sizes: Mapping[str, int]) -> None:
        self._starts, self._sizes = starts, sizes

    def read(self, s3_uri: str) -> bytes | None:
        return self._starts.get(s3_uri)

    def start(self, s3_uri: str, length: int) -> bytes:
        return self._starts[s3_uri][:length]

    def sizes(self, s3_uri: str) -> Mapping[str, int]:
        return {uri: size for uri, size in self._sizes.items() if uri.startswith(s3_uri)}


def safetensors(tensor_bytes: int) -> tuple[bytes, int]:
    """The start of a file with one tensor, and the size of the whole."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [tensor_bytes], "data_offsets": [0, tensor_bytes]}}).encode()
    return len(header).to_bytes(8, "little") + header, 8 + len(header) + tensor_bytes


def checked(start: bytes, size: int, name: str = "model.safetensors", data: str = DATA) -> None:
    assert EIGHT_BILLION is not None
    uri = f"{DATA}/{name}"
    check_weights(ContainerView("image", {}, data, {}), EIGHT_BILLION, Objects({uri: start}, {uri: size}))


def test_letters_are_no_safetensors() -> None:
    """`wwwwwwww` as a length of the header is 8.6 * 10^18: the library says HeaderTooLarge."""
    with pytest.raises(CannotStartError, match="HeaderTooLarge"):
        checked(b"w" * 200_000, 200_000)


def test_a_header_that_is_no_json() -> None:
    with pytest.raises(CannotStartError, match="InvalidHeaderDeserialization"):
        checked((8).to_bytes(8, "little") + b"w" * 8, 16)


def test_a_file_that_is_cut_off() -> None:
    """Its header tells of 16 GB, a byte is missing."""
    start, size = safetensors(16_380_000_000)
    with pytest.raises(CannotStartError, match="MetadataIncompleteBuffer"):
        checked(start, size - 1)


def test_a_whole_file_of_another_models_size() -> None:
    """1.2 GB of a model of 0.6 billion parameters; 8.191 billion take 3.3 GB at 0.4 bytes each."""
    with pytest.raises(CannotStartError, match=r"8\.191 billion parameters take 3,276,400,000"):
        checked(*safetensors(1_200_000_000))


def test_weights_of_its_size_pass() -> None:
    """16.38 GB are published for Qwen3-8B."""
    checked(*safetensors(16_380_000_000))


@pytest.mark.parametrize(("name", "data"), [("config.json", DATA), ("model.safetensors", f"{DATA}/model.tar.gz")])
def test_without_weights_nothing_is_said(name: str, data: str) -> None:
    """The twin needs config.json alone; what an archive holds is not looked at."""
    checked(b"{}", 2, name, data)
