"""How many prompt tokens a picture is, by the model's own grid."""

from __future__ import annotations

import re
from functools import cache
from math import ceil, floor, sqrt

from loadproof.catalog.readers import rows


@cache
def image_tokens(model_id: str, width_px: int, height_px: int) -> int | None:
    """Of one picture, the tokens around it included; None where the model's grid is not known.

    A grid: sides are rounded to whole squares, and scaled where the picture has more or fewer pixels than the model
    takes; a token each. 400 x 300 px in squares of 32 are 12 x 9.
    """
    row = next((row for row in rows("image_tokens.csv") if re.fullmatch(row["model"], model_id)), None)
    if row is None:
        return None
    around = int(row["around_tokens"])
    if row["fixed_tokens"]:
        return int(row["fixed_tokens"]) + around
    square, sides = int(row["square_px"]), (width_px, height_px)
    wide, high = (max(1, round(side / square)) for side in sides)
    pixels, least, most = wide * high * square**2, int(row["least_px"]), int(row["most_px"])
    if pixels > most:
        scale = sqrt(width_px * height_px / most)
        wide, high = (max(1, floor(side / scale / square)) for side in sides)
    elif pixels < least:
        scale = sqrt(least / (width_px * height_px))
        wide, high = (ceil(side * scale / square) for side in sides)
    return wide * high + around
