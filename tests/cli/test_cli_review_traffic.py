"""What a review says of a changed trace: its figures, what they mean for the objectives, and nothing without bounds."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from review_repository import PROFILE, Project

from loadproof.bench.workload import traces
from loadproof.review.assemble import LateError, review
from loadproof.review.model import ProfileReview
from loadproof.sides import traffic
from loadproof.sides.deadline import Deadline

TRACE = {"input_tokens": 100, "output_tokens": 20, "arrivals": {"process": "trace", "trace": "monday.csv"}}
FILE = "deploy_profiles/dev/monday.csv"


def rows(count: int, gap_s: float, prompt: int, answer: int) -> str:
    """Two lengths of each, in turn."""
    lines = [f"{at * gap_s},{prompt + 10 * (at % 2)},{answer + at % 2}\n" for at in range(count)]
    return "timestamp_s,input_tokens,output_tokens\n" + "".join(lines)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "repository", dev=("chat",))
    monkeypatch.chdir(made.root)
    made.profile("dev/chat", workload=TRACE)
    made.write(FILE, rows(121, 1.0, 200, 50))
    made.commit()
    return made


def reviewed(project: Project, deadline: Deadline | None = None) -> ProfileReview:
    """Of the last commit, as a stranger's."""
    sides = project.sides("HEAD^", "HEAD", trust="base", **({"deadline": deadline} if deadline else {}))
    (one,) = review("main", "head", sides.pairs, (), 0).profiles
    return one


def told(one: ProfileReview) -> tuple[str, str]:
    """(severity, message) of LR067."""
    ((severity, message),) = [(row.severity, row.message) for row in one.findings if row.code == "LR067"]
    return severity, message.partition("a benchmark sends or counts by it")[2]


def test_the_figures_that_changed_are_told(project: Project) -> None:
    """121 requests a second apart become 241 half a second apart, of longer prompts; answers stay as they were."""
    project.write(FILE, rows(241, 0.5, 900, 50))
    project.commit()
    assert told(reviewed(project)) == (
        "warning",
        "; requests 121 in 2 min → 241 in 2 min, requests/s 1 (1 in the busiest minute) → 2 (2 in the busiest minute), "
        "prompt tokens 200 (p95 210) → 900 (p95 910)",
    )


def test_the_objectives_are_predicted_of_the_traces_requests(project: Project) -> None:
    """The workload's own lengths stayed; answers of ten times the tokens take about ten times as long."""
    project.write(FILE, rows(121, 1.0, 200, 500))
    project.commit()
    (e2e,) = [row for row in reviewed(project).objectives if row.name == "e2e_p95_ms"]
    assert e2e.before is not None and e2e.after is not None
    assert e2e.before.predicted is not None and e2e.after.predicted is not None
    assert 8 < e2e.after.predicted / e2e.before.predicted < 11


def test_a_trace_that_becomes_no_trace_or_too_long_is_at_risk(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the file is not quoted: it may be anything."""
    project.write(FILE, rows(3, 1.0, 200, 50) + "4,secret,50\n")
    project.commit()
    assert told(reviewed(project)) == ("risk", "; a benchmark cannot read it as a trace (line 5)")
    project.write(FILE, rows(3, 1.0, 4090, 50))
    project.commit()
    severity, said = told(reviewed(project))
    assert severity == "risk" and "3 of 3 requests are longer than the server takes" in said
    monkeypatch.setattr(traces, "MOST_REQUESTS", 5)
    project.write(FILE, rows(9, 1.0, 200, 50))
    project.commit()
    severity, said = told(reviewed(project))
    assert severity == "risk" and said.startswith("; it has more than ")


def test_a_profile_whose_server_takes_its_trace_no_more_is_at_risk(project: Project) -> None:
    """The trace is as it was."""
    container = {**PROFILE["container"], "settings": {"max_total_tokens": 250}}
    project.profile("dev/chat", workload=TRACE, container=container)
    project.commit()
    found = [row for row in reviewed(project).findings if row.code == "LR067"]
    assert [row.severity for row in found] == ["risk"]
    assert found[0].message.startswith(f"{FILE}: 60 of 121 requests are longer than the server takes")


def test_a_trace_in_parts_is_one(project: Project) -> None:
    """Of 121 requests one part more makes 181; and where a part becomes none is told with its name and line."""
    folder = "deploy_profiles/dev/week"
    header, *lines = rows(181, 1.0, 200, 50).splitlines(keepends=True)
    project.profile("dev/chat", workload={**TRACE, "arrivals": {"process": "trace", "trace": "week"}})
    project.write(f"{folder}/part-1.csv", header + "".join(lines[:60]))
    project.write(f"{folder}/part-2.csv", header + "".join(lines[60:121]))
    project.commit()
    project.write(f"{folder}/part-10.csv", header + "".join(lines[121:]))
    project.commit()
    (found,) = [row for row in reviewed(project).findings if row.code == "LR067"]
    assert found.message == (
        f"{folder} changed: a benchmark sends or counts by it; requests 121 in 2 min → 181 in 3 min"
    )
    project.write(f"{folder}/part-2.csv", header + "60,x,1\n")
    project.commit()
    assert told(reviewed(project)) == ("risk", "; a benchmark cannot read it as a trace (part-2.csv, line 2)")


def test_nothing_without_a_bound_is_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few KiB that are 40 MiB unzipped, in one file, or in two beside a broken one; ServeGen's texts."""
    name = "deploy_profiles/dev/tuesday.csv.gz"
    arrivals = {"process": "trace", "trace": "tuesday.csv.gz"}
    project.profile("dev/chat", workload={**TRACE, "arrivals": arrivals})
    (project.root / name).write_bytes(gzip.compress(b"\n" * (40 * 2**20)))
    project.commit()
    one = reviewed(project)
    assert f"{name} is new" in " ".join(row.message for row in one.findings)
    assert [note for note in one.notes if name in note] == [
        f"after: {name}: not planned: larger than 16 MiB, the most that a review reads of a trace"
    ]
    project.profile("dev/chat", workload={**TRACE, "arrivals": {**arrivals, "trace": "parts"}})
    (project.root / "deploy_profiles/dev/parts").mkdir()
    for part, content in (("a", b"\n"), ("b", b"\n" * (9 * 2**20)), ("c", b"\n" * (9 * 2**20))):
        packed = gzip.compress(content)
        (project.root / f"deploy_profiles/dev/parts/{part}.csv.gz").write_bytes(packed[:-1] if part == "a" else packed)
    project.commit()
    assert [note for note in reviewed(project).notes if "parts" in note] == [
        "after: deploy_profiles/dev/parts: not planned: larger than 16 MiB, the most that a review reads of a trace"
    ]
    project.profile("dev/chat", workload={**TRACE, "arrivals": {**arrivals, "trace": "clients"}})
    project.write("deploy_profiles/dev/clients/chunk-0-trace.csv", "0,1,1,Gamma,1,1\n")
    project.write("deploy_profiles/dev/clients/chunk-0-dataset.json", '{"0": {}}')
    project.commit()
    assert [note for note in reviewed(project).notes if "clients" in note] == [
        "after: deploy_profiles/dev/clients: not planned: a folder of ServeGen's clients, which no review reads"
    ]


def test_a_trace_takes_its_share_of_the_time_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not read by then is said, and the profile is reviewed."""

    def endless(file: Path) -> None:
        while file:
            pass

    monkeypatch.setattr(traffic, "_why_not", endless)
    project.write(FILE, rows(241, 0.5, 900, 50))
    project.commit()
    said = told(reviewed(project, Deadline(8)))
    assert said == ("warning", "; its requests are not compared: there is no time to read it; give more with --within")


def test_a_plan_of_the_traces_requests_that_takes_too_long_is_left_out(project: Project) -> None:
    """The profile is planned by its own lengths then, and is not refused."""
    project.write(FILE, rows(121, 1.0, 200, 500))
    project.commit()
    times = iter([LateError("too long"), None])

    @contextmanager
    def bounded() -> Iterator[None]:
        if error := next(times):
            raise error
        yield

    (one,) = review("main", "head", project.sides("HEAD^", "HEAD").pairs, (), 0, bounded=bounded).profiles
    (e2e,) = [row for row in one.objectives if row.name == "e2e_p95_ms"]
    assert e2e.before is not None and e2e.after is not None
    assert e2e.before.predicted == e2e.after.predicted
    assert "answer tokens 50 (p95 51) → 500 (p95 501)" in told(one)[1]
    assert [note for note in one.notes if note.startswith("after: ")] == [
        f"after: {FILE}: not planned: to plan with its requests takes too long; give it more time with --within"
    ]
