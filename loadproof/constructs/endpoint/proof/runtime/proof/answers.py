"""One question to everything that was deployed: no status says whether a model answers, or an adapter takes part.

An adapter that its server never loaded is InService all the same: its requests fail, or are answered by its base.
"""

import json
import re
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from loadproof.wire.custom_resource import PATIENCE_S, POLL_S, once_ready, with_retries
from loadproof.wire.payloads import answer_text

SHOWN_CHARACTERS = 200
# A token that is the likeliest of a vector of NaN (`!` of most tokenizers), and nothing else: broken weights, or values
# that fp16 does not hold (github.com/vllm-project/vllm/issues/22881, 13035 and 14126).
ONE_TOKEN = re.compile(r"(.{1,12}?)\1{7,}", re.DOTALL)
# What tokenizers mark and nobody reads, where a server does not leave it out.
SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|<(?:pad|unk|eos|bos|end_of_turn)>|\[(?:PAD|UNK|CLS|SEP|MASK)\]")


class WrongAnswerError(Exception):
    """It answered, and not with text."""


def unanswered(given: dict[str, Any], serving: Callable[[str], bool], runtime: Any, s3: Any) -> Iterator[str]:
    """Everything that does not answer as deployed. `serving`: whether something has a copy to ask."""
    endpoint, said = given["EndpointName"], dict[str, list[str]]()
    if "AsyncInput" in given:
        later = partial(asked_later, runtime, s3, endpoint, given["AsyncInput"])
        targets = [(planned, f"endpoint {endpoint}", later) for planned in given["Variants"]]
    elif "Variants" in given:
        now = partial(asked, runtime, endpoint, None)
        targets = [(planned, f"endpoint {endpoint}", now) for planned in given["Variants"]]
    else:
        targets = [
            (planned, f"component {planned['Name']}", partial(asked, runtime, endpoint, planned["Name"]))
            for planned in given["Components"]
        ]
    for planned, what, ask in targets:
        if not serving(planned.get("Base", planned["Name"])):
            continue
        try:
            texts = [ask(body) for body in planned["Asks"]]
        except (ClientError, BotoCoreError, WrongAnswerError) as error:
            yield f"{what} does not answer: {str(error)[:SHOWN_CHARACTERS]}"
            continue
        said[planned["Name"]] = texts
        if not any(map(readable, texts)):
            yield f"{what} answers without any text"
        elif all(map(says_one_token, texts)):
            yield (
                f"{what} answers {texts[0].strip()[:16]!r} and nothing else: broken weights, or a model that fp16 does "
                "not hold (write model.dtype: bf16)"
            )
        elif said.get(planned.get("Base")) == texts:
            yield f"{what} answers like its base {planned['Base']} does: the adapter takes no part in it"


def asked(runtime: Any, endpoint: str, component: str | None, body: str) -> str:
    """The text of one answer. What is only not ready yet is asked again for a while."""
    more = {"InferenceComponentName": component} if component else {}
    invoke = partial(
        runtime.invoke_endpoint, EndpointName=endpoint, ContentType="application/json", Body=body.encode(), **more
    )
    return text_of(once_ready(invoke)["Body"].read())


def asked_later(runtime: Any, s3: Any, endpoint: str, place: str, body: str) -> str:
    """The same through S3; `place` is the prefix that requests lie under."""
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    key = f"{prefix}/loadproof-proof/{uuid.uuid4()}.json".lstrip("/")
    with_retries(partial(s3.put_object, Bucket=bucket, Key=key, Body=body.encode(), ContentType="application/json"))
    invoke = partial(runtime.invoke_endpoint_async, EndpointName=endpoint, InputLocation=f"s3://{bucket}/{key}")
    accepted = once_ready(invoke)
    until_s = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < until_s:
            if (answer := left_at(s3, accepted["OutputLocation"])) is not None:
                return text_of(answer)
            if (failure := left_at(s3, accepted.get("FailureLocation"))) is not None:
                raise WrongAnswerError(failure.decode(errors="replace"))
            time.sleep(POLL_S)
    finally:
        s3.delete_object(Bucket=bucket, Key=key)
    raise WrongAnswerError(f"nothing at {accepted['OutputLocation']} after {PATIENCE_S:.0f} s")


def readable(text: str) -> str:
    """What of a text a person reads: no special tokens, white space, control and format characters, nor U+FFFD."""
    seen = SPECIAL.sub("", text).replace("\N{REPLACEMENT CHARACTER}", "")
    return "".join(one for one in seen if unicodedata.category(one)[0] not in "CZ")


def says_one_token(text: str) -> bool:
    """True for one character or one token at least eight times, and nothing else."""
    return ONE_TOKEN.fullmatch("".join(text.split())) is not None


def left_at(s3: Any, place: str | None) -> bytes | None:
    """What lies at a place; None as long as nothing does, which S3 calls forbidden to who may not list."""
    bucket, _, key = (place or "").removeprefix("s3://").partition("/")
    try:
        return bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read()) if key else None
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (403, 404):
            return None
        raise


def text_of(body: bytes) -> str:
    """The text of one answer, of whatever protocol. Raises WrongAnswerError for anything else."""
    try:
        text = answer_text(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError):
        text = None
    if text is None:
        raise WrongAnswerError(f"found {body.decode(errors='replace')}")
    return text
