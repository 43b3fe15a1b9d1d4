"""Runs side by side: whose figure is whose, ratios worked by hand, and nothing foreign that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bench_summaries import whole
from sample_run import write_sample

from loadproof.bench.report.comparison import comparison_page, facts, read_runs, tables
from loadproof.catalog.addresses import price_addresses
from loadproof.cli.main import run as loadproof
from loadproof.errors import InputError
from loadproof.pages.looks import RUNS

REAL = {"local_cloud": False}


def written(folder: Path, levels: list[dict[str, Any]], **changes: Any) -> Path:
    """A summary with these levels and nothing else of the sample's."""
    folder.mkdir()
    document = {"run_id": folder.name, "profile": {"name": folder.name}, "levels": levels}
    (folder / "summary.json").write_text(json.dumps(whole(document | changes)))
    return folder


def level(concurrency: int, ttft_p95: float, tokens_per_s: float, **others: Any) -> dict[str, Any]:
    return {"concurrency": concurrency, "ttft_ms": {"p95": ttft_p95}, "output_tokens_per_s": tokens_per_s} | others


def test_shared_loads_are_held_against_the_first_run(tmp_path: Path) -> None:
    """At 4 in flight 100 and 150 ms: ×1.5; 8 in flight is in one run only, and no data has no ratio."""
    one = written(tmp_path / "one", [level(1, 50, 20), level(4, 100, 60)])
    other = written(tmp_path / "other", [level(4, 150, 30), level(8, 300, 40)])
    [table] = tables(read_runs([one, other]))
    cells = {row.title: row.cells for row in table.rows}
    assert table.load == "4 in flight"
    assert cells["TTFT p95"] == ((100, 1), (150, 1.5))
    assert cells["Output"] == ((60, 1), (30, 0.5))
    assert "E2E p95" not in cells


def test_of_repeats_the_last_counts_and_rates_are_loads_too(tmp_path: Path) -> None:
    """A search measured 2 requests/s twice; its second measurement stands."""
    twice = [level(3, 90, 10, load="poisson 2 requests/s"), level(3, 80, 10, load="poisson 2 requests/s")]
    one = written(tmp_path / "one", twice)
    other = written(tmp_path / "other", [level(5, 40, 10, load="poisson 2 requests/s")])
    [table] = tables(read_runs([one, other]))
    assert table.load == "poisson 2 requests/s" and table.rows[0].cells == ((80, 1), (40, 0.5))


def test_a_level_that_does_not_count_looks_like_none_that_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In pictures, on the page's table, in a terminal and for machines."""
    one = written(tmp_path / "one", [level(1, 50, 20), level(4, 100, 60, valid=False)])
    other = written(tmp_path / "other", [level(1, 55, 20), level(4, 150, 30)])
    page = comparison_page(read_runs([one, other]))
    assert page.count("4 in flight, INVALID") == len(re.findall(r'class="mark \S+ invalid"', page)) > 0
    assert "1 in flight, INVALID" not in page
    assert re.search(r'<td class="invalid">100</td>\s*<td>150', page)
    assert loadproof(["compare", str(one), str(other)]) == 0
    assert "one, INVALID" in capsys.readouterr().out
    assert loadproof(["compare", str(one), str(other), "--format", "json"]) == 0
    assert [load["valid"] for load in json.loads(capsys.readouterr().out)["loads"]] == [[True, True], [False, True]]


def test_names_tell_runs_apart_and_the_twin_from_hardware(tmp_path: Path) -> None:
    """Two runs of one profile get their run ids; a run of the twin is called predicted; labels are taken as given."""
    folders = [
        write_sample(tmp_path / "a", run_id="a"),
        write_sample(tmp_path / "b", run_id="b", conditions=REAL),
    ]
    assert [run.name for run in read_runs(folders)] == [
        "a, predicted",
        "b",
    ]
    assert [run.name for run in read_runs(folders, ["static", "continuous"])] == ["static, predicted", "continuous"]
    assert "Simulated endpoints." in comparison_page(read_runs(folders))


def test_what_differs_is_marked(tmp_path: Path) -> None:
    """Another image differs; the run's own id always does and is not marked."""
    folders = [
        write_sample(tmp_path / name, run_id=name, deployed={"image": image})
        for name, image in (("a", "tgi:3.3"), ("b", "lmi:0.33"))
    ]
    found = {name: (values, differs) for name, values, differs in facts(read_runs(folders))}
    assert found["image"] == (("tgi:3.3", "lmi:0.33"), True)
    assert found["run"][1] is False and found["protocol"][1] is False


def test_costs_stand_beside_their_prices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each price's machine, region, month and source: once where two runs have one price."""
    folders, month = [], {"a": "2026-07", "b": "2026-07", "c": "2026-09"}
    for name, seen in month.items():
        price = f"ml.g5.2xlarge: on demand in us-west-2, seen {seen}; https://prices.example/{seen}"
        conditions = REAL | {"usd_per_hour": 2.0, "price": price}
        folders.append(written(tmp_path / name, [level(4, 100, 60)], conditions=conditions))
    arguments = ["compare", *map(str, folders)]
    page = tmp_path / "page.html"
    assert loadproof([*arguments, "--output", str(page)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "noreferrer" not in page.read_text()  # no address of the catalog
    prices = " ".join(f"ml.g5.2xlarge: on demand in us-west-2, seen {seen}" for seen in ("2026-07;", "2026-09 How"))
    assert f"$1,460 c. Price: {prices}" in said and "https://prices.example/2026-09" in said
    assert "seen 2026-07; https://prices.example/2026-07</bdi>" in page.read_text()
    assert loadproof([*arguments, "--format", "json"]) == 0
    last = json.loads(capsys.readouterr().out)["runs"][2]
    assert last["usd_per_hour"] == 2.0 and last["price"].endswith("seen 2026-09; https://prices.example/2026-09")


def test_every_run_is_in_every_picture_by_a_mark_of_its_own(tmp_path: Path) -> None:
    """Three runs: three series in curves, rates and tails; the first six looks differ in mark or dash or both."""
    folders = [write_sample(tmp_path / name, seed=seed, run_id=name) for seed, name in enumerate("abc")]
    page = comparison_page(read_runs(folders, ["a", "b", "c"]))
    for place in ("curve-ttft", "curve-tpot", "tokens", "e2e", "goodput", "cost", "distribution-ttft"):
        picture = page[page.index(f'id="{place}"') :].split("</figure>")[0]
        assert {f"mark run-{number}" in picture for number in (1, 2, 3)} == {True}, place
    dashes = dict(re.findall(r"\.series\.(run-\d) \{ stroke-dasharray: ([\d ]+);", page))
    assert len({(look.shape, dashes.get(look.css)) for look in RUNS}) == len(RUNS)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """No element is made of a profile's name, an image or a label, and nothing runs."""
    evil = "</script><img src=x onerror=alert(1)>\u202e"
    folders = [
        write_sample(tmp_path / str(number), run_id=evil, profile={"name": evil}, deployed={"image": evil})
        for number in (1, 2)
    ]
    page = comparison_page(read_runs(folders, [evil, evil + "2"]))
    assert "<img" not in page and "<script" not in page and "\u202e" not in page


def test_the_verb_writes_the_page_and_prints_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text names what differs, JSON carries every shared figure; without requests nothing is judged, and it says so."""
    one = written(tmp_path / "one", [level(4, 100, 60)])
    other = written(tmp_path / "other", [level(4, 150, 30)], loadproof_version="9")
    assert loadproof(["compare", str(one), str(other), "--output", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().out
    assert "×1.50" in said and "differs: loadproof" in said and "not judged" in said
    assert "TTFT" in (tmp_path / "page.html").read_text()
    assert loadproof(["compare", str(one), str(other), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["loads"][0]["figures"][0] == {"name": "TTFT p95", "unit": "ms", "values": [100, 150]}


def test_at_80_columns_no_word_is_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three runs with long names do not fit beside each other; a word wider than that stays whole, to be copied."""
    image = f"1.dkr.ecr.us-east-1.amazonaws.com/{'x' * 80}"
    folders = []
    for name in "abc":
        run_id = f"{name}-{'n' * 30}"
        folders.append(str(write_sample(tmp_path / run_id, run_id=run_id, deployed={"image": name + image})))
    monkeypatch.setenv("COLUMNS", "80")
    assert loadproof(["compare", *folders]) == 0
    said = capsys.readouterr().out
    wide = [line for line in said.splitlines() if len(line) > 80]
    assert wide and all(len(line.split()) == 1 for line in wide)
    assert f"b{image}" in said and "TTFT p95 (ms)" in said and not re.search("…", said)
    assert f"{'n' * 30}, predicted: " in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{one}"], "give 2 to 12 runs to compare, found 1"),
        (["{one}", "{one}", "--label", "a"], "--label: 1 for 2 runs"),
        (["{one}", "{tmp}"], "not found; give the folder of a run"),
        (["{one}", "{one}", "--output", "{tmp}/no/where.html"], "name another place"),
    ],
)
def test_bad_input_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """The message says what to give instead."""
    one = written(tmp_path / "one", [level(4, 100, 60)])
    assert loadproof(["compare", *(part.format(one=one, tmp=tmp_path) for part in arguments)]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
    with pytest.raises(InputError):
        read_runs([one])


def test_two_models_are_not_interchangeable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the runs say which they are, the brief and the row of what differs do."""
    verdict = {"outcome": "PASS", "at_concurrency": 1}
    folders = [
        written(tmp_path / name, [level(1, 50, 20)], conditions=REAL | {"model": model}, verdict=verdict)
        for name, model in (("a", "org/one"), ("b", "org/two"))
    ]
    assert loadproof(["compare", *map(str, folders)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "different models (org/one and org/two), which are not interchangeable" in said
    assert "differs: model: org/one | org/two" in said


def test_a_catalogs_price_is_a_link_on_the_page_and_text_in_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = min(price_addresses())
    folders = [
        written(tmp_path / name, [level(4, 100, 60)], conditions=REAL | {"price": f"seen {name}; {address}"})
        for name in ("a", "b")
    ]
    page = tmp_path / "page.html"
    assert loadproof(["compare", *map(str, folders), "--output", str(page)]) == 0
    assert f'<a href="{address}" rel="noreferrer">' in page.read_text()
    said = capsys.readouterr().out
    assert "href" not in said and address in "".join(said.split())
