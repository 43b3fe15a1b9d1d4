"""What of a target's address is told, and which are refused."""

from __future__ import annotations

import pytest

from loadproof.addresses import hider, shown_url
from loadproof.bench.connect import parse_target
from loadproof.errors import InputError

KEY = "sk-proj-planted0key0of0the0query000"
TOKEN = "Zk3vT9qLm2Xw8RbN4pYc"  # 20 characters of four kinds of luck


@pytest.mark.parametrize(
    "query",
    [
        *("api_key=x", "token=", "CODE=x", "a=1&sig=x", "subscription-key=x", "pwd=x", "jwt=x"),
        *(f"x={KEY}", f"{KEY}=1", f"k={TOKEN}", f"id={'0a1b' * 8}", "k=gsk_abcdefghijklmnop", "q=hf%5Fabcdefghij"),
    ],
)
def test_no_credential_stands_in_a_targets_query(query: str) -> None:
    """By its name or by its form; the message does not show it."""
    with pytest.raises(InputError, match="credential in its query") as caught:
        parse_target(f"http://h/v1?{query}", "openai", streaming=True)
    assert query not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        *("api-version=2024-10-21", "model=meta-llama-3-1-8b-instruct", "deployment=InferenceEndpointForProduction"),
        *("id=9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "region=us-east-1", "stream=true"),
    ],
)
def test_other_queries_are_sent_as_they_are(query: str) -> None:
    """And told by nobody."""
    target = parse_target(f"http://h?{query}", "openai", streaming=True)
    assert target.endpoint == f"http://h/v1/completions?{query}"
    assert target.told.endpoint == "http://h/v1/completions?…"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h:1/v1/completions", "http://h:1/v1/completions"),
        (f"http://h/{TOKEN}/v1?k=1#f", "http://h/…/v1?…"),
        (f"https://h/{KEY}", "https://h/…"),
        ("http://me:word@h/v1", "http://…@h/v1"),
        (f"/{TOKEN}?{KEY}", "/…?…"),
        ("http://h/v1/llama-3-1-8b-instruct-awq/invocations", "http://h/v1/llama-3-1-8b-instruct-awq/invocations"),
        ("http://h/openai/deployments/gpt-4o-mini-2024-07-18", "http://h/openai/deployments/gpt-4o-mini-2024-07-18"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    """Names of models and versions are not."""
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"no route /v1/{TOKEN}/x?k=planted/word", "no route /v1/…/x?…"),
        ("k is planted/word, not 3", "k is …, not 3"),
        ("decoded: planted word", "decoded: planted word"),
        ("again: planted%2Fword", "again: …"),
        (r'{"k": "planted\/word"}', '{"k": "…"}'),
        ("cut: k=planted/w", "cut: …"),
        (f"cut: {TOKEN[:9]}", "cut: …"),
        ("all is well", "all is well"),
    ],
)
def test_what_a_server_quotes_of_an_address_is_cut_out(said: str, told: str) -> None:
    """As it was sent, decoded, encoded again, as JSON, and where a message was cut in its midst."""
    assert hider(f"http://h/v1/{TOKEN}/x?k=planted/word")(said) == told
