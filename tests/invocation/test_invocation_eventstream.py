"""Event-stream frames against botocore's own parser, published vectors and every kind of damage."""

from __future__ import annotations

import struct
from binascii import crc32

import botocore.session
import pytest
from botocore.eventstream import EventStream, EventStreamBuffer
from botocore.exceptions import EventStreamError
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st
from invocation_fakes import chunkings

from loadproof.invocation.eventstream import (
    FrameDecoder,
    PayloadPartDecoder,
    encode_exception,
    encode_frame,
    encode_payload_part,
    parse_headers,
)
from loadproof.invocation.faults import (
    FrameError,
    InternalStreamFailure,
    InvocationFault,
    ModelStreamError,
    TruncatedStreamError,
)

PART = encode_payload_part(b'data:{"token":{"text":"a"}}\n\n')

# From the test vectors AWS publishes for the encoding (smithy, aws-c-event-stream).
VECTORS = [
    (b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\xff", {}, b""),
    (b"\x00\x00\x00\x1d\x00\x00\x00\x00\xfdR\x8cZ{'foo':'bar'}\xc3e96", {}, b"{'foo':'bar'}"),
    (
        b"\x00\x00\x00=\x00\x00\x00 \x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10application/json{'foo':'bar'}"
        b"\x8d\x9c\x08\xb1",
        {"content-type": "application/json"},
        b"{'foo':'bar'}",
    ),
    (
        b"\x00\x00\x00+\x00\x00\x00\x0e4\x8b\xec{\x08event-id\x04\x00\x00\xa0\x0c{'foo':'bar'}\xd3\x89\x02\x85",
        {"event-id": 0xA00C},
        b"{'foo':'bar'}",
    ),
]


@pytest.mark.parametrize(("raw", "headers", "payload"), VECTORS)
def test_published_vectors(raw: bytes, headers: dict[str, object], payload: bytes) -> None:
    """The decoder reads AWS's published frames; the encoder writes those with text headers to the same bytes."""
    assert [(dict(f.headers), f.payload) for f in FrameDecoder().feed(raw)] == [(headers, payload)]
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    if texts == headers:
        assert encode_frame(texts, payload) == raw


@given(
    st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=4),
    st.binary(max_size=300),
)
def test_botocore_reads_our_frames(headers: dict[str, str], payload: bytes) -> None:
    """What we encode, botocore's parser decodes to the same headers and payload, and so do we."""
    raw = encode_frame(headers, payload)
    buffer = EventStreamBuffer()
    buffer.add_data(raw)
    message = next(buffer)
    assert (message.headers, message.payload) == (headers, payload)
    (frame,) = FrameDecoder().feed(raw)
    assert (dict(frame.headers), frame.payload) == (headers, payload)


HEADER_VALUES = st.one_of(
    st.booleans().map(lambda value: (b"\x00" if value else b"\x01", value)),
    st.integers(-128, 127).map(lambda value: (b"\x02" + struct.pack("!b", value), value)),
    st.integers(-(2**15), 2**15 - 1).map(lambda value: (b"\x03" + struct.pack("!h", value), value)),
    st.integers(-(2**31), 2**31 - 1).map(lambda value: (b"\x04" + struct.pack("!i", value), value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: (b"\x05" + struct.pack("!q", value), value)),
    st.binary(max_size=20).map(lambda value: (b"\x06" + struct.pack("!H", len(value)) + value, value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: (b"\x08" + struct.pack("!q", value), value)),
    st.binary(min_size=16, max_size=16).map(lambda value: (b"\x09" + value, value)),
)


@given(st.dictionaries(st.from_regex(r"[a-z:-]{1,12}", fullmatch=True), HEADER_VALUES, max_size=5))
def test_every_header_type_as_botocore_reads_it(headers: dict[str, tuple[bytes, object]]) -> None:
    """All ten header types are decoded to what botocore decodes."""
    block = b"".join(bytes([len(name)]) + name.encode() + raw for name, (raw, _) in headers.items())
    buffer = EventStreamBuffer()
    buffer.add_data(_frame(block, b"x"))
    assert parse_headers(block) == next(buffer).headers == {name: value for name, (_, value) in headers.items()}


def test_boto3_reads_our_stream_as_sagemakers() -> None:
    """Parts and the error event come out of botocore's own SageMaker client model."""
    raw = PART + encode_exception("ModelStreamError", "gone", ErrorCode="StreamBroken")
    events = _as_boto3_reads(raw)
    assert next(events) == {"PayloadPart": {"Bytes": b'data:{"token":{"text":"a"}}\n\n'}}
    with pytest.raises(EventStreamError, match=r"ModelStreamError.*gone"):
        next(events)


@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_chunking_gives_the_same_parts(payloads: list[bytes], cuts: list[int]) -> None:
    """However the bytes are cut, the container's bytes are the same."""
    raw = b"".join(encode_payload_part(payload) for payload in payloads)
    decoder = PayloadPartDecoder()
    assert b"".join(part for piece in chunkings(raw, cuts) for part in decoder.feed(piece)) == b"".join(payloads)
    decoder.finish()


@given(st.lists(st.binary(max_size=60), max_size=6), st.integers(0, 10_000))
def test_a_frame_a_read_gives_the_same_parts_and_finds_the_same_damage(payloads: list[bytes], place: int) -> None:
    """The short cut for the usual read verifies what the general way verifies: one byte changed anywhere is found."""
    frames = [encode_payload_part(payload) for payload in payloads]
    decoder = PayloadPartDecoder()
    assert [part for frame in frames for part in decoder.feed(frame)] == payloads
    decoder.finish()
    damaged = bytearray(encode_payload_part(b"payload"))
    damaged[place % len(damaged)] ^= 0x01
    with pytest.raises((FrameError, TruncatedStreamError)):
        list(decoder.feed(bytes(damaged)))
        decoder.finish()


def test_other_frames_in_a_read_of_their_own_are_not_taken_for_parts() -> None:
    """An exception frame raises, an unknown event is skipped, also when its headers were seen before."""
    decoder = PayloadPartDecoder()
    unknown = encode_frame({":message-type": "event", ":event-type": "Later"}, b"x")
    assert [list(decoder.feed(unknown)) for _ in range(3)] == [[], [], []]
    with pytest.raises(ModelStreamError):
        list(decoder.feed(encode_exception("ModelStreamError", "gone", ErrorCode="StreamBroken")))


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=6), st.integers(0, 10_000))
def test_usual_parts_are_what_feeding_gives(payloads: list[bytes], at: int) -> None:
    """Frame by frame and all together; a read with a flipped bit, or cut off, is none, and those before it are."""
    decoder, frames = PayloadPartDecoder(), [encode_payload_part(payload) for payload in payloads]
    assert decoder.usual_parts(frames, 0) == ([], [])  # how long their headers are is not known yet
    assert list(decoder.feed(frames[0])) == payloads[:1]
    assert decoder.usual_parts(frames, 0) == (payloads, list(range(len(payloads))))
    assert decoder.usual_parts(frames, 1) == (payloads[1:], list(range(1, len(payloads))))
    whole = b"".join(frames)
    twice = payloads + payloads[:1], [0] * len(payloads) + [1]
    assert decoder.usual_parts([whole, frames[0]], 0) == twice
    damaged = bytearray(whole)
    damaged[at // 8 % len(damaged)] ^= 1 << at % 8
    for bad in (bytes(damaged), whole[: -1 - at % 16]):
        assert decoder.usual_parts([bad], 0) == ([], [])
        assert decoder.usual_parts([whole, frames[0], bad, whole], 0) == twice


def test_a_frame_that_says_it_is_empty_is_not_usual() -> None:
    """A length of 0 with headers known from before, all checksums right: refused, never looped on."""
    first, decoder = encode_payload_part(b"a"), PayloadPartDecoder()
    assert list(decoder.feed(first)) == [b"a"]
    headers_length = struct.unpack_from("!I", first, 4)[0]
    lengths = struct.pack("!II", 0, headers_length)
    hostile = lengths + struct.pack("!I", crc32(lengths)) + first[12 : 12 + headers_length] + bytes(8)
    assert decoder.usual_parts([first + hostile], 0) == ([], [])
    with pytest.raises(FrameError):
        list(decoder.feed(hostile))


@given(st.binary(max_size=400))
def test_arbitrary_bytes_give_typed_errors_only(data: bytes) -> None:
    """Noise either waits for more, or is one of our faults."""
    decoder = PayloadPartDecoder()
    try:
        list(decoder.feed(data))
        decoder.finish()
    except InvocationFault:
        return
    assert data == b""


@given(st.binary(max_size=120))
def test_damaged_headers_behind_right_checksums_are_typed_errors(block: bytes) -> None:
    """Header noise behind valid checksums, on which botocore leaks struct.error, is FrameError or headers."""
    try:
        (frame,) = FrameDecoder().feed(_frame(block, b""))
    except FrameError:
        return
    assert sum(1 + len(name.encode()) for name in frame.headers) <= len(block)


def test_every_single_bit_flip_is_found() -> None:
    """Each of the message's bits, flipped alone, is a FrameError: CRC-32 finds all single-bit errors."""
    for bit in range(len(PART) * 8):
        damaged = bytearray(PART)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(FrameError):
            list(FrameDecoder().feed(bytes(damaged)))


def test_every_truncation_inside_a_frame_is_found() -> None:
    """A stream cut anywhere but between frames is truncated."""
    for cut in range(1, len(PART)):
        decoder = FrameDecoder()
        assert list(decoder.feed(PART[:cut])) == []
        with pytest.raises(TruncatedStreamError):
            decoder.finish()


def test_a_frame_larger_than_the_bound_is_refused_from_its_prelude() -> None:
    """The bound holds before the bytes are collected."""
    lengths = struct.pack("!II", 25 * 1024 * 1024, 0)
    with pytest.raises(FrameError, match="at most 4194304"):
        list(FrameDecoder().feed(lengths + struct.pack("!I", crc32(lengths))))


def test_lengths_that_contradict_each_other_are_refused() -> None:
    """Headers cannot be longer than their frame."""
    lengths = struct.pack("!II", 40, 30)
    with pytest.raises(FrameError, match="30 header bytes do not fit"):
        list(FrameDecoder().feed(lengths + struct.pack("!I", crc32(lengths))))


def test_error_events_raise_their_own_types() -> None:
    """ModelStreamError carries its code; InternalStreamFailure is its own class; both carry the message."""
    slow = encode_exception("ModelStreamError", "too slow", ErrorCode="ModelInvocationTimeExceeded")
    with pytest.raises(ModelStreamError, match="too slow") as caught:
        list(PayloadPartDecoder().feed(slow))
    assert caught.value.code == "ModelInvocationTimeExceeded"
    with pytest.raises(InternalStreamFailure, match="oops"):
        list(PayloadPartDecoder().feed(encode_exception("InternalStreamFailure", "oops")))
    unmodeled = encode_frame({":message-type": "error", ":error-code": "500", ":error-message": "no"}, b"")
    with pytest.raises(ModelStreamError, match="no"):
        list(PayloadPartDecoder().feed(unmodeled))


def test_unknown_events_are_skipped_and_unknown_messages_refused() -> None:
    """A new kind of event does not break us; a frame that is no message of the protocol does."""
    new = encode_frame({":message-type": "event", ":event-type": "Heartbeat"}, b"{}")
    assert list(PayloadPartDecoder().feed(new + encode_payload_part(b"x"))) == [b"x"]
    with pytest.raises(FrameError, match="unknown message type"):
        list(PayloadPartDecoder().feed(encode_frame({}, b"")))


def _frame(block: bytes, payload: bytes) -> bytes:
    lengths = struct.pack("!II", 16 + len(block) + len(payload), len(block))
    body = lengths + struct.pack("!I", crc32(lengths)) + block + payload
    return body + struct.pack("!I", crc32(body))


def _as_boto3_reads(raw: bytes):  # type: ignore[no-untyped-def]
    session = botocore.session.get_session()
    model = session.get_service_model("sagemaker-runtime")
    output = model.operation_model("InvokeEndpointWithResponseStream").output_shape

    class Raw:
        def stream(self):  # type: ignore[no-untyped-def]
            yield raw

    shape = output.members["Body"]
    return iter(EventStream(Raw(), shape, create_parser("rest-json")._event_stream_parser, "InvokeEndpoint"))
