"""Step times and the closed-form curve: hand-worked terms, and what must hold whatever the numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import log

import pytest
from capacity_seed import SeedRow
from hypothesis import given
from hypothesis import strategies as st

from loadproof import catalog
from loadproof.capacity import PlannedDeployment, StepTimes, deployment_from_container, predict_level
from loadproof.capacity.servers import efficiency_row
from loadproof.errors import InputError

MODELS = ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen3-32B")


def vllm(model_id: str = "meta-llama/Llama-3.1-8B", accelerators: int = 8, copies: int = 1) -> PlannedDeployment:
    return deployment_from_container(
        family="vllm",
        version="0.30.0",
        variables={"SM_VLLM_MAX_MODEL_LEN": "8192"},
        model_id=model_id,
        architecture=None,
        instance_type="ml.p5.48xlarge",
        accelerators_per_copy=accelerators,
        copies=copies,
    )


def tgi_7b(tp_degree: int = 1, instance_type: str = "ml.g5.2xlarge", copies: int = 1) -> PlannedDeployment:
    return SeedRow("Llama 2 7B", instance_type, copies, tp_degree, 256, 256, 1, None, None).deployment()


def bare(deployment: PlannedDeployment) -> PlannedDeployment:
    """The hardware alone: no server time, perfect efficiencies."""
    server = replace(
        deployment.server,
        step_ms=0.0,
        step_ms_per_layer=0.0,
        step_ms_per_expert_layer=0.0,
        step_ms_per_linear_layer=0.0,
        step_ms_per_doubling=0.0,
        step_ms_per_sequence=0.0,
        prefill_us_per_token_per_doubling=0.0,
        bandwidth_efficiency=1.0,
        compute_efficiency=1.0,
        single_token_gain=1.0,
        kv_read_share=1.0,
        ttft_ms=0.0,
        split_kv=True,
    )
    return replace(deployment, server=server)


def test_one_decode_step_reads_the_weights_once() -> None:
    """Llama 2 7B reads 6.607e9 parameters of 2 bytes at 600 GB/s: 22.02 ms."""
    assert StepTimes(bare(tgi_7b())).decode_ms(1, 0) == pytest.approx(22.023, rel=1e-3)


def test_reading_kv_cache_adds_its_bytes() -> None:
    """10,000 tokens of 524,288 bytes at 600 GB/s: 8.738 ms more."""
    steps = StepTimes(bare(tgi_7b()))
    assert steps.decode_ms(8, 10_000) - steps.decode_ms(8, 0) == pytest.approx(8.738, rel=1e-3)


def test_a_long_prefill_is_bound_by_compute() -> None:
    """The head, 32,000 · 4,096 = 0.131e9, scores the last token alone: 2 · 6.476e9 · 1,000 FLOPs at 70 TFLOP/s are
    185.03 ms and the head's 0.004; attention adds 4 · 32 · 4,096 · 500,000 / 70e12: 3.745 ms."""
    assert StepTimes(bare(tgi_7b())).prefill_ms(1000) == pytest.approx(185.03 + 0.004 + 3.745, rel=1e-4)


def test_each_prompt_of_a_step_is_scored_once() -> None:
    """Four prompts of 250 tokens for one of 1,000: three heads more, 3 · 2 · 0.131072e9 / 70e12 = 0.01123 ms, and a
    quarter of the attention, 3.745 · 3 / 4 = 2.809 ms less."""
    times = StepTimes(bare(tgi_7b()))
    assert times.prefill_ms(1000, 4) - times.prefill_ms(1000) == pytest.approx(0.01123 - 2.8087, rel=1e-3)


def test_every_decoded_token_is_scored() -> None:
    """1,000 sequences are bound by compute: 2 · 6.607e9 · 1,000 FLOPs at 70 TFLOP/s are 188.77 ms."""
    shares = StepTimes(bare(tgi_7b())).decode_shares(1000, 0)
    assert shares["compute"] == pytest.approx(188.77, rel=1e-4)


def test_all_reduce_moves_its_bytes_twice_over_the_ring() -> None:
    """64 reduces over 4: 64 · 2 · 3/4 · 8,192 bytes at 5.41 GB/s are 0.145 ms a token; 64 · 3.95 us · 2 once."""
    shares = StepTimes(bare(tgi_7b(4, "ml.g5.12xlarge"))).decode_shares(10, 0)
    assert shares["fabric"] == pytest.approx(10 * 0.14537 + 0.50560, rel=1e-3)


def test_shares_sum_to_the_step() -> None:
    """What a step is spent on is all of the step."""
    steps = StepTimes(tgi_7b(8, "ml.p4d.24xlarge"))
    assert sum(steps.decode_shares(12, 6000).values()) == pytest.approx(steps.decode_ms(12, 6000))


def test_few_sequences_cannot_keep_many_multiprocessors_reading() -> None:
    """Without split KV one sequence on 32 of an A10G's 80 multiprocessors reads KV 2.5 times slower."""
    whole = replace(bare(tgi_7b()), server=replace(bare(tgi_7b()).server, split_kv=False))
    alone = StepTimes(whole).decode_ms(1, 4000) - StepTimes(whole).decode_ms(1, 0)
    split = StepTimes(bare(tgi_7b())).decode_ms(1, 4000) - StepTimes(bare(tgi_7b())).decode_ms(1, 0)
    assert alone / split == pytest.approx(2.5)


def test_a_mixture_of_experts_reads_more_experts_in_larger_batches() -> None:
    """Mixtral's 2 of 8 experts: one token reads its active parameters, a large batch nearly all 46.7e9; TGI 1.x reads
    all 46.7e9 even for one."""
    row = SeedRow("Mixtral 8x7B", "ml.p4d.24xlarge", 1, 8, 256, 256, 1, None, None)
    tgi = bare(row.deployment())
    assert StepTimes(tgi).decode_shares(1, 0)["bandwidth"] == pytest.approx(46.703e9 * 2 / (8 * 1555e6), rel=1e-6)
    steps = StepTimes(replace(tgi, server=replace(tgi.server, all_experts=False)))
    read_ms = [steps.decode_shares(batch, 0)["bandwidth"] for batch in (1, 64)]
    per_ms = 8 * 1555e6
    assert read_ms[0] == pytest.approx(12.749e9 * 2 / per_ms, rel=1e-6)
    assert read_ms[1] == pytest.approx(46.703e9 * 2 / per_ms, rel=0.05)


def test_the_curves_parts_fit_together() -> None:
    """E2E = TTFT + (output - 1) · TPOT, and throughput · E2E = requests in flight (Little)."""
    level = predict_level(tgi_7b(), 256, 256, 64)
    assert level is not None
    assert level.e2e_ms == pytest.approx(level.ttft_ms + 255 * level.tpot_ms)
    assert level.requests_per_s * level.e2e_ms / 1000 == pytest.approx(64)
    assert level.queue_ms > 0


def test_two_copies_at_twice_the_load_are_one_copy_twice() -> None:
    """Copies do not share anything the planner knows of: same latency, twice the tokens."""
    one, two = predict_level(vllm(copies=1), 512, 128, 8), predict_level(vllm(copies=2), 512, 128, 16)
    assert one is not None
    assert two is not None
    assert two.e2e_ms == pytest.approx(one.e2e_ms)
    assert two.output_tokens_per_s == pytest.approx(2 * one.output_tokens_per_s)


def test_a_copy_without_a_request_adds_nothing() -> None:
    """Three copies with one request in flight are as fast as one."""
    one, three = predict_level(vllm(copies=1), 512, 128, 1), predict_level(vllm(copies=3), 512, 128, 1)
    assert one is not None
    assert three is not None
    assert three.output_tokens_per_s == pytest.approx(one.output_tokens_per_s)


def test_requests_past_the_servers_admission_are_refused_not_queued() -> None:
    """600 in flight on a TGI that admits 512: 88 are answered with 429."""
    level = predict_level(tgi_7b(), 256, 256, 600)
    assert level is not None
    assert level.refused == 88


def test_a_request_that_can_never_be_served_has_no_level() -> None:
    """4,000 + 256 tokens exceed TGI's 4,096: None, not a number."""
    assert predict_level(tgi_7b(), 4000, 256, 1) is None


def test_a_non_streamed_request_past_sixty_seconds_is_flagged() -> None:
    """128 in flight on one A10G queue for more than a minute; one does not."""
    crowded, alone = predict_level(tgi_7b(), 256, 256, 128), predict_level(tgi_7b(), 256, 256, 1)
    assert crowded is not None
    assert alone is not None
    assert (crowded.over_60_s, alone.over_60_s) == (True, False)


@pytest.mark.parametrize("counts", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_counts_below_one_are_refused(counts: tuple[int, int, int]) -> None:
    """A level of nothing is a mistake of the caller."""
    with pytest.raises(InputError, match="at least 1"):
        predict_level(tgi_7b(), *counts)


def test_tgi_holds_a_lone_request_back_while_a_large_batch_decodes() -> None:
    """0.3 · (8 - 1) = 2.1: a newcomer waits for a second one or 20 decodes; with 0.3 · (4 - 1) nobody waits. The rest
    of a spread-out TTFT is a prompt of its own and at most half of what is under way."""
    default = replace(tgi_7b(), limits=replace(tgi_7b().limits, waiting_served_ratio=0.3))
    four, eight = (predict_level(default, 256, 256, load, staggered=True) for load in (4, 8))
    assert four is not None
    assert eight is not None
    assert four.ttft_ms <= 1.5 * four.prefill_step_ms
    assert 20 * eight.tpot_ms > eight.ttft_ms > 2 * eight.prefill_step_ms


tokens = st.integers(1, 3000)
loads = st.integers(1, 600)


@given(tokens, st.integers(2, 1000), loads, loads, st.sampled_from(MODELS), st.booleans())
def test_more_load_never_lowers_throughput_nor_latency(
    input_tokens: int, output_tokens: int, first: int, second: int, model_id: str, staggered: bool
) -> None:
    """Along the curve throughput, TTFT and E2E only grow."""
    low, high = sorted((first, second))
    deployment = vllm(model_id)
    few = predict_level(deployment, input_tokens, output_tokens, low, staggered=staggered)
    many = predict_level(deployment, input_tokens, output_tokens, high, staggered=staggered)
    assert few is not None
    assert many is not None
    assert many.output_tokens_per_s >= few.output_tokens_per_s * (1 - 1e-9)
    assert many.ttft_ms >= few.ttft_ms * (1 - 1e-9)
    assert many.e2e_ms >= few.e2e_ms * (1 - 1e-9)


@given(tokens, st.integers(1, 1000), loads)
def test_a_larger_model_is_never_faster(input_tokens: int, output_tokens: int, concurrency: int) -> None:
    """On the same accelerators, more parameters mean no more tokens and no sooner a first one."""
    levels = [predict_level(vllm(model_id), input_tokens, output_tokens, concurrency) for model_id in MODELS]
    known = [level for level in levels if level is not None]
    assert len(known) == len(MODELS)
    for smaller, larger in pairwise(known):
        assert larger.output_tokens_per_s <= smaller.output_tokens_per_s
        assert larger.ttft_ms >= smaller.ttft_ms


@given(st.sampled_from(sorted(catalog.architectures())), st.integers(1, 512), st.integers(1, 100_000))
def test_every_catalog_model_has_a_positive_finite_step(model_id: str, batch: int, context: int) -> None:
    """No shape in the catalog breaks the step model."""
    step_ms = StepTimes(vllm(model_id)).decode_ms(batch, context)
    assert 0 < step_ms < 60_000


def test_a_prompt_token_costs_more_on_more_accelerators() -> None:
    """1,000 prompt tokens at 10 us a doubling: nothing on one accelerator, 3 · 10 ms on eight."""
    for degree, instance_type, added_ms in ((1, "ml.g5.2xlarge", 0.0), (8, "ml.g5.48xlarge", 30.0)):
        plain = bare(tgi_7b(degree, instance_type))
        dear = replace(plain, server=replace(plain.server, prefill_us_per_token_per_doubling=10.0))
        assert StepTimes(dear).prefill_ms(1000) - StepTimes(plain).prefill_ms(1000) == pytest.approx(added_ms)


def test_layers_of_many_small_kernels_cost_their_launches_and_only_they() -> None:
    """0.1 ms in each of Mixtral's 32 layers, nothing in Llama's; Qwen3.5 122B has 48 of experts, and 36 of linear
    attention at 0.2 ms: 4.8 + 7.2."""
    mixtral = bare(SeedRow("Mixtral 8x7B", "ml.p4d.24xlarge", 1, 8, 256, 256, 1, None, None).deployment())
    qwen = bare(vllm("Qwen/Qwen3.5-122B-A10B"))
    for plain, added_ms in ((mixtral, 3.2), (bare(tgi_7b()), 0.0), (qwen, 12.0)):
        server = replace(plain.server, step_ms_per_expert_layer=0.1, step_ms_per_linear_layer=0.2)
        dear = replace(plain, server=server)
        assert StepTimes(dear).decode_ms(4, 0) - StepTimes(plain).decode_ms(4, 0) == pytest.approx(added_ms)


@pytest.mark.parametrize(("in_flight", "near"), [(23, False), (24, True), (36, True), (37, False)])
def test_a_level_knows_that_its_queue_is_in_doubt(in_flight: int, near: bool) -> None:
    """Llama 2 7B in 512 tokens on an A10G: room for 29 at once, so from 0.8 · 29 = 23.2 to 1.25 · 29 = 36.3."""
    level = predict_level(tgi_7b(), 256, 256, in_flight)
    assert level is not None
    assert level.near_limit is near


def test_a_single_token_reads_weights_faster_and_kv_at_its_own_rate() -> None:
    """22.023 ms of weights at a gain of 1.1 are 20.02 ms, for one token only; 8.738 ms of KV at half the rate 17.48."""
    plain = bare(tgi_7b())
    steps = StepTimes(replace(plain, server=replace(plain.server, single_token_gain=1.1, kv_read_share=0.5)))
    assert steps.decode_ms(1, 0) == pytest.approx(20.021, rel=1e-3)
    assert steps.decode_ms(2, 0) == pytest.approx(22.023, rel=1e-3)
    assert steps.decode_ms(8, 10_000) - steps.decode_ms(8, 0) == pytest.approx(17.476, rel=1e-3)


def test_few_sequences_of_few_key_value_heads_leave_multiprocessors_idle() -> None:
    """Llama 2 70B over 8 A100 has one key-value head on each: one sequence of 1,000 tokens is read by 1 of 108
    multiprocessors, 108 sequences by all."""
    plain = bare(SeedRow("Llama 2 70B", "ml.p4d.24xlarge", 1, 8, 256, 256, 1, None, None).deployment())
    whole = StepTimes(plain)
    blocks = StepTimes(replace(plain, server=replace(plain.server, split_kv=False)))

    def kv_ms(steps: StepTimes, sequences: int) -> float:
        return steps.decode_ms(sequences, 1000.0 * sequences) - steps.decode_ms(sequences, 0)

    assert kv_ms(blocks, 1) == pytest.approx(108 * kv_ms(whole, 1))
    assert kv_ms(blocks, 108) == pytest.approx(kv_ms(whole, 108))


def test_prompts_reach_another_share_of_compute_by_generation_and_kind() -> None:
    """Bursts: dense models reach 0.6 of an A100's datasheet, mixtures 0.2 to 0.3 of an H100's. There TensorRT-LLM's
    dense prompts reach 0.55 in 8 bits, and matrix products alone 0.8 in 16 and 0.5 in 8."""

    def reached(accelerator: str, *, mixture: bool = False, fp8: bool = False) -> float:
        row = efficiency_row("vllm", accelerator, mixture=mixture, fp8=fp8)
        assert row is not None
        return row.compute_efficiency

    assert 0.5 <= reached("H100") <= 0.8
    assert 0.35 <= reached("H100", fp8=True) <= 0.55
    assert 0.2 <= reached("H200", mixture=True) <= 0.3
    assert reached("A100-80") == pytest.approx(0.6, rel=0.1)
    assert reached("H100", fp8=True) < reached("H100")  # of twice the FLOP/s


def test_a_generation_nobody_measured_has_the_row_of_any() -> None:
    """Ada's prompts lie within their doubt of Hopper's and Ampere's, and are more in doubt; TGI's row is its own."""
    rows = [efficiency_row("vllm", name, mixture=False, fp8=False) for name in ("H100", "L40S", "A100-80")]
    shares, doubts = zip(*((row.compute_efficiency, row.doubt) for row in rows if row is not None), strict=True)
    assert max(abs(log(shares[1] / share)) for share in (shares[0], shares[2])) < doubts[1]
    assert doubts[1] > 3 * max(doubts[0], doubts[2])
    assert efficiency_row("tgi", "A100-80", mixture=True, fp8=False) is None
