"""Where nonsense begins: a value on either side of each bound that is told, and what reads like a slip and is none."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadproof.profiles import check_file
from loadproof.profiles.checks.scheduling import schedule_problem, why_never

BASE: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen3-8B", "source": {"type": "s3", "s3_uri": "s3://models/qwen3-8b/"}},
    "container": {"family": "vllm", "settings": {"max_model_len": 8192}},
    "endpoint": {"instance_type": "ml.g6e.2xlarge"},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 10_000},
    "workload": {"input_tokens": 512, "output_tokens": 256},
}


def codes(folder: Path, **changes: Any) -> set[str]:
    """Of what `check` says; `a__b=value` changes that field."""
    document = yaml.safe_load(yaml.safe_dump(BASE))
    for name, value in changes.items():
        *parents, last = name.split("__")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(document))
    return {problem.code for problem in check_file(file).problems}


def test_what_they_are_changed_from_is_well(tmp_path: Path) -> None:
    assert codes(tmp_path) == set()


@pytest.mark.parametrize(
    ("code", "field", "well", "nonsense"),
    [
        ("LP345", "objectives__error_rate_max", 0.1, 0.11),
        ("LP287", "benchmark__duration_s", 10, 9),
        ("LP287", "benchmark", {"phases": [{"concurrency": 4, "duration_s": 10}]}, {"duration_s": 4}),
        ("LP284", "objectives", {"at_concurrency": 4, "ttft_p95_ms": 10}, {"at_concurrency": 4, "ttft_p95_ms": 9}),
        (
            "LP345",
            "objectives",
            {"at_concurrency": 4, "ttft_p95_ms": 30000},
            {"at_concurrency": 4, "ttft_p95_ms": 30001},
        ),
        ("LP278", "objectives__tpot_p95_ms", 78, 79),  # 2 · 10 s / 255 gaps = 78.4 ms
        ("LP278", "objectives__itl_p95_ms", 1568, 1569),  # 5% of 255 gaps of 1,568.6 ms are 2 · 10 s
        ("LP286", "copies__cpus_per_copy", 1, 0.5),
        ("LP348", "endpoint__min_instances", 2, 3),
        (
            "LP348",
            "endpoint",
            {"instance_type": "ml.p5.48xlarge", "max_instances": 4},
            {"instance_type": "ml.p5.48xlarge", "max_instances": 5},
        ),  # one holds the one copy
        (
            "LP386",
            "endpoint",
            {"instance_type": "ml.g6e.2xlarge", "max_instances": 1},
            {"instance_type": "ml.g6e.2xlarge", "min_instances": 2, "max_instances": 2},
        ),
        (
            "LP343",
            "workload__steps",
            [{"name": "tool", "input_tokens": 9, "output_tokens": 9, "pause_s": 1800}],
            [{"name": "tool", "input_tokens": 9, "output_tokens": 9, "pause_s": 1801}],
        ),
        (
            "LP343",
            "workload__classes",
            [{"name": "slow", "share": 0.5, "turns": 2, "think_time_s": 1800}],
            [{"name": "slow", "share": 0.5, "turns": 2, "think_time_s": 1801}],
        ),
        ("LP349", "endpoint__scale_in", {"cooldown_min": 240}, {"cooldown_min": 241}),
        (
            "LP397",
            "workload__classes",
            [{"name": "rare", "share": 0.01, "input_tokens": 9}],
            [{"name": "rare", "share": 0.001, "input_tokens": 9}],
        ),
        (
            "LP398",
            "workload__arrivals",
            {"process": "gamma", "requests_per_s": 2, "burstiness": 0.01},
            {"process": "gamma", "requests_per_s": 2, "burstiness": 0.009},
        ),
        (
            "LP398",
            "workload__arrivals",
            {"process": "poisson", "requests_per_s": 2, "from_requests_per_s": 1},
            {"process": "poisson", "requests_per_s": 2, "from_requests_per_s": 2},
        ),
        # 10 · 4 bytes · (512 + 256) tokens
        (
            "LP399",
            "endpoint__routing",
            {"strategy": "prefix_aware", "prefix_length_bytes": 30720},
            {"strategy": "prefix_aware", "prefix_length_bytes": 30721},
        ),
        ("LP354", "container__settings__gpu_memory_utilization", 0.98, 1.0),
        # Logits of 151,936 tokens, four bytes each, in 47.8 GB.
        ("LP355", "container__settings__max_num_seqs", 78_651, 78_652),
        ("LP356", "container__settings__max_num_seqs", 2, 1),
        ("LP356", "container__settings__max_num_batched_tokens", 4, 3),
        ("LP356", "container__settings__max_num_batched_tokens", 1024 * 8192, 1024 * 8192 + 1),
        ("LP356", "container__settings__max_num_batched_tokens", 128, 127),  # 512 tokens in five steps
        ("LP276", "container__settings__max_num_batched_tokens", 32, 31),
        (
            "LP345",
            "objectives",
            {"at_concurrency": 4, "error_rate_max": 0.01, "requests_per_s_min": 0.5},
            {"at_concurrency": 4, "error_rate_max": 0.01},
        ),
        ("LP222", "container__settings", {"enable_lora": True, "max_loras": 2}, {"max_loras": 2}),
        ("LP249", "container__speculative", {"method": "ngram", "tokens": 16}, {"method": "ngram", "tokens": 17}),
        ("LP253", "workload__shared_prefix_tokens", 511, 512),
        ("LP360", "model__dtype", "fp16", "fp32"),
        ("LP359", "container__environment", {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "-1"}),
        ("LP366", "container__environment", {"VLLM_USE_V1": "0"}, {"VLLM_USE_V1": "on"}),
        ("LP366", "container__environment", {"OMP_NUM_THREADS": "4,2"}, {"OMP_NUM_THREADS": "0"}),
        ("LP366", "container__environment", {"OMP_NUM_THREADS": "8,2"}, {"OMP_NUM_THREADS": "9,2"}),  # of 8 vCPUs
        # 4 in flight / 120 s = 0.0333 a second, of 256 tokens each: 8.53 tokens a second.
        ("LP345", "objectives__requests_per_s_min", 0.034, 0.033),
        ("LP345", "objectives__output_tokens_per_s_min", 8.6, 8.5),
        # 8.19e9 weights of two bytes are 15.26 GiB: 3.05 s at 5 GiB/s, and a minute for the server.
        ("LP374", "endpoint__container_startup_timeout_s", 64, 63),
        ("LP358", "endpoint__instance_type", "ml.g6e.2xlarge", "ml.g6e.12xlarge"),
        (
            "LP361",
            "endpoint__data_capture",
            {"s3_uri": "s3://models/qwen3-8b-captures/"},
            {"s3_uri": "s3://models/qwen3-8b"},
        ),
        ("LP365", "endpoint__data_capture", {"s3_uri": "s3://1.2.3.4.5/x/"}, {"s3_uri": "s3://1.2.3.4/x/"}),
        ("LP363", "benchmark", {"evidence_from": "any"}, {"evidence_from": "gate"}),
        ("LP364", "buffer", {"enabled": True, "max_message_bytes": 1536}, {"enabled": True, "max_message_bytes": 1535}),
        ("LP364", "buffer", {"enabled": True, "max_attempts": 25}, {"enabled": True, "max_attempts": 26}),
        ("LP348", "buffer", {"enabled": True, "max_concurrency": 40}, {"enabled": True, "max_concurrency": 41}),
        ("LP343", "workload__think_time_s", 1800, 1801),
        ("LP248", "workload__think_time_stddev_s", 100, 101),
    ],
)
def test_either_side_of_the_bound(tmp_path: Path, code: str, field: str, well: object, nonsense: object) -> None:
    talk = {"workload__turns": 2, "workload__think_time_s": 20} if "think" in field else {}
    assert code not in codes(tmp_path, **talk | {field: well})
    assert code in codes(tmp_path, **talk | {field: nonsense})


@pytest.mark.parametrize(
    ("least", "removed_at", "told"), [(1, 4, False), (1, 4.1, True), (3, 6, False), (3, 6.1, True)]
)
def test_a_copy_that_comes_and_goes(tmp_path: Path, least: int, removed_at: float, told: bool) -> None:
    """Of three at 8 requests four have 6 each: with fewer than that one would go again."""
    step = {"type": "simple", "metric": "concurrent_requests_per_copy"}
    steps = [step | {"threshold": 8, "add_copies": 1}, step | {"threshold": removed_at, "add_copies": -1}]
    copies = {"copies": {"min": least, "max": 4}, "endpoint__max_instances": 4, "endpoint__min_instances": least}
    assert ("LP271" in codes(tmp_path, **copies, scaling={"policies": steps})) is told


@pytest.mark.parametrize(("target", "told"), [(120_000_000, False), (120_000_001, True)])
def test_more_a_minute_than_a_copy_answers(tmp_path: Path, target: int, told: bool) -> None:
    """2,000 at once, a thousand times a second each, where nobody knows how long answers are."""
    policy = {"type": "target_tracking", "metric": "invocations_per_copy", "target": target}
    copies = {"copies": {"min": 1, "max": 2}, "endpoint__max_instances": 2, "workload__answer_length": "at_most"}
    assert ("LP342" in codes(tmp_path, **copies, scaling={"policies": [policy]})) is told


@pytest.mark.parametrize(("duration_s", "told"), [(388_800, False), (388_801, True)])
def test_levels_that_outlast_any_job(tmp_path: Path, duration_s: int, told: bool) -> None:
    """Two, one after another."""
    assert ("LP343" in codes(tmp_path, benchmark={"concurrency": [2, 4], "duration_s": duration_s})) is told


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("turns", 1, False), ("turns", 2, True), ("shared_prefix_tokens", 0, False), ("shared_prefix_tokens", 8, True)],
)
def test_turns_and_prefixes_beside_a_trace(tmp_path: Path, name: str, value: int, told: bool) -> None:
    """They are the trace's, and those of the profile nobody sends."""
    (tmp_path / "trace.csv").write_text("timestamp_s,input_tokens,output_tokens\n0,10,10\n")
    arrivals = {"process": "trace", "trace": "trace.csv"}
    assert ("LP254" in codes(tmp_path, **{"workload__arrivals": arrivals, f"workload__{name}": value})) is told


@pytest.mark.parametrize(
    ("name", "well", "nonsense"), [("scale_in_cooldown_s", 14_400, 14_401), ("scale_out_cooldown_s", 1_800, 1_801)]
)
def test_cooldowns_of_hours(tmp_path: Path, name: str, well: int, nonsense: int) -> None:
    policy = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8}
    copies = {"copies": {"min": 1, "max": 2}, "endpoint__max_instances": 2}
    assert "LP349" not in codes(tmp_path, **copies, scaling={"policies": [policy | {name: well}]})
    assert "LP349" in codes(tmp_path, **copies, scaling={"policies": [policy | {name: nonsense}]})


def test_a_plain_variants_instances_are_its_copies(tmp_path: Path) -> None:
    """Four are no more than there is use for, and their batches of two hold eight requests."""
    plain: dict[str, Any] = {"endpoint__hosting": "plain_variant", "endpoint__max_instances": 4}
    few = {"container__settings__max_num_seqs": 2, "objectives__at_concurrency": 16}
    assert not {"LP348", "LP356"} & codes(tmp_path, **plain, **few, endpoint__min_instances=4)
    assert "LP356" in codes(tmp_path, **plain, **few, endpoint__min_instances=3)
    assert "LP348" not in codes(tmp_path, endpoint__hosting="plain_variant", endpoint__max_instances=12)
    assert "LP348" not in codes(tmp_path, **plain, buffer={"enabled": True, "max_concurrency": 160})
    assert "LP348" in codes(tmp_path, **plain, buffer={"enabled": True, "max_concurrency": 161})


def test_a_long_tail_is_held_against_its_middle(tmp_path: Path) -> None:
    """Lognormal of mean 300 and deviation 900: half of the answers have 95 tokens, and 94 gaps of 200 ms are 19 s."""
    tail = {"distribution": "lognormal", "mean": 300, "stddev": 900, "max": 4096}
    both = {"at_concurrency": 4, "e2e_p50_ms": 10_000}
    assert "LP278" not in codes(tmp_path, workload__output_tokens=tail, objectives={**both, "tpot_p50_ms": 200})
    assert "LP278" in codes(tmp_path, workload__output_tokens=tail, objectives={**both, "tpot_p50_ms": 220})


def test_a_first_turn_that_all_share_is_followed_by_others(tmp_path: Path) -> None:
    assert "LP253" in codes(tmp_path, workload__shared_prefix_tokens=512)
    assert "LP253" not in codes(tmp_path, workload__shared_prefix_tokens=512, workload__turns=4)


def test_classes_may_have_the_bounds_that_the_others_lack(tmp_path: Path) -> None:
    errors = {"at_concurrency": 4, "error_rate_max": 0.01}
    each = [{"name": "short", "share": 0.5, "objectives": {"e2e_p95_ms": 900}}, {"name": "long", "share": 0.5}]
    assert "LP345" in codes(tmp_path, objectives=errors)
    assert "LP345" not in codes(tmp_path, objectives=errors, workload__classes=each)


def test_nobody_waits_at_a_queue(tmp_path: Path) -> None:
    late = {"at_concurrency": 4, "ttft_p95_ms": 60_000}
    assert "LP345" in codes(tmp_path, objectives=late)
    assert "LP345" not in codes(tmp_path, objectives=late, buffer={"enabled": True, "max_concurrency": 4})


def test_a_ramp_may_be_short(tmp_path: Path) -> None:
    ramp = {"process": "poisson", "requests_per_s": 5, "duration_s": 4}
    level = {"concurrency": 4, "duration_s": 60}
    assert "LP287" in codes(tmp_path, benchmark={"phases": [ramp, level]})
    assert "LP287" not in codes(tmp_path, benchmark={"phases": [{**ramp, "from_requests_per_s": 0}, level]})


def test_a_further_model_has_a_load_of_its_own(tmp_path: Path) -> None:
    """What is in flight by the objectives is in flight on the main model."""
    few = {**BASE["container"], "settings": {"max_model_len": 8192, "max_num_seqs": 1}}
    further = {"name": "small", "model": BASE["model"], "container": few, "copies": {"memory_mib_per_copy": 8192}}
    assert "LP356" in codes(tmp_path, container=few)
    assert "LP356" not in codes(tmp_path, components=[further])


def test_calls_that_wait_for_more_than_anybody_makes(tmp_path: Path) -> None:
    """Four groups of 57, each after all before it, wait 6 · 57² = 19,494 times; of 58 20,184 times."""

    def workload(times: int) -> dict[str, Any]:
        names = ["a", "b", "c", "d"]
        steps = [
            {"name": name, "times": times, "input_tokens": 8, "output_tokens": 8, "after": names[:place]}
            for place, name in enumerate(names)
        ]
        return {"input_tokens": 8, "output_tokens": 8, "steps": steps}

    assert "LP367" not in codes(tmp_path, workload=workload(57))
    assert "LP367" in codes(tmp_path, workload=workload(58))


def test_an_asynchronous_answer_may_take_longer_than_a_minute(tmp_path: Path) -> None:
    whole = {"benchmark__request_timeout_s": 300, "workload__streaming": False}
    assert "LP242" in codes(tmp_path, **whole)
    asynchronous = {"output_s3_uri": "s3://answers/chat/"}
    plain = {"endpoint__hosting": "plain_variant", "endpoint__async_inference": asynchronous}
    assert "LP242" not in codes(tmp_path, **whole, **plain)


def test_copies_that_only_ever_come(tmp_path: Path) -> None:
    """Some other policy that takes away is enough."""
    several: dict[str, Any] = {"copies": {"min": 1, "max": 4}, "endpoint__max_instances": 4}
    metric = {"metric": "concurrent_requests_per_copy"}
    grows = {"type": "target_tracking", **metric, "target": 8, "scale_in": False}
    steps = {"type": "step", **metric, "threshold": 8, "steps": [{"at": 0, "add_copies": 1}]}
    goes = {"type": "simple", **metric, "threshold": 2, "add_copies": -1}
    assert "LP368" in codes(tmp_path, **several, scaling={"policies": [grows, steps]})
    assert "LP368" not in codes(tmp_path, **several, scaling={"policies": [grows, steps, goes]})
    assert "LP368" not in codes(tmp_path, **several, scaling={"policies": [{**grows, "scale_in": True}]})


@pytest.mark.parametrize(
    ("schedule", "often"),
    [
        ("rate(59 minutes)", True),
        ("rate(60 minutes)", False),
        ("rate(1 hour)", False),
        ("cron(* * * * ? *)", True),
        ("cron(0/30 8 ? * MON *)", True),
        ("cron(30 * * * ? *)", False),
    ],
)
def test_a_benchmark_within_the_hour_is_too_often(tmp_path: Path, schedule: str, often: bool) -> None:
    assert ("LP369" in codes(tmp_path, benchmark__schedule=schedule)) == often


def test_answers_of_one_token_have_no_gap(tmp_path: Path) -> None:
    both = {"at_concurrency": 4, "tpot_p95_ms": 50}
    assert "LP345" in codes(tmp_path, workload__output_tokens=1, objectives=both)
    assert "LP345" not in codes(tmp_path, workload__output_tokens=2, objectives=both)


def test_a_ramp_ends_within_its_phase(tmp_path: Path) -> None:
    phase = {"concurrency": 4, "duration_s": 60}
    assert "LP287" in codes(tmp_path, benchmark={"phases": [{**phase, "ramp_s": 61}]})
    assert "LP287" not in codes(tmp_path, benchmark={"phases": [{**phase, "ramp_s": 60}]})


@pytest.mark.parametrize(("name", "well"), [("pause_s", 1_800), ("pause_stddev_s", 86_400)])
def test_a_step_pauses_for_a_day_at_most(tmp_path: Path, name: str, well: int) -> None:
    def workload(pause_s: int) -> dict[str, Any]:
        plain = {"input_tokens": 64, "output_tokens": 64}
        return {**plain, "steps": [{"name": "ask", **plain}, {"name": "act", **plain, name: pause_s}]}

    assert "LP343" in codes(tmp_path, workload=workload(86_401))
    assert "LP343" not in codes(tmp_path, workload=workload(well))


def test_a_trace_may_be_a_folder_and_prompts_a_file_alone(tmp_path: Path) -> None:
    (tmp_path / "day.json").mkdir()
    trace = {"process": "trace", "trace": "day.json"}
    assert "LP289" not in codes(tmp_path, workload__arrivals=trace)
    assert "LP289" in codes(tmp_path, workload__dataset="day.json")
    assert "LP289" in codes(tmp_path, workload__arrivals={**trace, "trace": "night.json"})


def test_a_bill_that_nobody_expects(tmp_path: Path) -> None:
    """An ml.g6e.2xlarge costs some two dollars an hour: 300 of them half a million a month, or nearly."""
    many: dict[str, Any] = {
        "copies": {"min": 1, "max": 1000},
        "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8}]},
    }
    some = {**many, "copies": {"min": 10, "max": 1000}, "endpoint__min_instances": 10}
    assert "LP357" not in codes(tmp_path, **some, endpoint__max_instances=200)
    assert "LP357" in codes(tmp_path, **some, endpoint__max_instances=400)
    assert "LP357" not in codes(tmp_path, **many, endpoint__max_instances=49)  # a fiftyfold of one is 50
    assert "LP357" in codes(tmp_path, **many, endpoint__max_instances=100)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("cron(0 8 30 2 ? *)", "is day 30 of months of 29"),
        ("cron(0 8 31 APR,JUN,SEP,NOV ? *)", "is day 31 of months of 30"),
        ("cron(0 8 31 4,5 ? *)", None),
        ("cron(0 8 31 APR-JUN ? *)", None),
        ("cron(0 8 29 2 ? *)", None),
        ("cron(0 8 29 2 ? 2024,2027)", "is day 29 of a February of 28"),
        ("cron(0 8 29 2 ? 2027,2028)", None),
        ("cron(0 8 L 2 ? *)", None),
        ("cron(0 8 ? 2 MON *)", None),
        ("cron(0 8 1 1 ? 2025)", "is over"),
        ("cron(0 8 1 1 ? 2020-2026)", None),
        ("cron(0 8 1 1 ? 2024/1)", None),
        ("at(2026-11-25T23:59:59)", "is over"),
        ("at(2026-11-26T00:00:00)", None),
        ("rate(1 day)", None),
    ],
)
def test_schedules_that_never_come(schedule: str, why: str | None) -> None:
    assert why_never(schedule, date(2026, 11, 26)) == why


@pytest.mark.parametrize(
    "schedule",
    ["60 0 1 1 ? *", "0 24 1 1 ? *", "0 0 32 1 ? *", "0 0 1 13 ? *", "0 0 ? 1 8 *", "0 0 1 1 ? 1969", "0 0 1-40 1 ? *"],
)
def test_numbers_that_no_clock_shows_are_refused(schedule: str) -> None:
    assert schedule_problem(f"cron({schedule})") is not None


@pytest.mark.parametrize(
    "schedule", ["59 23 31 12 ? 2199", "0/15 0 ? * 6L *", "0 0 ? * 3#5 *", "0 0 15W * ? *", "0/90 8-17 ? * MON-FRI *"]
)
def test_what_a_clock_shows_is_well(schedule: str) -> None:
    assert schedule_problem(f"cron({schedule})") is None


TRACKED: dict[str, Any] = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8}
SEVERAL: dict[str, Any] = {"copies": {"min": 1, "max": 4}, "endpoint__max_instances": 4}
WHOLE: dict[str, Any] = {"endpoint__instance_type": "ml.p5.48xlarge", "container__settings__tensor_parallel_degree": 8}


def pools(*instance_types: str) -> list[dict[str, Any]]:
    return [{"instance_type": name, "priority": at} for at, name in enumerate(instance_types, start=1)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"container__settings__tensor_parallel_degree": 4}, False),
        # Of the 84.9 GB of an H100 a quarter of 0.78 is 16.6 GB, of 0.77 16.3 GB; the weights are 16.4 GB.
        ({"container__settings__gpu_memory_utilization": 0.78}, True),
        ({"container__settings__gpu_memory_utilization": 0.77}, False),
        # One step reads them in 16.38 GB / 3.35 TB/s = 4.9 ms, and 4 · 4.9 ms are 19.6 ms.
        ({"objectives": {"at_concurrency": 4, "tpot_p95_ms": 20}}, True),
        ({"objectives": {"at_concurrency": 4, "tpot_p95_ms": 19}}, False),
        # A prompt takes 2 · 7.57e9 · 512 / 989e12 = 7.8 ms besides: 4 · 12.7 ms, with 255 more steps 4 · 1.26 s.
        ({"objectives": {"at_concurrency": 4, "ttft_p95_ms": 51}}, True),
        ({"objectives": {"at_concurrency": 4, "ttft_p95_ms": 50}}, False),
        ({"objectives": {"at_concurrency": 4, "e2e_p95_ms": 5100}}, True),
        ({"objectives": {"at_concurrency": 4, "e2e_p95_ms": 5000}}, False),
        ({"endpoint": {"instance_pools": pools("ml.p5.48xlarge", "ml.p5en.48xlarge")}}, True),
        ({"endpoint": {"instance_pools": pools("ml.p5.48xlarge", "ml.g6e.48xlarge")}}, False),  # 11 GB of an L40S
        ({"model__id": "Qwen/Qwen3-14B"}, False),
    ],
)
def test_a_small_model_on_a_whole_machine(tmp_path: Path, changes: dict[str, Any], told: bool) -> None:
    assert ("LP370" in codes(tmp_path, **WHOLE | changes)) == told


@pytest.mark.parametrize(("share", "told"), [(0.81, True), (0.8, False)])
def test_a_long_request_is_no_small_model(tmp_path: Path, share: float, told: bool) -> None:
    """131,072 tokens of 131,072 bytes are 17.18 GB; a quarter of 84.9 GB is 16.98 GB of 0.8, and 17.19 GB of 0.81."""
    llama = {"model__id": "meta-llama/Llama-3.1-8B-Instruct", "container__settings__max_model_len": 131_072}
    changes = {**WHOLE, **llama, "container__settings__gpu_memory_utilization": share}
    assert ("LP370" in codes(tmp_path, **changes)) == told


@pytest.mark.parametrize(
    ("types", "copies", "told"),
    [
        (("ml.p5.48xlarge", "ml.p5en.48xlarge"), 3, True),
        (("ml.p5.48xlarge", "ml.p5en.48xlarge"), 4, False),
        (("ml.p5.48xlarge", "ml.g6e.2xlarge"), 1, False),  # the larger one where the smaller has no room
    ],
)
def test_pools_of_idle_accelerators(tmp_path: Path, types: tuple[str, ...], copies: int, told: bool) -> None:
    scaled = {"copies": {"min": 1, "max": copies}, "scaling": {"policies": [TRACKED]}} if copies > 1 else {}
    changes = {"endpoint": {"instance_pools": pools(*types), "max_instances": copies}, **scaled}
    assert ("LP358" in codes(tmp_path, **changes)) == told


@pytest.mark.parametrize(
    ("family", "name", "near"),
    [
        ("vllm", "SM_VLLM_MAX_NUM_SEQ", True),
        ("vllm", "VLLM_MAX_MODEL_LEN", True),
        ("vllm", "sm_vllm_max_num_seqs", True),
        ("vllm", "SM_VLLM_MAX_CPU_LORAS", False),
        ("vllm", "SM_VLLM_ENABLE_LORA_BIAS", False),
        ("vllm", "SM_VLLM_CODE_REVISION", False),
        ("vllm", "SM_VLLM_DATA_PARALLEL_SIZE", False),
        ("vllm", "SM_VLLM_MAMBA_CACHE_DTYPE", False),
        ("vllm", "VLLM_USE_V1", False),
        ("lmi", "OPTION_MAX_ROLLING_BATCHSIZE", True),
        ("lmi", "OPTION_ENABLE_PREFIX_CACHE", True),
        ("lmi", "OPTION_MODEL_DIR", False),
        ("lmi", "OPTION_PIPELINE_PARALLEL_DEGREE", False),
        ("lmi", "OPTION_MAX_CPU_LORAS", False),
        ("sglang", "SM_SGLANG_PP_SIZE", False),
        ("sglang", "SM_SGLANG_EP_SIZE", False),
        ("sglang", "SM_SGLANG_SPECULATIVE_DRAFT_MODEL_QUANTIZATION", False),
        ("tgi", "MAX_INPUT_TOKEN", True),
        ("tgi", "MAX_BATCH_PREFIL_TOKENS", True),
        ("tgi", "MAX_TOP_N_TOKENS", False),
        ("tgi", "MAX_BATCH_SIZE", False),
        ("tgi", "SM_NUM_CPUS", False),
        ("tgi", "HF_MODEL_DIR", False),
    ],
)
def test_a_variable_that_is_nearly_one_of_the_servers(tmp_path: Path, family: str, name: str, near: bool) -> None:
    """Those that are not near are real names of the servers, and no others are nearer to a typed one."""
    container = {"family": family, "environment": {name: "1"}}
    assert ("LP371" in codes(tmp_path, container=container)) == near


@pytest.mark.parametrize(("rank", "told"), [(512, False), (513, True)])
def test_an_adapters_rank_is_one_that_vllm_has(tmp_path: Path, rank: int, told: bool) -> None:
    adapter = {"name": "legal", "s3_uri": "s3://models/legal.tar.gz", "rank": rank}
    changes = {"adapters": [adapter], "container__settings__enable_lora": True}
    assert ("LP331" in codes(tmp_path, **changes)) == told


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"threshold": 0.1}, False),
        ({"threshold": 0.09}, True),
        ({"threshold": 0.001, "comparison": "below", "steps": [{"at": 0, "add_copies": -1}]}, False),
    ],
)
def test_a_threshold_near_zero(tmp_path: Path, policy: dict[str, Any], told: bool) -> None:
    """Below almost nothing is when nobody asks."""
    step = {"type": "step", "metric": "concurrent_requests_per_copy", "steps": [{"at": 0, "add_copies": 1}], **policy}
    assert ("LP285" in codes(tmp_path, **SEVERAL, scaling={"policies": [TRACKED, step]})) == told


@pytest.mark.parametrize(
    ("add_copies", "periods", "period_s", "told"),
    [(1, 59, 60, False), (1, 60, 60, True), (1, 12, 300, True), (-1, 239, 60, False), (-1, 240, 60, True)],
)
def test_an_alarm_that_comes_hours_late(
    tmp_path: Path, add_copies: int, periods: int, period_s: int, told: bool
) -> None:
    alarm = {"evaluation_periods": periods, "period_s": period_s, "threshold": 12 if add_copies > 0 else 2}
    policy = {"type": "simple", "metric": "concurrent_requests_per_copy", "add_copies": add_copies, **alarm}
    assert ("LP372" in codes(tmp_path, **SEVERAL, scaling={"policies": [TRACKED, policy]})) == told


@pytest.mark.parametrize(
    ("wait_s", "told"),
    [
        (0, set()),
        (9, {"LP349"}),
        (10, set()),
        (1800, set()),
        (1801, {"LP349"}),
        (86_400, {"LP349"}),
        (86_401, {"LP343"}),
    ],
)
def test_waking_that_waits(tmp_path: Path, wait_s: int, told: set[str]) -> None:
    idle = {"copies": {"min": 0, "max": 2}, "endpoint__min_instances": 0, "endpoint__max_instances": 2}
    scaling = {"policies": [TRACKED], "to_zero": {"wake_cooldown_s": wait_s}}
    assert codes(tmp_path, **idle, scaling=scaling) & {"LP343", "LP349"} == told


@pytest.mark.parametrize(
    ("least", "scheduled", "batch_size", "told"), [(2, 0, 1, False), (3, 0, 1, True), (4, 0, 2, False), (1, 3, 1, True)]
)
def test_fewer_consumers_than_copies(tmp_path: Path, least: int, scheduled: int, batch_size: int, told: bool) -> None:
    """Two consumers keep as many copies busy as they hold messages; the copies are the fewest there ever are."""
    morning = {"type": "scheduled", "name": "day", "schedule": "cron(0 8 ? * MON-FRI *)", "min_copies": scheduled}
    policies = [TRACKED, *([morning] if scheduled else [])]
    copies = {"copies": {"min": least, "max": 8}, "endpoint__min_instances": least, "endpoint__max_instances": 8}
    buffer = {"max_concurrency": 2, "batch_size": batch_size}
    assert ("LP272" in codes(tmp_path, **copies, buffer=buffer, scaling={"policies": policies})) == told


@pytest.mark.parametrize(("bound_ms", "told"), [(54_999, False), (55_000, True)])
def test_a_first_token_within_its_bound_is_waited_for(tmp_path: Path, bound_ms: int, told: bool) -> None:
    """A silence of 55 s is what the consumer bears unless told otherwise."""
    objectives = {"at_concurrency": 4, "ttft_p95_ms": bound_ms}
    buffer: dict[str, Any] = {"enabled": True}
    assert ("LP346" in codes(tmp_path, objectives=objectives, buffer=buffer)) == told
    assert "LP346" not in codes(tmp_path, objectives=objectives, buffer={"idle_timeout_s": 56})


def test_short_prompts_fit_a_short_step(tmp_path: Path) -> None:
    """Four steps of 64 tokens are none too many."""
    step = {"container__settings__max_num_batched_tokens": 64}
    assert "LP356" not in codes(tmp_path, **step, workload={"input_tokens": 256, "output_tokens": 256})
    assert "LP356" in codes(tmp_path, **step, workload={"input_tokens": 257, "output_tokens": 256})


@pytest.mark.parametrize(
    "changes",
    [
        {**WHOLE, "objectives": {"at_concurrency": 4, "tpot_p95_ms": 6}},  # the least time a token
        {  # arguments of the server that the profile has no field for
            "endpoint__instance_type": "ml.g6e.12xlarge",
            "container__settings__tensor_parallel_degree": 4,
            "container__environment": {"SM_VLLM_DATA_PARALLEL_SIZE": "1", "SM_VLLM_MAX_CPU_LORAS": "16"},
        },
        {"endpoint": {"instance_pools": pools("ml.g6e.2xlarge", "ml.g6e.12xlarge")}},  # the larger where none is left
        {"container__settings__max_num_batched_tokens": 256},  # short gaps between tokens
        {"container__settings": {"enable_lora": True, "max_lora_rank": 512, "max_loras": 8, "max_model_len": 8192}},
        {  # one request at a time: half busy is busy
            **SEVERAL,
            "container__settings__max_num_seqs": 2,
            "objectives": {"at_concurrency": 1, "e2e_p95_ms": 10_000},
            "scaling": {
                "policies": [
                    {**TRACKED, "metric": "invocations_per_copy"},
                    {
                        "type": "step",
                        "metric": "concurrent_requests_per_copy",
                        "threshold": 0.5,
                        "steps": [{"at": 0, "add_copies": 1}],
                    },
                ]
            },
        },
        {  # copies go after three hours without load
            **SEVERAL,
            "scaling": {
                "policies": [
                    {**TRACKED, "scale_in": False},
                    {
                        "type": "simple",
                        "metric": "concurrent_requests_per_copy",
                        "threshold": 0.01,
                        "add_copies": -1,
                        "evaluation_periods": 36,
                        "period_s": 300,
                    },
                ]
            },
        },
        {  # nightly batches: few at once, long answers
            "buffer": {"max_concurrency": 2, "batch_size": 4, "invocation_timeout_s": 480, "idle_timeout_s": 300},
            "objectives": {"at_concurrency": 4, "ttft_p95_ms": 29_000},
        },
        {  # waking takes half an hour
            "copies": {"min": 0, "max": 4},
            "endpoint__min_instances": 0,
            "endpoint__max_instances": 4,
            "scaling": {"policies": [TRACKED], "to_zero": {"wake_cooldown_s": 1800}},
        },
        {"objectives": {"at_concurrency": 4, "error_rate_max": 0, "output_tokens_per_s_min": 50}},
    ],
)
def test_what_is_unusual_and_makes_sense(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert codes(tmp_path, **changes) == set()


EVENING = {"type": "scheduled", "name": "up", "schedule": "cron(50 19 ? * FRI *)", "min_copies": 2}


@pytest.mark.parametrize(
    ("lowered", "expected"),
    [
        ("cron(59 19 ? * FRI *)", {"LP395"}),
        ("cron(0/3 19,20 ? * FRI *)", {"LP395"}),
        ("cron(0 20 ? * FRI *)", set()),
        ("cron(51 19 ? * SAT *)", set()),
    ],
)
def test_a_minimum_is_raised_for_longer_than_a_copy_takes_to_come(
    tmp_path: Path, lowered: str, expected: set[str]
) -> None:
    """Ten minutes, on the same days."""
    tracking = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4}
    down = {"type": "scheduled", "name": "down", "schedule": lowered, "min_copies": 1}
    found = codes(
        tmp_path,
        copies__max=2,
        endpoint={"instance_type": "ml.g6e.2xlarge", "max_instances": 2},
        scaling__policies=[tracking, EVENING, down],
    )
    assert found == expected


def test_a_maximum_that_is_lowered_is_raised_again(tmp_path: Path) -> None:
    """Or the most copies are never reached."""
    night = {"type": "scheduled", "name": "night", "schedule": "cron(0 20 ? * FRI *)", "max_copies": 1}
    day = {"type": "scheduled", "name": "day", "schedule": "cron(0 8 ? * MON *)", "max_copies": 2}
    tracking = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 4}
    for policies, expected in (([night], {"LP273"}), ([night, day], set())):
        endpoint = {"instance_type": "ml.g6e.2xlarge", "max_instances": 2}
        assert codes(tmp_path, copies__max=2, endpoint=endpoint, scaling__policies=[tracking, *policies]) == expected


@pytest.mark.parametrize(
    ("field", "uri", "found"),
    [
        ("output_s3_uri", "s3://models/qwen3-8b/out/", True),
        ("failure_s3_uri", "s3://requests/in/", True),
        ("input_s3_uri", "s3://models/qwen3-8b", True),
        ("failure_s3_uri", "s3://requests/in-failed/", False),
    ],
)
def test_nothing_is_written_among_what_is_read(tmp_path: Path, field: str, uri: str, found: bool) -> None:
    """Weights, and requests; a name that only begins alike is another prefix."""
    later = {"input_s3_uri": "s3://requests/in/", "output_s3_uri": "s3://answers/out/", field: uri}
    endpoint = {"instance_type": "ml.g6e.2xlarge", "hosting": "plain_variant", "async_inference": later}
    assert ("LP361" in codes(tmp_path, endpoint=endpoint)) == found


def test_two_accelerators_of_four_are_half_where_a_smaller_instance_has_the_same(tmp_path: Path) -> None:
    """ml.g6e.12xlarge has four L40S, ml.g6e.2xlarge one: two copies of one leave two idle, one of two needs it."""
    endpoint = {"instance_type": "ml.g6e.12xlarge"}
    assert "LP358" in codes(tmp_path, endpoint=endpoint, copies__max=2)
    settings = {"max_model_len": 8192, "tensor_parallel_degree": 2}
    assert "LP358" not in codes(tmp_path, endpoint=endpoint, container={"family": "vllm", "settings": settings})
