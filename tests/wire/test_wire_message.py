"""Queued bodies: what is accepted, how a result is named, and what is refused with which words."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.wire.message import MalformedError, Message, key_of, read_message, read_request

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_senders_key_names_the_result() -> None:
    """A key of the sender's own is taken as it is."""
    message = read_message('{"key": "order-17.a", "request": {"inputs": "hi"}}')
    assert (message.key, message.request) == ("order-17.a", {"inputs": "hi"})


def test_without_a_key_request_and_revision_name_the_result() -> None:
    """SHA-256 of `["r1",{"a":1,"b":2}]` by sha256sum: the order of names does not matter, the revision does."""
    expected = "1d702b8a64c067b9f81fe1a0bcb04dc88fd7a8ad5be720b9ee533b0b2399e71b"
    assert read_message('{"request": {"b": 2, "a": 1}}').key is None
    assert key_of({"b": 2, "a": 1}, "r1") == key_of({"a": 1, "b": 2}, "r1") == expected
    assert key_of({"a": 1, "b": 2}, "r2") != expected


@pytest.mark.parametrize(
    ("request_", "revision", "key"),
    [
        (
            {"inputs": "Once upon a time", "parameters": {"max_new_tokens": 64}},
            "r1",
            "b15d95eae54aabe3ac1e85b66105d5ee3a2112ebc0778c5a321554357fbe46d3",
        ),
        (
            {"messages": [{"role": "user", "content": "héllo 😀"}], "max_tokens": 64, "temperature": 0.7},
            "0123abc",
            "bc30e4d6ddb6decf65163632cfa45da712c0971093d33bfa46ae53c93dd9a95c",
        ),
        (
            {"x": [None, True, 1.0, 1e-07, -0.0, 12345678901234567890]},
            "r1",
            "332dc8fc12b25124638c85ad68e2f4faee33b85f1927861e9c5d146ac89d1167",
        ),
    ],
)
def test_a_key_never_changes(request_: dict[str, object], revision: str, key: str) -> None:
    """As the two modules made it that this one replaced: a result that is stored must be found again."""
    assert key_of(request_, revision) == key


def test_every_field_is_read() -> None:
    """A message with all that the contract has, its request in the bucket."""
    body = {
        "request_s3": "requests/large-1",
        "deadline_ms": 1790000000000,
        "priority": "low",
        "tenant": "blue",
        "callback": "arn:aws:sqs:us-east-1:123456789012:told",
    }
    assert read_message(json.dumps(body)) == Message(
        request=None,
        request_s3="requests/large-1",
        key=None,
        deadline_ms=1790000000000,
        priority="low",
        tenant="blue",
        callback="arn:aws:sqs:us-east-1:123456789012:told",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "not strict JSON at line 1, column 1"),
        ('{"request": {', "not strict JSON at line 1, column 14"),
        ('{"request": {"x": NaN}}', "not strict JSON"),
        ('{"request": {"x": 1, "x": 2}}', "not strict JSON"),
        ("[1]", "expected a JSON object"),
        ("{}", "one of `request` and `request_s3` must be there, and not both"),
        (
            '{"request": {"x": 1}, "request_s3": "requests/a"}',
            "one of `request` and `request_s3` must be there, and not both",
        ),
        ('{"request": "hi"}', "`request` must be an object that holds the model's payload"),
        ('{"request": {}}', "`request` must be an object that holds the model's payload"),
        (
            '{"request": {"x": 1}, "mode": 1}',
            "1 unknown field(s); allowed: request, request_s3, key, deadline_ms, priority, tenant, callback",
        ),
        (
            '{"request_s3": "results/a.json"}',
            "`request_s3` must be requests/<name> of 1..200 of A-Z a-z 0-9 . _ -",
        ),
        (
            '{"request": {"x": 1}, "deadline_ms": true}',
            "`deadline_ms` must be a whole number of milliseconds since 1970",
        ),
        ('{"request": {"x": 1}, "priority": "urgent"}', "`priority` must be normal or low"),
        ('{"request": {"x": 1}, "tenant": "a b"}', "`tenant` must be 1..128 visible ASCII characters"),
        ('{"request": {"x": 1}, "callback": "https://x"}', "`callback` must be the ARN of a queue or a topic"),
        (
            '{"request": {"x": 1}, "key": "../a"}',
            "`key` must be 1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
        ),
        ('{"request": {"x": "\\ud800"}}', "text with half a surrogate pair is not Unicode"),
        ('{"request": ' + '{"x":' * 50_000 + "1" + "}" * 50_001, "nested too deeply"),
        (
            f'{{"request": {{"x": [{"[]," * 250_000}1]}}}}',
            "so many values in it that reading it would take too much memory",
        ),
    ],
)
def test_malformed_bodies_say_why(body: str, reason: str) -> None:
    """Each kind of nonsense has its own reason, without a word of what the sender wrote."""
    with pytest.raises(MalformedError) as caught:
        read_message(body)
    assert str(caught.value) == reason


@pytest.mark.parametrize("inside", ["[{,:" * 250_000, '\\"[],' * 200_000])
def test_brackets_in_a_text_are_no_values(inside: str) -> None:
    """A prompt may be a program of a megabyte: what counts is what becomes a value."""
    body = f'{{"request": {{"x": "{inside}"}}}}'
    assert read_message(body).request == json.loads(body)["request"]


@given(st.text())
def test_any_text_is_a_message_or_malformed(body: str) -> None:
    """No body makes anything else happen."""
    with contextlib.suppress(MalformedError):
        assert read_message(body).request is not None


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=4))
def test_any_json_request_arrives_unchanged(request: dict[str, object]) -> None:
    """What the sender asked is what the model is asked."""
    body = json.dumps({"request": request})
    assert read_message(body).request == json.loads(body)["request"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    """The consumer told the first problem of a message only."""
    with pytest.raises(MalformedError) as caught:
        read_message('{"request": {}, "key": "../a"}')
    assert [problem.split("`")[1] for problem in caught.value.problems] == ["request", "key"]


def test_an_empty_payload_in_the_bucket_is_no_request() -> None:
    """As an empty one in the message is none."""
    with pytest.raises(MalformedError, match="the payload in the bucket is an empty object"):
        read_request("{}")
