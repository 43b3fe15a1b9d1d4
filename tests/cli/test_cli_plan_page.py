"""The page of a plan: it says what the document says, picture by picture and table by table."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plan_page_samples import HOSTILE, PROFILES, alternatives, hostile, not_fitting, on, plan_of, unpriced

from loadproof.advice.alternatives import GOALS
from loadproof.advice.comparison import find_alternatives
from loadproof.advice.document import plan_document
from loadproof.advice.page import page_of
from loadproof.advice.page.ladder import rungs_of
from loadproof.advice.page.levels import rows_of
from loadproof.advice.page.memory import memory_parts
from loadproof.advice.page.wording import MARKS, outcome, sentence
from loadproof.capacity import make_plan
from loadproof.capacity.outlook import ObjectiveOutlook, predicted_value
from loadproof.cli.main import run
from loadproof.cli.pictures import write_page
from loadproof.errors import InputError
from loadproof.profiles import load_profile

REPOSITORY_PROFILES = sorted(
    f"{file.parent.name}/{file.stem}" for file in PROFILES.glob("*/*.yaml") if file.stem != "environment"
)


class Page(HTMLParser):
    """Tables as rows of texts by their heading's or own id, hover titles, ids, and the visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tips: list[str] = []
        self.ids: list[str] = []
        self.described_by: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self._open.append(tag)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if found.get("aria-describedby"):
            self.described_by.append(str(found["aria-describedby"]))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "title" in self._open and "svg" in self._open:
            self.tips.append(data)
        elif "style" not in self._open:
            self.text += data


def rows(page: str, heading: str) -> list[list[str]]:
    """The first table after a section's heading id, as rows of cells without markup."""
    section = page[page.index(f'id="{heading}"') :]
    body = section[section.index("<tbody>") : section.index("</tbody>")]
    return [
        [
            " ".join(re.sub(r"<[^>]+>", " ", cell).split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    ]


def three_digits(value: float) -> float:
    return float(f"{value:.3g}")


@pytest.mark.parametrize("profile", REPOSITORY_PROFILES)
def test_levels_are_those_of_the_document(profile: str) -> None:
    """Every level of the JSON document stands in the table with its latencies, rates, cost and shares."""
    plan = plan_of(profile)
    document = plan_document(plan)
    table = {int(cells[0].replace(",", "")): cells for cells in rows(page_of(plan), "levels-title")}
    predicted = {level.concurrency: level for level in plan.levels}
    for level in document["levels"]:
        *figures, shares = table[level["concurrency"]][1:-1]
        cells = [float(cell.split()[0].replace(",", "")) for cell in [*figures, *shares.split(" · ")]]
        names = [row.name for row in plan.outlook if row.name.endswith("_ms")]
        expected = [
            *(level["batch"], level["ttft_ms"], level["ttft_last_ms"], level["tpot_ms"], level["e2e_ms"]),
            *(level["output_tokens_per_s"], level["requests_per_s"], level["cost_per_million_output_tokens_usd"]),
            *(predicted_value(name, predicted[level["concurrency"]], plan.workload) for name in names),
            *(100 * level["shares"][part] for part in ("queue", "prefill", "decode")),
        ]
        # Three significant digits are shown, and whole numbers from 100 on.
        assert cells == pytest.approx(expected, rel=0.006)


def test_ranges_stand_beside_their_figures() -> None:
    """`27.0` above `18.5 to 39.1`: each range is the document's, and holds its figure."""
    plan = plan_of("dev/llama-3-1-8b")
    table = {int(cells[0]): cells for cells in rows(page_of(plan), "levels-title")}
    for level in plan_document(plan)["levels"]:
        for column, name in ((2, "ttft_ms"), (4, "tpot_ms"), (5, "e2e_ms"), (6, "output_tokens_per_s")):
            value, low, _, high = (
                float(word.replace(",", "")) if word != "to" else 0
                for word in table[level["concurrency"]][column].split()
            )
            assert (low, high) == pytest.approx(
                (level["ranges"][name]["low"], level["ranges"][name]["high"]), rel=0.006
            )
            assert low < value < high


def test_objectives_are_those_of_the_document() -> None:
    """Each objective's prediction and outlook word are the document's."""
    plan = plan_of("prod/llama-2-7b")
    expected = plan_document(plan)["objectives"]["outlook"]
    table = rows(page_of(plan), "objectives-title")
    assert [cells[0] for cells in table] == ["TTFT p95", "TPOT p95", "Error rate"]
    for cells, row in zip(table, expected, strict=True):
        shown = float(cells[2].split()[0].replace(",", ""))
        scale = 100 if row["name"] == "error_rate_max" else 1
        assert three_digits(shown) == pytest.approx(scale * row["predicted"], rel=0.006)
        assert cells[5].endswith(row["expected"].upper())


@pytest.mark.parametrize("profile", REPOSITORY_PROFILES)
def test_the_memory_bar_fills_the_accelerator(profile: str) -> None:
    """Where a model fits, the parts of the bar add up to the accelerator's memory."""
    memory = plan_of(profile).memory
    assert sum(part.gib for part in memory_parts(memory)) == pytest.approx(memory.memory_gib)


def test_what_does_not_fit_goes_past_the_end() -> None:
    """Weights, server and one longest request exceed what is usable by the margin the sentence names."""
    plan = not_fitting()
    parts = memory_parts(plan.memory)
    assert [part.name for part in parts] == ["weights", "server", "KV cache, longest request"]
    assert sum(part.gib for part in parts) == pytest.approx(plan.memory.usable_gib - plan.memory.margin_gib)
    page = Page(page_of(plan))
    assert "DOES NOT FIT" in page.text
    assert f"{-plan.memory.margin_gib:.2f} GiB short on each T4" in page.text
    assert "Latency against throughput" not in page.text


def test_an_unknown_price_is_said_and_not_zero() -> None:
    """Cost cells say unknown; no cell says 0 USD."""
    page = page_of(unpriced())
    assert {cells[8] for cells in rows(page, "levels-title")} == {"unknown"}
    assert "unknown <small>USD/hour</small>" in page
    assert "no on-demand price is known for ml.g7.2xlarge" in page


def outlook(name: str, bound: float, low: float, predicted: float, high: float, expected: str) -> ObjectiveOutlook:
    return ObjectiveOutlook(name, "<=", bound, predicted, low, high, expected)  # type: ignore[arg-type]


MET = outlook("ttft_p95_ms", 250, 49, 74, 111, "meets")
NEAR = outlook("e2e_p95_ms", 1500, 923, 1338, 1940, "near")
MISSED = outlook("tpot_p95_ms", 10, 18.5, 26.9, 39.0, "misses")
UNKNOWN = ObjectiveOutlook("tpot_p95_ms", "<=", 10, None, None, None, "unknown")


@pytest.mark.parametrize(
    ("rows_of_outlook", "expected"),
    [
        ((MET,), "meets"),
        ((MET, NEAR), "near"),
        ((MET, UNKNOWN), "unknown"),
        ((NEAR, MISSED, MET), "misses"),
        ((), "fits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_verdict_is_that_of_the_worst_objective(
    rows_of_outlook: tuple[ObjectiveOutlook, ...], expected: str
) -> None:
    """Each outcome has its word in the title and its sentence in the page."""
    plan = replace(plan_of("dev/llama-3-1-8b"), outlook=rows_of_outlook)
    assert outcome(plan) == expected
    page = Page(page_of(plan))
    assert sentence(plan) in page.text
    assert f"{MARKS[expected][1]} (predicted) – llama-3-1-8b" in page.text


def test_memory_comes_before_objectives() -> None:
    """What does not fit, barely fits or cannot be served says so, whatever its objectives."""
    plan = plan_of("dev/llama-3-1-8b")
    barely = replace(plan, memory=replace(plan.memory, fits="marginal", margin_gib=0.7))
    assert outcome(not_fitting()) == "no"
    assert outcome(barely) == "marginal"
    assert "0.7 GiB to spare" in sentence(barely)
    unserved = replace(plan, at_objectives=None, levels=(), outlook=(MET,))
    assert outcome(unserved) == "unserved"
    assert "256 + 48 tokens is admitted at 4 in flight" in Page(page_of(unserved)).text


def test_the_deciding_objective_is_named() -> None:
    """26.9 over 10 ms misses by 169% of the bound, 1,338 over 800 ms by 67%: one is named, the other counted."""
    missed = (
        outlook("e2e_p95_ms", 800, 923, 1338, 1940, "misses"),
        outlook("tpot_p95_ms", 10, 18.5, 26.9, 39.0, "misses"),
        outlook("ttft_p95_ms", 250, 49, 74, 111, "meets"),
    )
    said = sentence(replace(plan_of("dev/llama-3-1-8b"), outlook=missed))
    assert said == (
        "TPOT p95 is predicted at 26.9 ms (18.5 to 39 ms) at 4 in flight, outside ≤\u00a010 ms; 1 more like it."
    )


def test_the_closest_bound_is_named_where_all_are_met() -> None:
    """74 of 250 ms leaves 70% of the bound, 26.9 of 40 ms leaves 33%; an error rate of 0 decides nothing."""
    met = (
        outlook("ttft_p95_ms", 250, 49, 74, 111, "meets"),
        outlook("tpot_p95_ms", 40, 18.5, 26.9, 39.0, "meets"),
        outlook("error_rate_max", 0, 0, 0, 0, "meets"),
    )
    said = sentence(replace(plan_of("dev/llama-3-1-8b"), outlook=met))
    assert said == (
        "All 3 objectives are predicted to be met at 4 in flight; "
        "the closest is TPOT p95 with 26.9 ms (18.5 to 39 ms), bound ≤\u00a040 ms."
    )


def test_every_picture_names_its_table_and_every_mark_its_numbers() -> None:
    """Each picture is described by an element that exists; hovering a mark of the curve tells its level."""
    plan = plan_of("prod/llama-2-7b")
    page = Page(page_of(plan, alternatives()))
    assert len(page.described_by) == 7  # memory, three latencies, shares, two ladders
    assert set(page.described_by) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    (at_16,) = {tip for tip in page.tips if tip.startswith("16 in flight: TPOT mean")}
    level = next(level for level in plan.levels if level.concurrency == 16)
    rate = f"{level.output_tokens_per_s:,.0f}"
    assert at_16 == f"16 in flight: TPOT mean {level.tpot_ms:.1f} ms at {rate} tokens/s, predicted"


def test_every_knee_has_a_mark_to_stand_on() -> None:
    """The objective bound lies between two doublings: the level drawn for it is neither listed nor a doubling."""
    plan = plan_of("prod/llama-2-7b")
    found = {knee.rule: knee.concurrency for knee in plan.knees if knee.reached}
    drawn = {row.level.concurrency: row.listed for row in rows_of(plan)}
    assert set(found.values()) <= set(drawn)
    assert set(drawn) >= {level.concurrency for level in plan.levels}
    assert [number for number, listed in drawn.items() if listed] == [4, 8, 16, 32]
    assert drawn[found["objective bound"]] is False


def test_everything_is_called_predicted() -> None:
    """The stamp stands above the name, and every section of figures and every mark says it again."""
    page = Page(page_of(plan_of("dev/qwen3-32b"), alternatives()))
    assert "everything on this page is predicted, nothing was measured" in page.text
    assert page.tips and all("predicted" in tip or tip.startswith(("range", "objective")) for tip in page.tips)


def test_the_ladder_climbs_from_the_cheapest_and_ends_with_the_unknown() -> None:
    """Rungs by price: 1.4 misses, 2.1 near, 2.8 meets (marked as the profile's own), then the one without a price."""
    found = alternatives()
    assert [(rung.cost_usd, rung.is_own) for rung in rungs_of(found, "usd_per_million_tokens")] == [
        (1.4, True),
        (0.7, False),
        (1.05, False),
        (None, False),
    ]
    page = page_of(plan_of("dev/llama-3-1-8b"), found)
    ladder = page[page.index('id="ladder-hour"') : page.index('id="ladder-tokens"')]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", ladder[: ladder.index("</svg>")])
    assert texts == [
        *("1 × ml.g5.xlarge · TP 1 × 1 · tgi", "1.40 USD/h, misses"),
        *("1 × ml.g6.xlarge · TP 1 × 1 · tgi", "2.10 USD/h, near"),
        *("▸ 1 × ml.g6e.2xlarge · TP 1 × 1 · tgi", "2.80 USD/h, meets"),
        *("1 × ml.g7.2xlarge · TP 1 × 1 · tgi", "no known price, unknown"),
    ]


def test_settings_are_told_with_what_they_move() -> None:
    """tiny-llama runs at most 8 sequences while its benchmark sends 16: both figures stand beside the setting."""
    plan = plan_of("local-vllm/tiny-llama")
    found = find_alternatives(load_profile(PROFILES / "local-vllm" / "tiny-llama.yaml"))
    (advice,) = plan_document(plan, found)["settings"]
    (cells,) = rows(page_of(plan, found), "settings-title")
    assert cells[:3] == ["container.settings.max_num_seqs", "8", advice["proposed"]]
    shown = [float(cell.replace(",", "")) for cell in cells[4:6]]
    assert shown == pytest.approx([advice["before"], advice["after"]], rel=0.006)


def test_a_rung_that_does_not_fit_names_no_price() -> None:
    """It has no knee and so no cost per million tokens, for another reason than an unknown price."""
    found = alternatives()
    own = replace(found.ranked[0], fits="no", usd_per_million_tokens=None)
    page = page_of(not_fitting(), replace(found, ranked=(own, *found.ranked[1:])))
    ladder = page[page.index('id="ladder-tokens"') :]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", ladder[: ladder.index("</svg>")])
    assert texts[-4:-2] == ["▸ 1 × ml.g6e.2xlarge · TP 1 × 1 · tgi", "does not fit"]


def test_the_profile_itself_is_on_the_ladder_however_badly_it_ranks() -> None:
    """Ten rungs are drawn, and an eleventh where the profile's own is not among them, unfit as it is."""
    found = alternatives()
    own = replace(found.ranked[0], fits="no", objectives="unknown")
    rungs = rungs_of(replace(found, ranked=(*[found.ranked[1]] * 12, own)), "usd_per_hour")
    assert len(rungs) == 11
    assert (rungs[-1].is_own, rungs[-1].outcome) == (True, "no")


def test_alternatives_are_told_with_their_counts_and_goals() -> None:
    """How many were predicted and why most are not shown; each goal has its recommendation and reason."""
    page = page_of(plan_of("dev/llama-3-1-8b"), alternatives())
    text = " ".join(Page(page).text.split())
    assert (
        "87 ways to serve were predicted: 21 would not fit, 3 would fit only within the prediction’s uncertainty, "
        "5 would not serve the objectives’ level, 44 are beaten in every figure." in text
    )
    goals = rows(page, "alternatives-title")
    assert [cells[0] for cells in goals] == list(GOALS)
    assert goals[0][1:] == [
        *("1 × ml.g6e.2xlarge · TP 1 × 1 · tgi (this profile)", "B", "2.80", "the cheapest of those that meet them")
    ]
    table = rows(page, "alternatives-table")
    assert [cells[1].split()[-1] for cells in table] == ["MEETS", "MISSES", "NEAR", "UNKNOWN"]
    assert [cells[8] for cells in table] == ["2.80", "1.40", "2.10", "unknown"]


def test_the_page_is_small_and_asks_for_nothing() -> None:
    """Under 200 KB with alternatives, no script, a policy that forbids every load; links lead out and are few."""
    page = page_of(plan_of("prod/llama-2-7b"), alternatives())
    assert len(page.encode()) < 200_000
    assert "script" not in Page(page).tags
    assert "default-src 'none'" in page
    assert "src=" not in page
    links = re.findall(r'href="([^"]*)"', page)
    prices = (PROFILES.parent / "loadproof/catalog/data/instances.csv").read_text(encoding="utf-8")
    assert links == [one for one in links if one.startswith("https://") and one in prices]


def test_hostile_text_stays_text() -> None:
    """Names and notes make no element and no direction override."""
    page = page_of(hostile())
    assert not {"script", "img", "b"} & set(Page(page).tags)
    assert "\u202e" not in page
    assert HOSTILE[3] not in page


FEW = ("--instances", "ml.g5.2xlarge,ml.g6e.2xlarge")  # where the page goes hangs on no other machine


def test_the_command_writes_the_page_and_prints_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--format html --output FILE` exits 0, prints the path, and the file is the page."""
    target = tmp_path / "plan.html"
    assert (
        run(["plan", str(PROFILES / "dev/llama-3-1-8b.yaml"), *FEW, "--format", "html", "--output", str(target)]) == 0
    )
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["plan.html"]


def test_what_does_not_fit_gets_its_page_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """50,000 tokens in 24 GB pass the checks, but not with what the server takes: the page shows by how much."""
    text = (PROFILES / "dev/llama-3-1-8b.yaml").read_text(encoding="utf-8")
    edits = {
        "ml.g6e.2xlarge": "ml.g5.2xlarge",
        "max_input_tokens: 4096": "max_input_tokens: 49000",
        "max_total_tokens: 5120": "max_total_tokens: 50000",
        "max_batch_prefill_tokens: 8192": "max_batch_prefill_tokens: 49000",
    }
    for before, after in edits.items():
        assert before in text
        text = text.replace(before, after)
    profile, target = tmp_path / "unfit.yaml", tmp_path / "plan.html"
    profile.write_text(text, encoding="utf-8")
    assert run(["plan", str(profile), *FEW, "--format", "html", "--output", str(target)]) == 1
    page = target.read_text(encoding="utf-8")
    assert "DOES NOT FIT" in page
    assert "least cost that meets the objectives" in page


def test_without_output_the_page_is_named_after_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plan-<profile>.html` in the current folder."""
    monkeypatch.chdir(tmp_path)
    assert run(["plan", str(PROFILES / "dev/llama-3-1-8b.yaml"), *FEW, "--format", "html"]) == 0
    assert capsys.readouterr().out == "plan-llama-3-1-8b.html\n"
    assert (tmp_path / "plan-llama-3-1-8b.html").is_file()


@pytest.mark.parametrize(
    ("name", "begins"), [("p.html", "<!doctype html>"), ("p.json", "{"), ("p.txt", "llama-3-1-8b")]
)
def test_the_files_ending_says_the_format(
    name: str, begins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `review` does it; the path is all that is printed."""
    target = tmp_path / name
    assert run(["plan", str(PROFILES / "dev/llama-3-1-8b.yaml"), *FEW, "--output", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--output", "p.md"], "use one of: .json, .txt, .html, .png, .pdf"),
        (["--output", "p.png", "--format", "json"], "is a picture of the page, found --format json"),
        (["--output", "p.html", "--write"], "--write prints a diff, found --output p.html"),
    ],
)
def test_a_file_that_no_format_fits_is_refused(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plan", str(PROFILES / "dev/llama-3-1-8b.yaml"), *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["missing/plan.html", "."], ids=["no such folder", "a folder"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    """No traceback and no half-written file."""
    with pytest.raises(InputError, match="cannot be written"):
        write_page(page_of(plan_of("dev/llama-3-1-8b")), tmp_path / place)
    assert list(tmp_path.iterdir()) == []


def test_the_same_plan_gives_the_same_bytes() -> None:
    """No clock and no order of sets in the page."""
    pages: Any = {page_of(plan_of("dev/qwen3-32b", on("ml.g6e.12xlarge")), alternatives()) for _ in range(2)}
    assert len(pages) == 1


def test_answers_that_come_whole_have_no_curve_of_gaps() -> None:
    """Dynamic batching has no TPOT at any level: its panel is left out, the others are there."""
    profile = load_profile(PROFILES.parent / "tests" / "profiles" / "good" / "lmi-dynamic-batching.yaml")
    page = page_of(make_plan(profile))
    drawn = [name for name in ("ttft", "tpot", "e2e") if f'id="curve-{name}"' in page]
    assert drawn == ["ttft", "e2e"]
