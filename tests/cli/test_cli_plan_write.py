"""`loadproof plan --write`: a recommendation as an edit that can be reviewed, checked before it is kept."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path

import pytest

from loadproof.cli.main import run
from loadproof.profiles import check_file, load_profile

PROFILES = Path(__file__).parents[2] / "deploy_profiles"
FILES = sorted(
    file.relative_to(PROFILES).as_posix() for file in PROFILES.glob("*/*.yaml") if file.name != "environment.yaml"
)
# Enough to choose among; all types take five times as long.
AMONG = ["--instances", "ml.g5.2xlarge,ml.g5.12xlarge,ml.g6e.2xlarge,ml.g6e.12xlarge,ml.p4d.24xlarge"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of all profiles, to be written to."""
    return Path(shutil.copytree(PROFILES, tmp_path / "deploy_profiles"))


def comments(text: str) -> list[str]:
    return re.findall(r"#.*", text)


@pytest.mark.parametrize("file", FILES)
def test_every_profile_can_be_written_and_a_second_time_changes_nothing(
    root: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checked, comments kept, other files untouched; the second run prints no diff and exits 0."""
    target = root / file
    before = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.yaml")}
    assert run(["plan", str(target), "--write", *AMONG]) == 0
    diff = capsys.readouterr().out
    after = target.read_text(encoding="utf-8")
    assert check_file(target).ok
    assert comments(after) == comments(before[target])
    assert all(path.read_text(encoding="utf-8") == text for path, text in before.items() if path != target)
    assert bool(diff) is (after != before[target])
    assert run(["plan", str(target), "--write", *AMONG]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing to change" in said.err
    assert target.read_text(encoding="utf-8") == after


def test_the_diff_says_exactly_what_changed_in_the_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Removed and added lines of the diff are those of the file, and what was predicted is what is then planned."""
    target = root / "dev" / "llama-3-1-8b.yaml"
    before = target.read_text(encoding="utf-8").splitlines()
    assert run(["plan", str(target), "--write", "--goal", "minimum-latency", *AMONG]) == 0
    said = capsys.readouterr()
    after = target.read_text(encoding="utf-8").splitlines()
    lines = said.out.splitlines()[2:]
    assert sorted(line[1:] for line in lines if line.startswith("-")) == sorted(set(before) - set(after))
    added = [line[1:] for line in lines if line.startswith("+")]
    assert [line for line in after if line not in before] == [line for line in added if line not in before]
    assert "changed for minimum latency; all figures behind it are predicted" in said.err


def test_a_diff_names_the_file_from_where_git_apply_is_run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the file was named by its whole path."""
    monkeypatch.chdir(root.parent)
    target = root / "dev" / "llama-3-1-8b.yaml"
    assert run(["plan", str(target), "--write", "--dry-run", "--goal", "minimum-latency", *AMONG]) == 0
    names = [line[4:] for line in capsys.readouterr().out.splitlines()[:2]]
    assert names == ["a/deploy_profiles/dev/llama-3-1-8b.yaml", "b/deploy_profiles/dev/llama-3-1-8b.yaml"]


def test_a_child_overrides_what_its_parent_says(root: Path) -> None:
    """Another family in a file that only extends: its container stands there in full, the parent is as it was."""
    target = root / "staging" / "llama-3-1-8b.yaml"
    assert run(["plan", str(target), "--write", *AMONG]) == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../schema.json\nextends: ../base/llama-3-1-8b.yaml\n\n")
    profile = load_profile(target)
    assert profile.container is not None
    assert profile.container.family == "vllm"
    assert profile.container.settings.model_dump(exclude_none=True).keys() <= {
        "tensor_parallel_degree",
        "max_model_len",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
    }


def test_a_dry_run_prints_and_leaves(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same diff as the write after it, and the file's bytes untouched."""
    target = root / "dev" / "llama-3-1-8b.yaml"
    written = ["plan", str(target), "--write", "--goal", "minimum-latency", *AMONG]
    before = target.read_bytes()
    assert run([*written, "--dry-run"]) == 0
    dry = capsys.readouterr()
    assert target.read_bytes() == before
    assert "would change" in dry.err
    assert run(written) == 0
    assert capsys.readouterr().out == dry.out
    assert target.read_bytes() != before


def test_nothing_is_written_where_nothing_will_do(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0.1 ms a token: no machine is recommended, exit 1, the file as it was."""
    target = root / "dev" / "llama-3-1-8b.yaml"
    target.write_text(
        target.read_text(encoding="utf-8").replace("tpot_p95_ms: 60", "tpot_p95_ms: 0.1"), encoding="utf-8"
    )
    before = target.read_bytes()
    assert run(["plan", str(target), "--write", *AMONG]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "left as it is" in said.err
    assert target.read_bytes() == before


def test_an_edit_that_the_check_would_refuse_is_not_made(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor gone wrong (it writes a degree of 3) is caught before the file is touched: exit 2 and the problems."""
    from loadproof.profiles import yaml_edit

    proper = yaml_edit.set_value
    monkeypatch.setattr(
        yaml_edit,
        "set_value",
        lambda text, path, value: proper(text, path, 3 if path[-1] == "tensor_parallel_degree" else value),
    )
    target = root / "dev" / "qwen3-32b.yaml"
    before = target.read_bytes()
    assert run(["plan", str(target), "--write"]) == 2
    assert "LP305" in capsys.readouterr().err
    assert target.read_bytes() == before


def test_the_file_keeps_its_mode_its_line_ends_and_its_link(root: Path) -> None:
    """Written through a link, with Windows line ends and permissions of its own; no other file is left behind."""
    target = root / "dev" / "qwen3-32b.yaml"
    target.write_bytes(target.read_bytes().replace(b"\n", b"\r\n"))
    target.chmod(0o640)
    moved = root / "dev" / "kept.txt"
    target.rename(moved)
    target.symlink_to(moved.name)
    beside = set((root / "dev").iterdir())
    assert run(["plan", str(target), "--write", *AMONG]) == 0
    assert target.is_symlink()
    assert stat.S_IMODE(moved.stat().st_mode) == 0o640
    written = moved.read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n")
    assert set((root / "dev").iterdir()) == beside


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dry-run"], "--dry-run goes with --write"),
        (["--write", "--format", "json"], "--write prints a diff, found --format json"),
        (["--goal", "speed"], "minimum-latency"),
        (["--instances", "ml.g5.nano"], "unknown instance type `ml.g5.nano`"),
        (["--instances", " ,"], "--instances: expected instance types, found none"),
        (["--max-usd-per-hour", "-1"], "--max-usd-per-hour"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_allowed(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is planned, nothing is written."""
    assert run(["plan", str(PROFILES / "dev" / "llama-3-1-8b.yaml"), *arguments]) == 2
    assert said in re.sub(r"[\s│]+", " ", capsys.readouterr().err)


def test_constraints_reach_what_is_written(root: Path) -> None:
    """Only the one type that is allowed, whatever would be cheaper."""
    target = root / "dev" / "llama-3-1-8b.yaml"
    arguments = ["--instances", "ml.g5.12xlarge,ml.g6e.8xlarge", "--max-usd-per-hour", "6"]
    assert run(["plan", str(target), "--write", *arguments]) == 0
    endpoint = load_profile(target).endpoint
    assert endpoint is not None
    assert endpoint.instance_type == "ml.g6e.8xlarge"


def test_a_byte_order_mark_stays_where_it_is(root: Path) -> None:
    """Windows editors write one; it is no part of the first key."""
    target = root / "staging" / "llama-2-7b.yaml"
    target.write_bytes(b"\xef\xbb\xbf" + target.read_bytes())
    assert run(["plan", str(target), "--write", *AMONG]) == 0
    after = target.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf# yaml-language-server")
    assert after.count(b"\xef\xbb\xbf") == 1
    assert check_file(target).ok


def test_a_read_only_file_is_left_as_it_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new file in its place would ask nobody: exit 2, no byte changed, nothing left beside it."""
    target = root / "prod" / "llama-2-7b.yaml"
    target.chmod(0o444)
    before, beside = target.read_bytes(), sorted(target.parent.iterdir())
    assert run(["plan", str(target), "--write", *AMONG]) == 2
    assert "it is read-only; allow writing (chmod u+w) first" in capsys.readouterr().err
    assert target.read_bytes() == before
    assert sorted(target.parent.iterdir()) == beside


def test_a_map_that_gets_other_keys_keeps_its_place_and_its_comment(tmp_path: Path) -> None:
    """TGI's one setting goes, another family's come (vLLM's or SGLang's): between the same braces, before the same
    comment."""
    good = Path(__file__).parents[1] / "profiles" / "good" / "plain-variant.yaml"
    settings = "  settings: {max_total_tokens: 8192}"
    text = good.read_text(encoding="utf-8")
    assert settings in text
    target = tmp_path / "plain-variant.yaml"
    target.write_text(text.replace(settings, f"{settings}  # short on purpose"), encoding="utf-8")
    assert run(["plan", str(target), "--write", *AMONG]) == 0
    (line,) = [line for line in target.read_text(encoding="utf-8").splitlines() if "settings:" in line]
    length = "(max_model_len|context_length): 8192"
    assert re.fullmatch(rf"  settings: \{{tensor_parallel_degree: 1, {length}.*\}}  # short on purpose", line)


def test_a_plan_reckons_with_the_trace_that_the_arrivals_name(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts of 900 tokens where the workload says 256; what is written leaves the workload as it is."""
    file = root / "dev" / "llama-3-1-8b.yaml"
    text = file.read_text(encoding="utf-8")
    arrivals = "  output_tokens: 48\n  arrivals: {process: trace, trace: monday.csv}\n"
    text = text.replace("  output_tokens: 48\n", arrivals).replace("  concurrency: [1, 2, 4, 8]\n", "")
    text = text.replace("requests_at_objectives", "# requests_at_objectives")
    file.write_text(text, encoding="utf-8")
    rows = "".join(f"{second},900,48\n" for second in range(60))
    (root / "dev" / "monday.csv").write_text(f"timestamp_s,input_tokens,output_tokens\n{rows}")
    assert run(["plan", str(file), *AMONG]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Predicted at 900 input and 48 output tokens" in said
    assert "as fitted to the workload's trace" in said
    before = load_profile(file)
    assert run(["plan", str(file), "--write", *AMONG]) == 0
    after = load_profile(file)
    assert after.workload == before.workload and after != before
