"""`loadproof calibrate`: from measured files to a calibration that a profile, `plan` and `predict` use."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from loadproof.cli.main import run
from loadproof.errors import ExitCode
from loadproof.profiles import check_file, load_calibration

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "tests" / "bench" / "imports"
PROFILE = REPOSITORY / "deploy_profiles" / "dev" / "qwen3-32b.yaml"
COLUMNS = (
    "model", "instance_type", "instance_count", "tp_degree", "input_tokens", "output_tokens", "concurrency", "server",
    "measured_throughput_tok_s", "measured_ttft_ms",
)  # fmt: skip


def table(folder: Path, *rows: tuple[int, float, float], server: str = "vllm") -> Path:
    """Levels of Llama 3.1 8B on one A10G: (concurrency, tokens/s, TTFT)."""
    path = folder / "measured.csv"
    with path.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(COLUMNS)
        for concurrency, rate, ttft_ms in rows:
            known = ("meta-llama/Llama-3.1-8B-Instruct", "ml.g5.2xlarge", 1, 1, 256, 64, concurrency, server)
            writer.writerow((*known, rate, ttft_ms))
    return path


# A server 20 ms slower a step than vLLM. A prompt's 256 · 2 · 6.98e9 FLOPs at 0.61 of 70 TFLOP/s are 84 ms, to which
# those 20 and 28 ms outside the step come: 132 ms alone.
LEVELS = ((1, 20.0, 135.0), (2, 39.0, 165.0), (4, 76.0, 230.0), (8, 140.0, 360.0))


def test_a_table_becomes_a_calibration_and_says_its_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0; the file loads strictly; each level stands there with its error before and after."""
    output = tmp_path / "calibration.yaml"
    assert run(["calibrate", str(table(tmp_path, *LEVELS)), "--output", str(output), "--date", "2026-11-21"]) == 0
    said = capsys.readouterr().out
    assert "vllm on A10G: 4 levels in 1 file" in said
    assert "step_ms_per_sequence" in said and "before" in said and str(output) in said
    found = load_calibration(output)
    assert (found.levels, found.date, found.accelerator) == (4, "2026-11-21", "A10G")
    assert {error.figure for error in found.errors} == {"output_tokens_per_s", "ttft_ms"}
    assert all(error.after < error.before for error in found.errors)


def test_the_same_input_gives_the_same_file(tmp_path: Path) -> None:
    """No clock in it."""
    measured = table(tmp_path, *LEVELS)
    texts = []
    for name in ("a.calibration.yaml", "b.calibration.yaml"):
        run(["calibrate", str(measured), "--output", str(tmp_path / name)])
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]


def test_json_holds_the_figures_of_each_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured, before and after, and the calibration itself."""
    output = str(tmp_path / "calibration.yaml")
    run(["calibrate", str(table(tmp_path, *LEVELS)), "--output", output, "--format", "json", "--concurrency", "1,8"])
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [level["concurrency"] for level in said["levels"]] == [1, 8]
    assert said["levels"][0]["measured"]["output_tokens_per_s"] == 20.0
    assert said["calibration"]["levels"] == 2


def test_another_tools_export_needs_the_profile_that_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """vLLM's result says no instance type and no server: exit 2 and what to give; with --profile it is fitted."""
    sample, output = str(SAMPLES / "vllm_bench_0_32.json"), str(tmp_path / "calibration.yaml")
    assert run(["calibrate", sample, "--output", output]) == ExitCode.BAD_INPUT
    assert "does not say instance_type, tp_degree, server; give --profile" in capsys.readouterr().err
    assert run(["calibrate", sample, "--output", output, "--profile", str(PROFILE)]) == 0
    assert load_calibration(Path(output)).sources[0].levels == 1


def test_predict_uses_it_for_rows_of_its_server_and_accelerator(tmp_path: Path) -> None:
    """The calibrated row comes closer and is grade A; a row of another server stays as it was."""
    measured, output = table(tmp_path, *LEVELS), tmp_path / "calibration.yaml"
    run(["calibrate", str(measured), "--output", str(output)])
    rows = []
    for chosen in ([], ["--calibration", str(output)]):
        run(["predict", "--input", str(measured), "--output", str(tmp_path / "out.csv"), *chosen])
        rows.append(list(csv.DictReader((tmp_path / "out.csv").open())))
    errors = [
        [
            abs(float(row["predicted_throughput_tok_s"]) / rate - 1)
            for row, (_, rate, _) in zip(side, LEVELS, strict=True)
        ]
        for side in rows
    ]
    assert max(errors[1]) < max(errors[0])
    assert {row["grade"] for row in rows[1]} == {"A"}
    tgi = table(tmp_path, LEVELS[0], server="tgi 1.1")
    answers = []
    for chosen in ([], ["--calibration", str(output)]):
        run(["predict", "--input", str(tgi), "--output", str(tmp_path / "out.csv"), *chosen])
        answers.append((tmp_path / "out.csv").read_text())
    assert answers[0] == answers[1]


def test_plan_says_what_it_was_calibrated_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile that names the file is planned with it, and the plan says so."""
    text = (REPOSITORY / "deploy_profiles/local-vllm/tiny-llama.yaml").read_text()
    profile = tmp_path / "tiny-llama.yaml"
    profile.write_text(text)
    measured = tmp_path / "levels.csv"
    measured.write_text(
        "input_tokens,output_tokens,concurrency,measured_tpot_ms,measured_ttft_ms\n48,64,1,9,20\n48,64,4,10,70\n"
    )
    output = str(tmp_path / "core.calibration.yaml")
    arguments = ["calibrate", str(measured), "--profile", str(profile), "--hardware", "one core", "--output", output]
    assert run([*arguments, "--date", "2026-11-21"]) == 0
    profile.write_text(text + "calibration: core.calibration.yaml\n")
    capsys.readouterr()
    run(["plan", str(profile)])
    said = " ".join(capsys.readouterr().out.split())
    assert "calibrated on 2 levels in 1 file of 2026-11-21 of your own measurements" in said
    assert "1 x one core" in said


def test_a_mistake_in_a_calibration_has_its_place_there(tmp_path: Path) -> None:
    """A profile's check names the calibration's own line, and exit 2 follows in predict."""
    output = tmp_path / "calibration.yaml"
    run(["calibrate", str(table(tmp_path, *LEVELS)), "--output", str(output)])
    output.write_text(output.read_text().replace("step_ms:", "step:", 1))
    profile = tmp_path / "tiny-llama.yaml"
    text = (REPOSITORY / "deploy_profiles/local-vllm/tiny-llama.yaml").read_text()
    profile.write_text(text + "calibration: calibration.yaml\n")
    (problem,) = check_file(profile).problems
    assert (Path(problem.file), problem.code, problem.path) == (output, "LP101", "calibration.parameters.step")
    arguments = ["predict", "--input", str(tmp_path / "measured.csv"), "--output", str(tmp_path / "out.csv")]
    assert run([*arguments, "--calibration", str(output)]) == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--output", "out.yaml"], "expected calibration.yaml or a name ending in .calibration.yaml"),
        (["--concurrency", "64"], "no level at 64 to calibrate on; in flight there: 1, 2, 4, 8"),
        (["--concurrency", "few"], "expected numbers in flight like 1,2,4"),
        (["--date", "yesterday"], "--date yesterday: expected a day like 2026-11-21"),
    ],
)
def test_bad_usage_is_exit_2_with_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    """And nothing is written."""
    monkeypatch.chdir(tmp_path)
    measured = table(tmp_path, *LEVELS)
    assert run(["calibrate", str(measured), *arguments]) == ExitCode.BAD_INPUT
    assert says in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["measured.csv"]


def test_levels_of_two_accelerators_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file, two instance types: exit 2, both named."""
    measured = table(tmp_path, *LEVELS[:2])
    measured.write_text(measured.read_text().replace("ml.g5.2xlarge", "ml.g6e.2xlarge", 1))
    assert run(["calibrate", str(measured), "--output", str(tmp_path / "calibration.yaml")]) == ExitCode.BAD_INPUT
    assert "several accelerators: A10G, L40S" in capsys.readouterr().err


def test_levels_that_cannot_be_fitted_to_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine in ten requests failed: not fitted to beside a good level, and exit 2 alone."""
    stats = json.loads((SAMPLES / "llmeter_0_2.json").read_text()) | {"clients": 8, "failed_requests": 22}
    bad, good, output = tmp_path / "bad.json", SAMPLES / "llmeter_0_2.json", tmp_path / "calibration.yaml"
    bad.write_text(json.dumps(stats))
    options = ["--profile", str(PROFILE), "--output", str(output)]
    assert run(["calibrate", str(bad), *options]) == ExitCode.BAD_INPUT
    assert "22 of its 24 requests failed" in " ".join(capsys.readouterr().err.split())
    assert not output.exists()
    assert run(["calibrate", str(good), str(bad), *options]) == 0
    assert "Left out" in (said := capsys.readouterr().out) and "22 of its 24 requests failed" in said
    assert load_calibration(output).levels == 1


def test_a_table_of_another_deployment_than_the_profile_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file says Llama 3.1 8B, the profile deploys Qwen3 32B."""
    options = ["--profile", str(PROFILE), "--output", str(tmp_path / "calibration.yaml")]
    assert run(["calibrate", str(table(tmp_path, *LEVELS)), *options]) == ExitCode.BAD_INPUT
    said = " ".join(capsys.readouterr().err.split())
    assert "model meta-llama/Llama-3.1-8B-Instruct was measured, the profile deploys Qwen/Qwen3-32B" in said


def test_figures_that_no_parameter_explains_write_no_calibration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand times the throughput of the hardware: exit 2, and where to look."""
    output = tmp_path / "calibration.yaml"
    absurd = table(tmp_path, (1, 20_000.0, 90.0), (2, 39_000.0, 110.0))
    assert run(["calibrate", str(absurd), "--output", str(output)]) == ExitCode.BAD_INPUT
    assert "look at units, model and instance type" in " ".join(capsys.readouterr().err.split())
    assert not output.exists()


DEV = REPOSITORY / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"


def test_a_suggestion_says_levels_ranges_and_both_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Two levels of the profile's own curve, labelled predicted; what to type next names them and the profile."""
    assert run(["calibrate", "--suggest", str(DEV)]) == 0
    said = capsys.readouterr().out
    assert "2 levels to measure" in said and "all predicted" in said
    assert f"loadproof bench {DEV} --concurrency 1,8 --at-concurrency 8 --requests-per-level" in said
    assert f"loadproof calibrate runs/suggested-llama-3-1-8b --profile {DEV} --output" in said
    assert all(
        name in said for name in ("ttft_p95_ms", "tpot_p95_ms", "e2e_p95_ms", "mean over the curve (1, 2, 4, 8)")
    )
    assert "error_rate_max" not in said


def test_a_suggestion_as_json_keeps_the_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes add up and stay within those given; one level where one is asked for; expected widths are narrower."""
    assert run(["calibrate", "--suggest", str(DEV), "--minutes", "1", "--levels", "1", "--format", "json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    predicted = said["predicted"]
    assert len(predicted["levels"]) == 1
    assert sum(level["minutes"] for level in predicted["levels"]) == pytest.approx(predicted["minutes"])
    assert predicted["minutes"] <= 1
    assert predicted["expected"]["curve"] < predicted["now"]["curve"]
    assert said["bench"].startswith("loadproof bench ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["runs/x", "--suggest", str(DEV)], "--suggest says what to measure, found runs/x that was measured too"),
        (["runs/x", "--minutes", "3"], "--minutes and --levels go with --suggest; add it, or leave them out"),
        ([], "give measured files, for example runs/RUN, or --suggest PROFILE"),
        (["--suggest", str(DEV), "--minutes", "0.01"], "no level of llama-3-1-8b can be measured in it; the shortest"),
        (["--suggest", str(DEV), "--minutes", "nan"], "--minutes nan: expected above 0, at most a day (1440)"),
        (["--suggest", str(DEV), "--levels", "9"], "--levels 9: expected 1..4"),
        (["--suggest", str(DEV), "--concurrency", "1,2"], "--concurrency goes with measured files"),
        (["--suggest", str(REPOSITORY / "tests/fuzz/on-bedrock.yaml")], "nothing to plan, Bedrock shows no"),
    ],
)
def test_a_mistaken_suggestion_is_exit_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", *arguments]) == ExitCode.BAD_INPUT
    assert says in capsys.readouterr().err
