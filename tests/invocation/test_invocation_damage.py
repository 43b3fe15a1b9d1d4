"""A whole answer, from the status line to the last chunk, cut at every byte and flipped at every bit."""

from __future__ import annotations

from invocation_fakes import END, STREAM_HEAD, chunked, played, sse, token_events

from loadproof.invocation import OutcomeKind
from loadproof.invocation.eventstream import PayloadPartDecoder, encode_payload_part

ANSWER = STREAM_HEAD + chunked(*(encode_payload_part(sse(e)) for e in token_events(["a", "é"]))) + END


def test_the_whole_answer_is_complete() -> None:
    """The undamaged answer is the yardstick of the tests below."""
    (invocation,) = played([ANSWER], "tgi", PayloadPartDecoder)
    assert (invocation.outcome.kind, invocation.output_tokens, invocation.text_length) == (OutcomeKind.OK, 2, 2)


def test_no_cut_passes_for_complete() -> None:
    """Cut before the end of the head: no answer at all. Cut later: truncated. Never ok."""
    cuts = [ANSWER[:cut] for cut in range(len(ANSWER))]
    kinds = [invocation.outcome.kind for invocation in played(cuts, "tgi", PayloadPartDecoder)]
    head = len(STREAM_HEAD)
    assert kinds[:head] == [OutcomeKind.CONNECTION] * head
    assert kinds[head:] == [OutcomeKind.TRUNCATED] * (len(ANSWER) - head)


def test_no_flipped_bit_changes_an_answer_unnoticed() -> None:
    """One bit flipped anywhere: either a fault, or the same tokens (the bit stood in a header that nobody reads)."""
    damaged = [
        ANSWER[: bit // 8] + bytes([ANSWER[bit // 8] ^ (1 << bit % 8)]) + ANSWER[bit // 8 + 1 :]
        for bit in range(len(ANSWER) * 8)
    ]
    unharmed = 0
    for bit, invocation in enumerate(played(damaged, "tgi", PayloadPartDecoder)):
        if invocation.outcome.ok:
            unharmed += 1
            assert (invocation.output_tokens, invocation.text_length, invocation.input_tokens) == (2, 2, 7), bit
    assert 0 < unharmed < 8 * len(STREAM_HEAD)
