"""Reference pages come from the code and have words for everything; figures in the guides are those of the reports."""

from __future__ import annotations

import re
import sys

import pytest
from site_build import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from reference_profile import profile_page, undescribed
from reference_results import results_page, undescribed_results

from loadproof.profiles.json_schema import environment_schema, profile_schema


def test_every_key_of_profile_and_environment_has_words_and_none_is_left_over() -> None:
    """From the schema, or from scripts/reference_words.py."""
    assert undescribed() == (set(), set())


def test_every_key_of_the_result_files_has_words() -> None:
    """They are the docstrings of the types' fields."""
    assert undescribed_results() == set()


def test_every_key_that_a_profile_may_have_is_on_the_page() -> None:
    """Each part of the schema has its table, each of its keys a row."""
    page = profile_page()
    parts = profile_schema()["$defs"] | environment_schema()["$defs"] | {"Environment": environment_schema()}
    missing = []
    for name, part in parts.items():
        if name.endswith("Partial") or "properties" not in part:
            continue
        _, _, rest = page.partition(f'<a id="part-{name.lower()}"></a>\n')
        table = rest.split('<a id="part-', 1)[0]
        missing += [f"{name}.{key}" for key in part["properties"] if f"| `{key}` |" not in table]
    assert missing == []


@pytest.mark.parametrize(
    "row",
    [
        "| `lease_s` | integer 15..600, seconds | `60` |",
        "| `at_concurrency` | integer ≥ 1 | *required* without `extends` |",
        "| `input_tokens` | integer ≥ 1 or [map](#part-tokendistribution) or tokens such as ",
        "| `ttft_p95_ms` | number > 0, milliseconds | – | bound on the 95th percentile of the time to first token |",
        "| `requests_per_s_min` | number > 0, per second | – |",  # a least, not minutes
        "| `cooldown_min` | integer 5..1,440, minutes | `20` |",
        "| `max_num_seqs` | integer ≥ 1 | – | sequences in the running batch (SM_VLLM_MAX_NUM_SEQS) |",
        "| `copies` | [map](#part-copies) | its defaults |",
    ],
)
def test_a_row_of_the_profiles_page(row: str) -> None:
    """Bounds, unit, default and words, written here by hand from the schema."""
    assert row in profile_page()


@pytest.mark.parametrize(
    "row",
    [
        "### `levels[].steady_state`",
        "| `goodput_per_s` | number or null | successful ones inside every latency bound |",
        "| `outcome` | `PASS`, `FAIL`, `INCONCLUSIVE`, `INVALID`, `NOT JUDGED` | "
        "PASS, FAIL, INCONCLUSIVE, INVALID, or NOT JUDGED where there was no objective |",
        "| `schema_version` | `1`, `2` | 2; 1 in older runs |",
        "| `deployed` | map or null | image and instance type, or null |",
        "| `concurrency` | integer or null | requests in flight, of a closed loop |",
    ],
)
def test_a_row_of_the_result_files_page(row: str) -> None:
    """Type and words, written here by hand from the types."""
    assert row in results_page()


def test_figures_on_the_planners_page_are_those_of_the_reports() -> None:
    """Every percentage, and the count of pairs, stands in accuracy.md or accuracy-vllm.md."""
    docs = ROOT / "docs"
    reports = "".join((docs / name).read_text(encoding="utf-8") for name in ("accuracy.md", "accuracy-vllm.md"))
    page = (docs / "how-the-planner-works.md").read_text(encoding="utf-8")
    figures = set(re.findall(r"\d+(?:\.\d+)?%", page))
    assert len(figures) > 15
    assert {figure for figure in figures if figure not in reports} == set()
    assert "right for 26 of 26 pairs" in page
    assert "right for 26 of 26 pairs" in reports


def test_figures_of_the_comparison_are_dated() -> None:
    """The page says when it was true, and of which versions it speaks."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert re.search(r"^As of \d{4}-\d{2}-\d{2}", page, re.MULTILINE)
    assert {"llmeter 0.2.0", "guidellm 0.8.1", "AIPerf 0.13.0"} <= set(re.findall(r"[\w-]+ \d+\.\d+\.\d+", page))


def test_every_decision_is_listed_in_order() -> None:
    """docs/decisions.md has a row each, by its number."""
    listed = re.findall(
        r"^\| \[(\d+)\]\(decisions/(.+)\) \|",
        (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    files = sorted(file.name for file in (ROOT / "docs" / "decisions").glob("*.md"))
    assert listed == [(str(int(name[:4])), name) for name in files]
