"""How accelerators run weights of fewer bits: in units of their own, unpacked to 16 bits, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from loadproof.catalog.readers import DATA, table


@dataclass(frozen=True, slots=True)
class FormatRow:
    """`runs` is `native` (products in the format), `unpacked` (to 16 bits before each product: what is read and kept is
    small, what is computed is not) or `never` (no kernel)."""

    format: str
    accelerators: tuple[str, ...]
    runs: str
    source: str


def format_on(quantization: str, accelerator: str) -> FormatRow | None:
    """The row of a format on an accelerator, both by name; None where nobody said."""
    return _by_pair().get((quantization, accelerator))


@cache
def _by_pair() -> Mapping[tuple[str, str], FormatRow]:
    rows = table(FormatRow, DATA / "formats.csv", between=";")
    return {(row.format, name): row for row in rows for name in row.accelerators}
