"""`loadproof plan` on terminals of every kind."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from loadproof.advice.alternatives import Alternatives
from loadproof.advice.comparison import find_alternatives
from loadproof.capacity import Plan, make_plan
from loadproof.cli.main import run
from loadproof.cli.main import run as loadproof
from loadproof.cli.plan import text as plan_text
from loadproof.errors import InputError
from loadproof.profiles import load_profile

PROFILES = Path(__file__).parents[2] / "deploy_profiles"


@cache
def planned(profile: str) -> tuple[Plan, Alternatives]:
    """The search over all machines is the same for every width."""
    loaded = load_profile(PROFILES / profile)
    return make_plan(loaded), find_alternatives(loaded)


def printed(profile: str, *, width: int, ascii_only: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    parts = plan_text.render(*planned(profile), width=width, ascii_only=ascii_only)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_no_figure_is_cut_in_80_columns() -> None:
    """Headings fold at their spaces; every row keeps its eleven columns, two of them percentiles that are judged."""
    said = printed("local-vllm/tiny-llama.yaml", width=80)
    rows = [line for line in said.splitlines() if re.match(r" +\d+│", line)]
    assert [int(row.split("│")[0]) for row in rows] == [1, 2, 4, 8, 16]
    assert all(len(row.split("│")) == 11 for row in rows)
    assert [row.split("│")[-1].strip() for row in rows] == ["", "", "", "knee", ""]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("profile", ["prod/qwen3-32b.yaml", "prod/llama-3-1-8b.yaml", "local-vllm/tiny-llama.yaml"])
def test_no_cell_is_shortened_and_no_table_is_wider_than_the_terminal(profile: str, width: int) -> None:
    """No ellipsis; only lines that are meant to run on (title, memory, counts) pass the edge."""
    said = printed(profile, width=width)
    assert "…" not in said
    assert all(len(line.rstrip()) <= width for line in said.splitlines() if re.search("[│┃━]", line))


def test_each_alternative_has_its_outlook_and_grade_in_80_columns() -> None:
    """Two machines of the longest name, one without a price."""
    _, _, table = printed("dev/llama-3-1-8b.yaml", width=80).partition("Alternatives by")
    rows = [line for line in table.splitlines() if "ml." in line and "│" in line]
    assert (
        len(rows) >= 10 and [row for row in rows if not re.search(r"│(meets|may|misses|no room) [A-D]\s*$", row)] == []
    )


def test_no_word_of_a_note_is_cut_in_80_columns() -> None:
    """A note wraps below itself: a terminal would cut it wherever its edge is."""
    lines = printed("prod/llama-3-1-8b.yaml", width=80).splitlines()
    notes = [line for line in lines if line.startswith("Note")]
    assert notes and all(len(line.rstrip()) <= 80 for line in notes)


def test_a_pipe_is_as_wide_as_columns_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And 120 columns where nothing says so."""
    for columns, widest in (("80", 80), ("100", 100), ("", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        assert loadproof(["plan", "local-vllm/tiny-llama", "--instances", "ml.g5.2xlarge,ml.g6e.2xlarge"]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) in range(widest - 20, widest + 1)


def test_every_column_has_a_heading() -> None:
    """A column of remarks is there only where there is one, and then says what it is."""
    for profile in ("dev/llama-3-1-8b.yaml", "local-vllm/tiny-llama.yaml"):
        lines = printed(profile, width=120).splitlines()
        first = next(at for at, line in enumerate(lines) if re.match("━+╇", line))
        heading = [line.split("┃") for line in lines[first - 3 : first]]
        assert all(any(line[column].strip() for line in heading) for column in range(len(heading[0])))


def test_what_a_request_waits_for_and_what_binds_is_said_in_words() -> None:
    """Shares at each level, three knees by name, what binds at two levels, the 60 s limit, the price's region."""
    said = printed("local-vllm/tiny-llama.yaml", width=120)
    for words in ("objective bound: ", "half-latency: ", "marginal gain: 8 in flight", "Binds", "60 s limit"):
        assert words in said
    assert "On-demand price of us-west-2 (= us-east-1 where both are known), seen 20" in " ".join(said.split())


def test_a_recommendation_that_changes_the_payload_says_so() -> None:
    """From TGI to vLLM clients must speak another protocol, and five goals each have their line."""
    said = printed("staging/llama-3-1-8b.yaml", width=120)
    assert "clients speak vllm's payloads instead of tgi's" in said
    for goal in ("minimum latency", "maximum throughput", "least cost per hour", "least cost per million tokens"):
        assert goal in said
    assert re.search(r"^ \*ml\.g6e\.2xlarge", said, re.MULTILINE)


def test_a_terminal_without_box_characters_still_sees_the_memory() -> None:
    """60 characters of four kinds: weights, server, KV cache, unused."""
    said = printed("dev/qwen3-32b.yaml", width=120, ascii_only=True)
    (bar,) = re.findall(r"\[(#+\++-+\.+)\]", said)
    assert len(bar) == plan_text.BAR_CHARACTERS


def test_an_environment_is_no_profile(capsys: pytest.CaptureFixture[str]) -> None:
    """`plan environment.yaml` exits 2 and says what the file is."""
    environment = PROFILES / "dev" / "environment.yaml"
    with pytest.raises(InputError, match="this is an environment, not a profile"):
        load_profile(environment)
    assert run(["plan", str(environment)]) == 2
    assert "this is an environment, not a profile; name a profile beside it" in capsys.readouterr().err
