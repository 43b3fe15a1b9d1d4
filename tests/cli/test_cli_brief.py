"""The brief that everything begins with: promise, cost a month, how sure, what next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from bench_summaries import a_summary
from plan_page_samples import not_fitting, plan_of, unpriced

from loadproof.advice.page.brief import brief_of as brief_of_plan
from loadproof.bench.report.brief import brief_of as brief_of_run
from loadproof.catalog import instances
from loadproof.cli.main import run
from loadproof.cli.pictures import _NAMES, browser_for, write_page
from loadproof.errors import CouldNotRunError
from loadproof.pages.brief import in_a_command

drawn = pytest.mark.skipif(
    not (os.environ.get("CI") or any(map(shutil.which, _NAMES))),
    reason="a picture is drawn by a browser: there is none",
)
PAGE = (
    "<html><head><title>x</title></head><body><main><header>first</header><p>second</p>"
    "<p style='height: 3000px'>third</p></main></body></html>"
)


def test_a_plan_costs_its_instances_times_730_hours() -> None:
    """prod/llama-3-1-8b: two ml.g6e.2xlarge at 2.80262 USD an hour are 4,092 USD a month, eight are 16,367."""
    assert instances()["ml.g6e.2xlarge"].usd_per_hour == pytest.approx(2.80262, abs=1e-4)
    said = brief_of_plan(plan_of("prod/llama-3-1-8b")).cost
    assert said.startswith("$4,092 at the expected load (2 instances); $16,367 at the most (8).")


def test_a_price_says_when_it_was_seen_and_where_its_source_is() -> None:
    """The date of the catalog's row, and the command that shows the whole source."""
    said = brief_of_plan(plan_of("prod/llama-3-1-8b")).cost
    where = "us-west-2 (= us-east-1 where both are known)"
    assert f"On-demand price of {where}, seen 2026-09-20 (`loadproof catalog show ml.g6e.2xlarge`)" in said


def test_an_unknown_price_is_not_zero() -> None:
    """Neither `$0` nor silence."""
    said = brief_of_plan(unpriced()).cost
    assert said.startswith("not known: the catalog has no on-demand price of ml.g7.2xlarge; `loadproof catalog audit`")


def test_what_does_not_fit_is_told_what_to_change() -> None:
    """Without alternatives there still is a next step."""
    brief = brief_of_plan(not_fitting())
    assert brief.promise.startswith("DOES NOT FIT: ")
    assert brief.next.startswith("raise the tensor parallel degree")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("FAIL", "`loadproof plan dev/qwen`"),
        ("INVALID", "with nothing else to do: `loadproof bench dev/qwen`"),
        ("NOT JUDGED", "objectives in the profile"),
    ],
)
def test_a_run_says_what_to_do_after_each_outcome(outcome: str, expected: str) -> None:
    """One step, with the command and the profile's own name."""
    profile = {"name": "qwen", "file": "q.yaml", "sha256": "0", "environment": "dev"}
    summary = a_summary(profile=profile, verdict={"outcome": outcome, "at_concurrency": 1})
    assert expected in brief_of_run(summary).next


@pytest.mark.parametrize("outcome", ["FAIL", "INVALID", "INCONCLUSIVE", "PASS"])
def test_a_run_without_a_profile_is_not_told_to_bench_one(outcome: str) -> None:
    """What it was started with is what measures again."""
    objectives = [{"name": "ttft_p95_ms", "bound": 500.0, "requests": 60, "more_requests": 40}]
    twin = {"local_cloud": True, "backend": "twin"}
    verdict = {"outcome": outcome, "at_concurrency": 1}
    said = brief_of_run(a_summary(verdict=verdict, objectives=objectives, conditions=twin)).next
    assert "bench PROFILE" not in said
    assert ("the same command" in said) == (outcome != "FAIL")


@pytest.mark.parametrize("name", ["x; rm -rf ~", "$(id)", "-c", "a b", "\u202eexe", "W" * 500, ""])
def test_a_command_that_readers_copy_holds_no_foreign_words(name: str) -> None:
    """A name that a shell could misread is not in it."""
    assert in_a_command(name) == "PROFILE"


def test_a_picture_needs_a_browser_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is measured or searched."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("loadproof.cli.pictures._NAMES", ("chromium",))
    with pytest.raises(CouldNotRunError, match=r"plan\.png: a picture is drawn by Chrome, Chromium or Edge"):
        browser_for(Path("plan.png"))
    assert browser_for(Path("plan.html")) is None


def test_a_browser_that_is_named_wrongly_is_bad_usage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and the variable's name."""
    monkeypatch.setenv("LOADPROOF_BROWSER", "no-such-browser")
    assert run(["plan", "prod/llama-2-7b", "--format", "html", "--output", str(tmp_path / "p.png")]) == 2
    assert "LOADPROOF_BROWSER=no-such-browser" in capsys.readouterr().err


@drawn
def test_a_png_is_the_head_alone(tmp_path: Path) -> None:
    """A real browser: 2,000 px wide, and lower than the 3,000 px of what comes third."""
    write_page(PAGE, tmp_path / "head.png")
    data = (tmp_path / "head.png").read_bytes()
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert data[1:4] == b"PNG" and zlib.crc32(data[12:29]) == int.from_bytes(data[29:33])
    assert width == 2000 and 0 < height < 1000


@drawn
def test_a_pdf_is_the_whole_page(tmp_path: Path) -> None:
    """Three thousand pixels are more than one sheet."""
    write_page(PAGE, tmp_path / "whole.pdf")
    data = (tmp_path / "whole.pdf").read_bytes()
    assert data.startswith(b"%PDF-") and data.count(b"/Type /Page\n") > 1


@drawn
def test_the_command_writes_it_from_any_folder(tmp_path: Path) -> None:
    """As a user would: a program, a file, its name on standard output."""
    profile = Path("deploy_profiles/prod/llama-2-7b.yaml").resolve()
    command = [sys.executable, "-m", "loadproof", "plan", str(profile), "--format", "html", "--output", "plan.pdf"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "plan.pdf\n"
    assert (tmp_path / "plan.pdf").read_bytes().startswith(b"%PDF-")
