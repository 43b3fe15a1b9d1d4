"""Writes docs/performance.md: the client against a loop written by hand, in one run on one machine.

    make performance                                      everything (about an hour)
    .venv/bin/python scripts/performance.py [--rounds 3] [--streams 64 256] [--quick] [--print] [--first]

Server, peer and client run in turn against the truth server of tests/perf, which needs a C compiler; first on the
machine as it is, then with one core burned beside them. `--quick` sends 3 requests a stream instead of 24, `--print`
leaves the page alone. `--first` is for a machine that others use up: server, peer and client run before all other work
(real-time priority, all three), and the page says so.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "perf")]

import bench_truth  # noqa: E402
import invocation_cpu  # noqa: E402
import truth_server  # noqa: E402

PAGE = REPOSITORY / "docs" / "performance.md"
Figures = dict[str, float]
REQUESTS_A_STREAM, QUICKLY = 24, 3
MOST_ERROR = 1 / 3  # of the peer's
LEAST_SHARE = 0.95  # of the possible rate


@dataclass(frozen=True, slots=True)
class Case:
    """One load, and how much of the peer's CPU the client may take for it."""

    streams: int
    most_cpu: float
    tls: bool = False

    @property
    def name(self) -> str:
        return f"{self.streams:,} streams{', TLS' if self.tls else ''}"


CASES = tuple(
    Case(streams, most_cpu, tls) for tls in (False, True) for streams, most_cpu in ((64, 0.6), (256, 0.6), (1024, 0.8))
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same load by the peer and by Loadproof, one right after the other."""

    peer: Figures
    ours: Figures

    def ratio(self, figure: str) -> float:
        return self.ours[figure] / max(self.peer[figure], 1e-9)


Found = dict[Case, list[Pair]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One goal over all cases: a figure of each pair, and the bound that its median must meet."""

    what: str
    figure: Callable[[Pair], float]
    bound: Callable[[Case], float]
    at_least: bool = False
    in_cases: Callable[[Case], bool] = lambda case: True

    def met_by(self, case: Case, value: float) -> bool:
        return value >= self.bound(case) if self.at_least else value <= self.bound(case)


RATIOS = (
    Ratio("CPU a token", lambda pair: pair.ratio("whole_cpu_s_per_100k_tokens"), lambda case: case.most_cpu),
    Ratio("error of TTFT p99", lambda pair: pair.ratio("ttft_p99_error_ms"), lambda case: MOST_ERROR),
    Ratio(
        "share of the possible rate (its own)",
        lambda pair: pair.ours["share_of_possible_rate"],
        lambda case: LEAST_SHARE,
        at_least=True,
        in_cases=lambda case: case.streams == 1024,
    ),
)


@contextmanager
def machine_as_it_is() -> Iterator[None]:
    yield


@contextmanager
def one_core_burned() -> Iterator[None]:
    """Somebody else's work beside ours, in a session of its own."""
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        burner.kill()
        burner.wait()


Beside = Callable[[], AbstractContextManager[None]]
SPEEDS: dict[str, Beside] = {"The machine as it is": machine_as_it_is, "One core burned beside": one_core_burned}
BEFORE_OTHERS: dict[str, Beside] = {"Before all other work of the machine": machine_as_it_is}


def compared(rounds: int, options: Namespace) -> Found:
    """Every case, `rounds` times in turn."""
    found: Found = {case: [] for case in CASES if not options.streams or case.streams in options.streams}
    for number in range(rounds):
        for case, pairs in found.items():
            print(f"round {number + 1} of {rounds}: {case.name} …", file=sys.stderr, flush=True)
            pairs.append(Pair(measured("aiohttp", case, options), measured("loadproof", case, options)))
    return found


def measured(client: str, case: Case, options: Namespace) -> Figures:
    requests = QUICKLY if options.quick else REQUESTS_A_STREAM
    figures = bench_truth.measure(client, case.streams, requests, tls=case.tls, first=options.first)
    return with_errors({**figures, "load_average": os.getloadavg()[0]})


def with_errors(figures: Figures) -> Figures:
    """Adds reported − truth, as a distance."""
    return figures | {
        f"{name}_p99_error_ms": abs(figures[f"{name}_p99_ms"] - figures[f"truth_{name}_p99_ms"])
        for name in ("ttft", "itl")
    }


def portable(options: Namespace) -> Figures:
    """`invocation` alone on asyncio's transports, as where the kernel stamps no reads."""
    print("256 streams, portable …", file=sys.stderr, flush=True)
    seconds = 3.0 if options.quick else 8.0
    return with_errors(invocation_cpu.measure(256, seconds, "sagemaker", portable=True, first=False))


def page(found: dict[str, Found], alone: Figures | None = None, *, first: bool = False) -> str:
    goals = {speed: ratio_rows(of_speed) for speed, of_speed in found.items()}
    rows = [row for rows in goals.values() for row in rows]
    met = sum(row.endswith("yes |") for row in rows)
    parts = [
        "# The client: what it costs, how true it is",
        "",
        "Written by `make performance`; every figure is of that one run.",
        "",
        machine(found, first),
        "",
        METHOD,
        "",
        "## Against a loop written by hand",
        f"{met} of {len(rows)} goals met. {RATIO_NOTE}",
    ]
    for speed, rows in goals.items():
        parts += ["", f"**{speed}**", "", *RATIO_HEAD, *rows]
    for speed, of_speed in found.items():
        parts += ["", f"## Absolute figures: {speed[0].lower()}{speed[1:]}", *table(of_speed)]
    if alone is not None:
        parts += ["", portable_words(alone)]
    return "\n".join([*parts, "", NOT_SHOWN, ""])


RATIO_HEAD = ["| at | figure, ours to theirs | goal | median | of all rounds | met |", "|---" * 6 + "|"]


def ratio_rows(found: Found) -> list[str]:
    return [row for case, pairs in found.items() for ratio in RATIOS if (row := ratio_row(ratio, case, pairs))]


def ratio_row(ratio: Ratio, case: Case, pairs: Sequence[Pair]) -> str:
    if not pairs or not ratio.in_cases(case):
        return ""
    values = [ratio.figure(pair) for pair in pairs]
    median, sign = statistics.median(values), "≥" if ratio.at_least else "≤"
    verdict = "yes" if ratio.met_by(case, median) else "**no**"
    spread = f"{min(values):.2f} to {max(values):.2f}"
    return f"| {case.name} | {ratio.what} | {sign} {ratio.bound(case):.2f} | {median:.2f} | {spread} | {verdict} |"


def table(found: Found) -> list[str]:
    """Medians over the rounds, each figure for itself."""
    head = (
        "| run | of the possible rate | CPU-s per 100k tokens: whole | load alone | start-up CPU-s | TTFT p50 / p99 ms "
        "| server's | ITL p50 / p99 ms | server's | dispatch lag p99 ms | MB | runs that count |"
    )
    lines = [head, "|---" * 12 + "|"]
    for case, pairs in found.items():
        lines.append(figures_row(f"{case.name}: aiohttp", [pair.peer for pair in pairs]))
        lines.append(figures_row(f"{case.name}: **Loadproof**", [pair.ours for pair in pairs]))
    return lines


def figures_row(name: str, runs: Sequence[Figures]) -> str:
    one = {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
    pairs = [
        f"{one[f'{prefix}{metric}_p50_ms']:.1f} / {one[f'{prefix}{metric}_p99_ms']:.1f}"
        for metric in ("ttft", "itl")
        for prefix in ("", "truth_")
    ]
    lag = f"{one['lag_p99_ms']:.1f}" if "lag_p99_ms" in one else "–"
    counts = f"{sum(bool(run['valid']) for run in runs)} of {len(runs)}" if "valid" in one else "–"
    return (
        f"| {name} | {one['share_of_possible_rate']:.0%} | {one['whole_cpu_s_per_100k_tokens']:.2f} "
        f"| {one['cpu_s_per_100k_tokens']:.2f} | {one['start_up_cpu_s']:.2f} | "
        + " | ".join(pairs)
        + f" | {lag} | {one['rss_mb']:.0f} | {counts} |"
    )


def portable_words(alone: Figures) -> str:
    return (
        "**Where the kernel stamps no reads** (asyncio's transports, 256 streams, `invocation` alone): reported TTFT "
        f"p99 − the server's {alone['ttft_p99_error_ms']:.1f} ms, ITL p99 {alone['itl_p99_error_ms']:.1f} ms."
    )


def machine(found: dict[str, Found], first: bool) -> str:
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = match[1] if (match := re.search(r"model name\s*:\s*(.+)", info)) else platform.processor()
    pairs = [pair for of_speed in found.values() for pairs in of_speed.values() for pair in pairs]
    loads = [figures["load_average"] for pair in pairs for figures in (pair.peer, pair.ours)]
    priority = "no client had any priority"
    if first:
        priority = "server, peer and client ran before all that other work, with the same real-time priority"
    return (
        f"**Machine:** {model}, {os.cpu_count()} cores (shared by server, client and other work), "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, uvloop {version('uvloop')}; "
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}. Load average during the runs {min(loads):.1f} to "
        f"{max(loads):.1f}, ours included; {priority}."
    )


METHOD = """**Method:** a server in C streams 64 tokens a request in SageMaker's event stream, the first 50 ms after the
request arrived by the kernel's clock, then one every 20 ms, and logs when it sent each. Closed loop, 24 requests a
stream. The peer is what one writes by hand in an hour: aiohttp on uvloop, frames cut and events parsed, requests not
even signed (tests/perf/peers.py). Both run in turn, round after round. CPU is user + system of the whole process and
its children, by the kernel's account: start-up, summary and report are in it. *Reported* is what a client prints,
*server's* what the log says of the same run; TTFT of `loadproof bench` counts from the intended send, so its own
lateness is in it. Memory is that of all its processes under load."""

RATIO_NOTE = """Each is the median of the rounds' own ratios; the error is |reported − server's|. From 1,024 streams
on `loadproof bench` takes as many processes as the machine has cores by itself. Peers open all streams at once, so that
their tokens come in step and are cheaper to read; ours opens one a millisecond."""

NOT_SHOWN = """## Not shown
Networks other than loopback. More than 1,024 streams. Other machines: CPU a token grows with what else uses the caches.
A run whose client was late says so itself (*runs that count*). Measured earlier on another server, CPU-s per 100,000
tokens at 256 streams: Locust 4.7, boto3 with a thread a stream 8.7, AIPerf 15, llmeter 22, guidellm 25."""


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, nargs="*", help="only these cases")
    for flag in ("--quick", "--print", "--first"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    found: dict[str, Found] = {}
    try:
        for speed, beside in (BEFORE_OTHERS if options.first else SPEEDS).items():
            print(speed, file=sys.stderr, flush=True)
            with beside():
                found[speed] = compared(options.rounds, options)
        alone = portable(options)
    except truth_server.NoCompilerError as error:
        sys.exit(f"not measured: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"a client failed: {error}")
    if options.print:
        print(page(found, alone, first=options.first))
    else:
        PAGE.write_text(page(found, alone, first=options.first), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
