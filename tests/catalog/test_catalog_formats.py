"""How accelerators run weights of fewer bits, as vLLM's documentation has it."""

from __future__ import annotations

import pytest

from loadproof import catalog
from loadproof.catalog.formats import DATA, FormatRow
from loadproof.catalog.readers import table


@pytest.mark.parametrize(
    ("quantization", "accelerator", "runs"),
    [
        ("fp8", "H100", "native"),
        ("fp8", "L40S", "native"),
        ("fp8", "A100-80", "unpacked"),
        ("fp8", "T4", "unpacked"),
        ("fp8", "V100", "never"),
        ("awq", "A10G", "unpacked"),
        ("awq", "V100", "never"),
        ("gptq", "V100", "unpacked"),
        ("int8", "T4", "native"),
        ("mxfp4", "H200", "unpacked"),
        ("mxfp4", "B200", "native"),
    ],
)
def test_a_format_runs_as_the_server_s_documentation_says(quantization: str, accelerator: str, runs: str) -> None:
    """FP8 has units from Ada on, is unpacked by Marlin on Turing and Ampere, and has no kernel on Volta."""
    row = catalog.format_on(quantization, accelerator)
    assert row is not None and row.runs == runs


def test_what_nobody_said_has_no_row() -> None:
    """MXFP4 on Inferentia2 is in no documentation that was read."""
    assert catalog.format_on("mxfp4", "Inferentia2") is None


def test_fp8_units_are_those_of_the_datasheets() -> None:
    """An accelerator computes in fp8 where its row has fp8 FLOP/s, and nowhere else."""
    for name, chip in catalog.accelerators().items():
        row = catalog.format_on("fp8", name)
        if row is not None:
            assert (row.runs == "native") == (chip.fp8_tflops is not None), name


def test_every_accelerator_of_the_table_is_in_the_catalog() -> None:
    """A slip in a name would be a row that nothing finds."""
    rows = table(FormatRow, DATA / "formats.csv", between=";")
    assert {name for row in rows for name in row.accelerators} <= set(catalog.accelerators())
