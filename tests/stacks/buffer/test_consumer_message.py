"""Queued bodies: what is accepted, how a result is named, and what is refused with which words."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.buffer.runtime.consumer.message import MalformedMessageError, read_message

REVISION = "0123456789abcdef"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_senders_key_names_the_result() -> None:
    """A key of the sender's own is taken as it is."""
    message = read_message('{"key": "order-17.a", "request": {"inputs": "hi"}}', revision=REVISION)
    assert (message.key, message.request) == ("order-17.a", {"inputs": "hi"})


def test_without_a_key_request_and_revision_name_the_result() -> None:
    """SHA-256 of `["r1",{"a":1,"b":2}]` by sha256sum: the order of names does not matter, the revision does."""
    expected = "1d702b8a64c067b9f81fe1a0bcb04dc88fd7a8ad5be720b9ee533b0b2399e71b"
    one = read_message('{"request": {"b": 2, "a": 1}}', revision="r1").key
    other = read_message('{ "request" : {"a":1,"b":2} }', revision="r1").key
    assert one == other == expected
    assert read_message('{"request": {"a": 1, "b": 2}}', revision="r2").key != one


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "not strict JSON at line 1, column 1"),
        ('{"request": {', "not strict JSON at line 1, column 14"),
        ('{"request": {"x": NaN}}', "not strict JSON"),
        ('{"request": {"x": 1, "x": 2}}', "not strict JSON"),
        ("[1]", "the body must be a JSON object"),
        ("{}", "`request` must be an object that holds the model's payload"),
        ('{"request": "hi"}', "`request` must be an object that holds the model's payload"),
        ('{"request": {}}', "`request` must be an object that holds the model's payload"),
        ('{"request": {"x": 1}, "mode": 1}', "1 unknown field(s); allowed: request, key"),
        (
            '{"request": {"x": 1}, "key": "../a"}',
            "`key` must be 1..128 of A-Z a-z 0-9 . _ - and begin with a letter or digit",
        ),
        ('{"request": {"x": "\\ud800"}}', "text with half a surrogate pair is not Unicode"),
        ('{"request": ' + '{"x":' * 100_000 + "1" + "}" * 100_001, "nested too deeply"),
    ],
)
def test_malformed_bodies_say_why(body: str, reason: str) -> None:
    """Each kind of nonsense has its own reason, without a word of what the sender wrote."""
    with pytest.raises(MalformedMessageError) as caught:
        read_message(body, revision=REVISION)
    assert str(caught.value) == reason


@given(st.text())
def test_any_text_is_a_message_or_malformed(body: str) -> None:
    """No body makes anything else happen."""
    with contextlib.suppress(MalformedMessageError):
        assert read_message(body, revision=REVISION).request


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=4))
def test_any_json_request_arrives_unchanged(request: dict[str, object]) -> None:
    """What the sender asked is what the model is asked."""
    body = json.dumps({"request": request})
    assert read_message(body, revision=REVISION).request == json.loads(body)["request"]
