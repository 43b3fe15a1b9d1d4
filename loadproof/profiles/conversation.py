"""A conversation's turns: each is sent with all before it, so prompts grow and begin as the last one ended.

Turn k of prompts of P tokens and answers of A has k · P + (k - 1) · A prompt tokens, of which (k - 1) · (P + A) are
history. With P = 3,072 and A = 256 six turns are 3,072, 6,400, 9,728, 13,056, 16,384 and 19,712 tokens.
"""

from __future__ import annotations


def prompt_tokens(turn: int, prompt: float, answer: float) -> float:
    """Of the `turn`-th request of a conversation, counted from 1, with all before it."""
    return turn * prompt + (turn - 1) * answer


def history_tokens(turn: int, prompt: float, answer: float) -> float:
    """How many of these the turn before ended with."""
    return (turn - 1) * (prompt + answer)


def first_turn_above(most: int, turns: int, prompt: int, answer: int, *, with_answer: bool) -> int | None:
    """The first turn whose prompt, or whose prompt with its answer, is longer than `most`; None where all fit."""
    own = answer if with_answer else 0
    return next(
        (turn for turn in range(1, turns + 1) if prompt_tokens(turn, prompt, answer) + own > most),
        None,
    )
