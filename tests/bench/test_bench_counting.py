"""Prompts of exactly N tokens by a tokenizer, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.bench.spec import WorkloadSpec, empirical_tokens, fixed_tokens
from loadproof.bench.workload.counting import TokenizerCounter, WordCounter
from loadproof.bench.workload.prompts import Prompts
from loadproof.bench.workload.synthetic import WORDS
from loadproof.errors import InputError


def byte_pair_tokenizer(path: Path) -> Path:
    """A byte-level BPE as Llama's and GPT's, trained on three quarters of our words; every text begins with <s>."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=1200, special_tokens=["<s>"], show_progress=False)
    tokenizer.train_from_iterator([" " + " ".join(WORDS[:192])] * 9, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(path))
    return path


@pytest.mark.parametrize("tokens", [2, 3, 5, 8, 17, 64, 255, 1024])
def test_a_prompt_has_the_tokens_the_tokenizer_counts(tmp_path: Path, tokens: int) -> None:
    """Exactly as many, its <s> included, shared prefix or not; and every request says who counted."""
    file = byte_pair_tokenizer(tmp_path / "tokenizer.json")
    counter = TokenizerCounter(tmp_path)
    for shared in (0, 6):
        workload = WorkloadSpec(
            fixed_tokens(tokens), fixed_tokens(4), tokenizer=str(file), shared_prefix_tokens=shared, salt="s"
        )
        prompts = Prompts(workload)
        for number in (0, 1, 77_777):
            planned = prompts.planned(number)
            assert planned.input_tokens == counter.count(planned.text)
            assert planned.input_tokens == tokens
            assert planned.counted_by == "tokenizer"


def test_a_tokenizer_without_our_words_still_gets_its_tokens(tmp_path: Path) -> None:
    """One that knows single letters only: the text is cut in the middle of a word, to exactly 40 tokens."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    letters = {letter: place for place, letter in enumerate("_ abcdefghijklmnopqrstuvwxyz")}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    prompts = Prompts(WorkloadSpec(fixed_tokens(40), fixed_tokens(4), tokenizer=str(tmp_path)))
    planned = [prompts.planned(number) for number in range(20)]
    assert {(len(one.text), one.input_tokens) for one in planned} == {(40, 40)}


def test_words_that_are_several_tokens_are_not_used(tmp_path: Path) -> None:
    """The last quarter of the words was never learnt, so none of it is in a prompt."""
    counter = TokenizerCounter(byte_pair_tokenizer(tmp_path / "tokenizer.json"))
    usable = counter.usable(WORDS)
    assert 150 <= len(usable) < 256
    text = Prompts(WorkloadSpec(fixed_tokens(500), fixed_tokens(4), tokenizer=str(tmp_path))).planned(3).text
    assert set(text.split()) <= set(usable)


def test_a_later_turn_made_ahead_is_the_one_that_would_be_made_then(tmp_path: Path) -> None:
    """Its text needs a tokenizer's count again and again: not between an answer and the request that waits for it."""
    file = byte_pair_tokenizer(tmp_path / "tokenizer.json")
    ahead, then = (
        Prompts(WorkloadSpec(fixed_tokens(40), fixed_tokens(4), tokenizer=str(file), turns=2), chat=True)
        for _ in range(2)
    )
    ahead.prepare([(0, None, None)], later=[1])
    first, made = ahead.planned(0), then.following(1, then.planned(0), "an answer", 4)
    ahead._texts.turn = NotImplemented  # type: ignore[method-assign]
    assert ahead.following(1, first, "an answer", 4) == made


def test_a_file_that_is_no_tokenizer_is_bad_input(tmp_path: Path) -> None:
    """Missing, or not what the library reads."""
    pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
    with pytest.raises(InputError, match="no such tokenizer file"):
        TokenizerCounter(tmp_path / "none.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        TokenizerCounter(tmp_path)


def test_without_the_library_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Never an ImportError."""
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"pip install 'loadproof\[tokenizers\]'"):
        TokenizerCounter(tmp_path)


def test_without_a_tokenizer_a_count_is_called_an_estimate() -> None:
    """By words: ours one token each, foreign prose 1.33."""
    assert WordCounter().count("one two three") == 3 and WordCounter().count_prose("one two three") == 4
    assert Prompts(WorkloadSpec(fixed_tokens(9), fixed_tokens(4))).planned(0).counted_by == "words"


def test_an_empirical_length_is_one_of_those_given() -> None:
    """Drawn from 3, 7 and 40: all three come up in 60 requests, nothing else does."""
    prompts = Prompts(WorkloadSpec(empirical_tokens([3, 7, 40]), fixed_tokens(1)))
    assert {prompts.planned(number).input_tokens for number in range(60)} == {3, 7, 40}
