"""The producer's library: what an application needs to hand requests to a profile's buffer and to get answers.

    from loadproof.invocation.buffer import DeadLetters, Message, Producer, status_of

    producer = Producer.of_stack("loadproof-prod-chat")
    key = producer.send({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 64})
    producer.result(key, wait_s=60)

The contract of a message and of a result is docs/buffer.md. Needs boto3, and nothing of the CDK.
"""

from __future__ import annotations

from loadproof.invocation.buffer.dead_letters import DeadLetter, DeadLetters, Redriven
from loadproof.invocation.buffer.message import Message, MessageError, read_message
from loadproof.invocation.buffer.places import Places, places_of
from loadproof.invocation.buffer.producer import Producer, Sent
from loadproof.invocation.buffer.status import BufferStatus, PaceNow, status_of

__all__ = [
    "BufferStatus",
    "DeadLetter",
    "DeadLetters",
    "Message",
    "MessageError",
    "PaceNow",
    "Places",
    "Producer",
    "Redriven",
    "Sent",
    "places_of",
    "read_message",
    "status_of",
]
