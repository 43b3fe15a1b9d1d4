"""How many in flight: what refusals cut, how it comes back, the gate, and the search against the twin."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from virtual_twin import TwinSender, made_invocation, now_s, refused, run_virtual

from loadproof.capacity import PlannedDeployment, deployment_from_container
from loadproof.invocation import GenerationRequest, Invocation, Outcome, OutcomeKind, RetryClass
from loadproof.invocation.adaptive import Auto, Bound, count_served
from loadproof.invocation.chains import Item
from loadproof.invocation.concurrency import Ceiling, Gate, Pace
from loadproof.invocation.engine import ItemResult, Many
from loadproof.invocation.invoker import UnderWay
from loadproof.simulation.closed_loop import simulate_requests

OK = Outcome(OutcomeKind.OK, 200)
NO_COPY = Outcome(OutcomeKind.NO_CAPACITY, 400, retry=RetryClass.NO_CAPACITY_YET)
ACCIDENT = Outcome(OutcomeKind.CONNECTION, None, "refused", "no connection", RetryClass.TRY_AGAIN)
POISON = Outcome(OutcomeKind.VALIDATION, 422, retry=RetryClass.POISON)


def ended(outcome: Outcome) -> Invocation:
    return made_invocation(outcome, 0, array("q"), 1, 1)


def deployment(family: str = "tgi", **variables: str) -> PlannedDeployment:
    return deployment_from_container(
        family=family,  # type: ignore[arg-type]
        version="",
        variables=variables,
        model_id="meta-llama/Llama-3.1-8B-Instruct",
        architecture=None,
        instance_type="ml.g6e.2xlarge",
        accelerators_per_copy=1,
        copies=1,
    )


# ---------------------------------------------------------------------------------------------------- refusals


def test_the_first_refusal_says_how_much_there_is_room_for() -> None:
    """100 allowed and one refused beside 64 others: 64 it is, for the recovery time of 4 s."""
    ceiling = Ceiling(100)
    ceiling.refused(64, 10.0)
    assert [ceiling.value(at_s) for at_s in (10.0, 12.0, 14.0)] == [64.0, 64.0, 64.0]


def test_refusals_of_one_instant_are_one_event() -> None:
    """Six of seventy are refused together: 64 are left, not 64 cut six times."""
    ceiling = Ceiling(100)
    for held in (69, 68, 67, 66, 65, 64):
        ceiling.refused(held, 10.0)
    assert ceiling.value(10.0) == 64.0


def test_refusals_that_go_on_halve_what_is_in_flight_within_two_seconds() -> None:
    """A cut of 30% each half second outruns the way back: 64, 44.1, 34.3, 26.6."""
    ceiling = Ceiling(100)
    values = []
    for at_s, held in ((0.0, 64), (0.5, 63), (1.0, 49), (1.5, 38)):
        ceiling.refused(held, at_s)
        values.append(ceiling.value(at_s))
    assert values == pytest.approx([64.0, 44.1, 34.3, 26.6])


def test_what_was_cut_comes_back_fast_and_goes_beyond_with_care() -> None:
    """Cut from 50 to 35: after half the recovery time 7/8 of the way back, then 5% beyond at twice it."""
    ceiling = Ceiling(100)
    ceiling.refused(50, 0.0)
    ceiling.refused(50, 1.0)
    assert ceiling.value(1.0) == pytest.approx(35.0)
    assert ceiling.value(3.0) == pytest.approx(50 - 15 / 8)
    assert ceiling.value(5.0) == pytest.approx(50.0)
    assert ceiling.value(9.0) == pytest.approx(52.5)
    assert ceiling.value(1000.0) == 100


def test_a_limit_that_is_met_again_is_tried_less_often() -> None:
    """64 twice, 9 s apart: the second time it is believed for 8 s instead of 4."""
    ceiling = Ceiling(100)
    ceiling.refused(64, 0.0)
    ceiling.refused(64, 9.0)
    assert ceiling.value(17.0) == 64.0
    assert ceiling.value(25.0) == pytest.approx(67.2)


def test_a_fixed_number_is_lowered_by_refusals_and_never_exceeded() -> None:
    """`--concurrency 8` means at most 8."""
    pace = Pace(8)
    assert pace.room(7, 0.0) and not pace.room(8, 0.0)
    pace.ended(ended(refused()), 5, 0.0)
    assert not pace.room(5, 0.0) and pace.room(4, 0.0)
    assert not pace.room(8, 10_000.0)


# ---------------------------------------------------------------------------------------------------- the gate


def test_without_a_copy_one_probe_goes_out_each_five_seconds() -> None:
    """After NO_CAPACITY nothing is sent for 5 s, then one, and none beside it."""
    pace = Pace(8)
    pace.ended(ended(NO_COPY), 0, 100.0)
    assert not pace.room(0, 104.9) and pace.room(0, 105.0) and not pace.room(1, 105.0)


@pytest.mark.parametrize("answer", [OK, POISON])
def test_an_answer_opens_the_gate(answer: Outcome) -> None:
    """Also one that calls the request wrong: somebody is there to say so."""
    pace = Pace(8)
    pace.ended(ended(NO_COPY), 0, 100.0)
    pace.ended(ended(answer), 0, 105.0)
    assert pace.room(7, 105.0)


def test_refusals_close_the_gate_when_nothing_of_ours_is_held() -> None:
    """Three in a row beside others are a limit; with nothing else in flight there is nothing to lower any more."""
    beside, alone = Pace(8), Pace(8)
    for _ in range(3):
        beside.ended(ended(refused(503)), 4, 0.0)
        alone.ended(ended(refused(503)), 0, 0.0)
    assert (beside.gate.closed, alone.gate.closed) == (False, True)


def test_many_failures_in_a_row_close_the_gate() -> None:
    """Twenty at 8 in flight: what is left is not spent on a dead endpoint."""
    pace = Pace(8)
    for count in range(1, 21):
        pace.ended(ended(ACCIDENT), 3, 0.0)
        assert pace.gate.closed == (count == 20)


def test_patience_ends_a_run_and_names_the_last_outcome() -> None:
    """Closed for the whole patience; a probe in between does not start it again."""
    pace = Pace(8)
    pace.ended(ended(NO_COPY), 0, 0.0)
    pace.ended(ended(NO_COPY), 0, 500.0)
    assert pace.given_up(999.0, 1000.0) == ""
    assert "no_capacity" in pace.given_up(1000.0, 1000.0)


def test_what_never_answered_and_cannot_be_reached_is_not_waited_for() -> None:
    """A wrong port is said at once; an endpoint that answered before may come back."""
    dead, gone = Pace(8), Pace(8)
    gone.ended(ended(OK), 0, 0.0)
    for pace in (dead, gone):
        for _ in range(20):
            pace.ended(ended(ACCIDENT), 0, 0.0)
    assert "no connection" in dead.given_up(0.0, 1800.0)
    assert gone.given_up(1799.0, 1800.0) == ""


def test_the_gate_counts_from_its_first_closing() -> None:
    """Opened and closed again, it counts again."""
    gate = Gate()
    gate.close(NO_COPY, 0.0)
    gate.close(NO_COPY, 5.0)
    assert gate.closed_for_s(7.0) == 7.0
    gate.open()
    gate.close(NO_COPY, 10.0)
    assert gate.closed_for_s(12.0) == 2.0


# ---------------------------------------------------------------------------------------------------- the search


def test_requests_put_aside_are_not_served() -> None:
    """Three get a token each 20 ms; the fourth had some and none for 5 s; the fifth still waits."""
    now = 10_000_000_000
    streaming = [UnderWay(0, 1, now - 20_000_000 * i, 500) for i in range(3)]
    put_aside, waiting = UnderWay(0, 1, 5_000_000_000, 250), UnderWay(0, None, None, 0)
    assert count_served([*streaming, put_aside, waiting]) == 3


def test_a_prompt_being_worked_on_puts_nobody_aside() -> None:
    """All old ones wait for a newcomer's prompt since 5 s: they stand still together, and are served."""
    newcomer = UnderWay(9_000_000_000, 10_000_000_000, 10_000_000_000, 1)
    held_up = [UnderWay(0, 1, 5_000_000_000 - i, 250) for i in range(3)]
    assert count_served([newcomer, *held_up]) == 4


def run_auto(sender: TwinSender, sizes: list[tuple[int, int]], most: int = 512, bounds: tuple[Bound, ...] = ()):
    """(tokens per second, results, the last limit) of a whole run in virtual time."""

    async def main() -> tuple[float, list[ItemResult], int]:
        many = Many(sender, Pace(most, Auto(most, bounds)), chance=Random(1), clock_s=now_s)
        items = (Item(str(i), GenerationRequest("w " * size[0], size[1])) for i, size in enumerate(sizes))
        results = [result async for result in many.run(items)]
        return sum(tokens for _, tokens in sizes) / now_s(), results, many.pace.limit(now_s())

    return run_virtual(main())


def sizes_of(count: int, input_tokens: int, output_tokens: int) -> list[tuple[int, int]]:
    draw = Random(3)
    return [
        (round(input_tokens * draw.uniform(0.5, 1.5)), round(output_tokens * draw.uniform(0.5, 1.5)))
        for _ in range(count)
    ]


def best_fixed(deployed: PlannedDeployment, sizes: list[tuple[int, int]], levels: tuple[int, ...]) -> float:
    def rate(level: int) -> float:
        done = simulate_requests(deployed, sizes, level)
        return sum(one.output_tokens for one in done) / max(one.end_ms for one in done) * 1000

    return max(rate(level) for level in levels)


@pytest.mark.parametrize(
    ("family", "variables", "size", "levels", "share"),
    [
        ("tgi", {"MAX_CONCURRENT_REQUESTS": "32"}, (256, 128), (8, 16, 24, 32), 0.95),  # refuses the 33rd
        ("tgi", {"MAX_CONCURRENT_REQUESTS": "500"}, (1500, 64), (8, 16, 32, 64, 128), 0.95),  # its prompts bind
        ("vllm", {"SM_VLLM_MAX_NUM_SEQS": "48"}, (256, 128), (16, 32, 48, 96), 0.95),  # a full batch
        ("vllm", {}, (128, 200), (32, 64, 128, 256), 0.90),  # takes all there is: the way up is a tenth of the list
    ],
)
def test_auto_is_near_the_best_fixed_number(
    family: str, variables: dict[str, str], size: tuple[int, int], levels: tuple[int, ...], share: float
) -> None:
    """Whole runs, the search included, against four kinds of limits, with nothing told about any of them."""
    deployed, sizes = deployment(family, **variables), sizes_of(700, *size)
    rate, results, _ = run_auto(TwinSender(deployed), sizes, most=256)
    assert all(result.outcome.ok for result in results) and len(results) == 700
    assert rate >= share * best_fixed(deployed, sizes, levels)


def test_answers_of_one_length_do_not_fool_the_search() -> None:
    """They end all at once, and for a moment hardly any is served: the number must not follow that down."""
    deployed, sizes = deployment("tgi", MAX_CONCURRENT_REQUESTS="64"), [(256, 100)] * 600
    rate, _, _ = run_auto(TwinSender(deployed), sizes)
    assert rate >= 0.95 * best_fixed(deployed, sizes, (16, 32, 48, 64))


def test_auto_stays_below_the_maximum() -> None:
    """A server that would take hundreds sees 20, and never more."""
    sender = TwinSender(deployment("vllm"))
    run_auto(sender, sizes_of(200, 64, 64), most=20)
    assert sender.most_in_flight == 20


def test_auto_leaves_no_long_queue_at_the_door() -> None:
    """A batch of 16 is kept full by a few more than 16 in flight, not by 512."""
    _, _, limit = run_auto(TwinSender(deployment("vllm", SM_VLLM_MAX_NUM_SEQS="16")), sizes_of(600, 256, 128))
    assert 16 <= limit <= 32


def test_auto_keeps_a_bound_on_the_time_per_token() -> None:
    """The answers' p95 is within the bound, at 80% or more of what the best fixed level within it brings."""
    deployed, sizes, bound_ms = deployment("vllm"), sizes_of(1500, 128, 100), 45.0
    rate, results, _ = run_auto(TwinSender(deployed), sizes, bounds=(Bound("tpot", 0.95, bound_ms),))
    within = [
        level
        for level in (8, 16, 32, 64, 96, 128, 192, 256)
        if sorted(one.tpot_ms for one in simulate_requests(deployed, sizes, level))[1424] <= bound_ms  # type: ignore[type-var]
    ]
    tpots = sorted(
        (one.end_ns - one.first_token_ns) / (one.output_tokens - 1) / 1e6
        for result in results
        if (one := result.invocation) and one.first_token_ns and one.output_tokens
    )
    assert within and within[-1] < 256, "the bound must bind"
    assert tpots[1424] <= bound_ms
    assert rate >= 0.8 * best_fixed(deployed, sizes, (within[-1],))
