"""Tokens of a picture by the model's grid: published examples, and worked by hand."""

from __future__ import annotations

import pytest

from loadproof.catalog.pictures import image_tokens

QWEN = "Qwen/Qwen3-VL-8B-Instruct"


@pytest.mark.parametrize(
    ("model", "width_px", "height_px", "tokens"),
    [
        (QWEN, 400, 300, 108 + 2),  # 12 x 9 squares of 32 px; published: 18 x 24 patches, four to a token
        (QWEN, 1024, 768, 32 * 24 + 2),
        (QWEN, 100, 100, 8 * 8 + 2),  # scaled up to 256 x 256 px, the least that it takes
        (QWEN, 8192, 8192, 128 * 128 + 2),  # scaled down to 4096 x 4096
        ("google/gemma-3-27b-it", 4000, 100, 256 + 2),
        ("meta-llama/Llama-3.1-8B-Instruct", 400, 300, None),
    ],
)
def test_a_picture_is_as_many_tokens_as_its_models_grid_has_squares(
    model: str, width_px: int, height_px: int, tokens: int | None
) -> None:
    assert image_tokens(model, width_px, height_px) == tokens
