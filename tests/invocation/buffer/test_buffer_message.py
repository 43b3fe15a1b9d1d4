"""What a producer sends: exactly what the consumer takes, under the key that the consumer gives it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.invocation.buffer.message import Message, MessageError, read_message
from loadproof.wire import message as consumer
from loadproof.wire.message import key_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
requests = st.dictionaries(st.text(), json_values, min_size=1, max_size=4)
odd = st.none() | st.just("") | st.booleans() | st.integers() | st.text(max_size=5) | st.just({}) | st.just([1])
contents = st.fixed_dictionaries(
    {},
    optional={
        "request": requests | odd,
        "request_s3": st.sampled_from(["requests/a", "requests/", "results/a", "requests/a/b"]) | odd,
        "key": st.from_regex(r"[A-Za-z0-9._-]{1,129}", fullmatch=True) | odd,
        "deadline_ms": st.sampled_from([0, 1, 1790000000000, 2**53 - 1, 2**53, 1.0, -1]) | odd,
        "priority": st.sampled_from(["normal", "low", "high"]) | odd,
        "tenant": st.text(max_size=3) | st.sampled_from(["blue", "a b", "x" * 128, "x" * 129]) | odd,
        "callback": st.sampled_from(["arn:aws:sqs:us-east-1:1:q", "arn:", "https://x"]) | odd,
        "mode": odd,
    },
)


def sender_takes(body: str) -> bool:
    try:
        read_message(body)
    except MessageError:
        return False
    return True


def consumer_takes(body: str) -> bool:
    try:
        consumer.read_message(body)
    except consumer.MalformedError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ('{"request": {"x": 1}}', True),
        ('{"request_s3": "requests/a.b-c_d"}', True),
        ('{"request": {"x": 1}, "key": null, "tenant": null}', True),
        ('{"request": {"x": 1}, "priority": null}', False),
        ("", False),
        ('{"request": {', False),
        ('{"request": {"x": NaN}}', False),
        ('{"request": {"x": 1, "x": 2}}', False),
        ("[1]", False),
        ("{}", False),
        ('{"request": {}}', False),
        ('{"request": {"x": 1}, "request_s3": "requests/a"}', False),
        ('{"request": {"x": 1}, "deadline_ms": true}', False),
        ('{"request": {"x": 1}, "key": "../a"}', False),
        ('{"request": {"x": 1}, "key": "a\\n"}', False),
        ('{"request": {"x": "\\ud800"}}', False),
        ('{"request": ' + '{"x":' * 100_000 + "1" + "}" * 100_001, False),
        (f'{{"request": {{"x": [{"[]," * 150_000}1]}}}}', True),
        (f'{{"request": {{"x": [{"[]," * 250_000}1]}}}}', False),
        (f'{{"request": {{"x": "{"[]," * 250_000}"}}}}', True),
    ],
)
def test_sender_and_consumer_take_the_same_bodies(body: str, taken: bool) -> None:
    """One list of bodies before both; each answer is written down here."""
    assert (sender_takes(body), consumer_takes(body)) == (taken, taken)


@given(contents)
def test_no_mixture_of_fields_is_taken_by_one_only(content: dict[str, Any]) -> None:
    """Any combination of good and odd values has one answer on both sides."""
    body = json.dumps(content)
    assert sender_takes(body) == consumer_takes(body)


@given(
    requests, st.sampled_from([None, "k.1"]), st.sampled_from([None, 1790000000000]), st.sampled_from(["low", "normal"])
)
def test_what_is_sent_is_what_is_read(request: dict[str, Any], key: str | None, deadline: int | None, how: Any) -> None:
    """All fields arrive as they were given, whatever the payload."""
    read = consumer.read_message(Message(request, key=key, deadline_ms=deadline, priority=how, tenant="blue").body)
    assert (read.key, read.deadline_ms, read.priority, read.tenant) == (key, deadline, how, "blue")
    assert read.request == json.loads(json.dumps(request))


@given(requests)
def test_both_sides_make_the_same_key(request: dict[str, Any]) -> None:
    """A producer knows the name of its result before anybody has read the message."""
    assert key_of(request, "r1") == consumer.key_of(json.loads(Message(request).body)["request"], "r1")


def test_the_key_is_the_contracts() -> None:
    """SHA-256 of `["r1",{"a":1,"b":2}]` by sha256sum."""
    assert key_of({"b": 2, "a": 1}, "r1") == "1d702b8a64c067b9f81fe1a0bcb04dc88fd7a8ad5be720b9ee533b0b2399e71b"


@given(st.text())
def test_a_body_has_only_characters_that_sqs_takes(text: str) -> None:
    """#x9 #xA #xD #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF (SendMessage's own list), and says the same text."""
    body = Message({"inputs": text}).body
    assert re.fullmatch("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*", body)
    assert json.loads(body)["request"]["inputs"] == text


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"x": float("nan")}, "NaN and infinities are not JSON"),
        ({"x": {1, 2}}, "holds what JSON has no form for"),
        ({1: "a", "1": "b"}, "not strict JSON"),
        ({"x": "\ud800"}, "text with half a surrogate pair is not Unicode"),
    ],
)
def test_payloads_of_pythons_own_are_refused(request_: Mapping[str, Any], reason: str) -> None:
    """What no JSON can carry is told before it is sent."""
    with pytest.raises(MessageError, match=f"`request`: {reason}"):
        Message(request_)


def test_any_mapping_is_a_payload() -> None:
    """A read-only view goes out as the object it shows."""
    assert json.loads(Message(MappingProxyType({"a": MappingProxyType({"b": 1})})).body) == {"request": {"a": {"b": 1}}}


def test_all_problems_are_told_at_once_and_nothing_is_quoted() -> None:
    """Four wrong fields, four reasons, and not a word of what was asked."""
    with pytest.raises(MessageError) as caught:
        Message({"inputs": "CANARY"}, key="CANARY/", deadline_ms=0, tenant="CAN ARY", callback="CANARY")
    assert [problem.split("`")[1] for problem in caught.value.problems] == ["deadline_ms", "key", "tenant", "callback"]
    assert "CANARY" not in str(caught.value)
