"""What is kept of the last question is given again for the same one alone."""

from __future__ import annotations

from loadproof.capacity.kept import last_kept


def test_the_same_question_about_the_same_thing_is_worked_out_once() -> None:
    asked: list[tuple[object, int]] = []

    @last_kept
    def answer(thing: list[int], more: int) -> int:
        asked.append((thing, more))
        return sum(thing) + more

    one, equal = [1, 2], [1, 2]
    assert [answer(one, 1), answer(one, 1)] == [4, 4] and len(asked) == 1
    assert answer(one, 2) == 5 and len(asked) == 2
    assert answer(equal, 2) == 5 and len(asked) == 3  # another thing, though it looks the same
