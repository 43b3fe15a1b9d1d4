"""From a target to an invoker, and from a `--target` text to a target."""

from __future__ import annotations

import os
import re

from loadproof.addresses import LEFT_OUT, hider, refuse_credentials, shown_url
from loadproof.bench.spec import Target
from loadproof.errors import InputError
from loadproof.invocation import HttpTransport, Invoker, SageMakerTransport, Timeouts, codec_for, open_bedrock
from loadproof.invocation.codecs import payload_protocol
from loadproof.invocation.transports import parse_url
from loadproof.wire.payloads import Protocol

DEFAULT_REGION = "us-east-1"
CONNECT_TIMEOUT_S = 10.0
_BEDROCK = "bedrock://"
_SAGEMAKER = re.compile(r"sagemaker://(?P<endpoint>[A-Za-z0-9-]+)(/(?P<component>[A-Za-z0-9-]+))?/?")


def parse_target(
    text: str,
    protocol: Protocol,
    *,
    streaming: bool,
    endpoint_url: str | None = None,
    region: str | None = None,
    model: str | None = None,
) -> Target:
    """`sagemaker://ENDPOINT[/COMPONENT]`, `bedrock://MODEL` or `http(s)://HOST[:PORT][/PATH]`. Raises InputError.

    MODEL is a model id, a cross-region profile or an ARN, and speaks converse, which nothing else does. An http target
    without a path gets the protocol's usual one; a path that ends in `/chat/completions` is spoken to in chat messages.
    A query with a credential is refused.
    """
    if text.startswith(_BEDROCK) != (protocol == "converse"):
        raise InputError(
            f"--target {shown_url(text)!r} with --protocol {protocol}: bedrock:// and converse go together"
        )
    region = region or DEFAULT_REGION
    if text.startswith(_BEDROCK):
        model_id = text.removeprefix(_BEDROCK)
        return Target("bedrock", model_id, protocol, streaming, endpoint_url=endpoint_url, region=region)
    if text.startswith(("http://", "https://")):
        if endpoint_url is not None:
            raise InputError("--endpoint-url goes with AWS's targets; an http target is its own URL")
        parts = parse_url(text, with_query=True)
        refuse_credentials(text, "--target")
        usual = parts._replace(path=payload_protocol(protocol).path or parts.path).geturl()
        url = usual if parts.path in ("", "/") else text
        return Target("openai", url, protocol, streaming, model=model)
    match = _SAGEMAKER.fullmatch(text)
    if match is None:
        raise InputError(
            f"--target {shown_url(text)!r}: expected sagemaker://ENDPOINT[/COMPONENT], bedrock://MODEL or "
            "http(s)://HOST[:PORT][/PATH]"
        )
    return Target(
        kind="sagemaker",
        endpoint=match["endpoint"],
        component=match["component"],
        protocol=protocol,
        streaming=streaming,
        endpoint_url=endpoint_url,
        region=region,
        model=model,
    )


def service_url(service: str) -> str | None:
    """The endpoint URL botocore would take from the environment for a service (`SAGEMAKER_RUNTIME`)."""
    return os.environ.get(f"AWS_ENDPOINT_URL_{service}") or os.environ.get("AWS_ENDPOINT_URL") or None


def open_invoker(
    target: Target, request_timeout_s: float, *, chat: bool | None = None, idle_s: float | None = None
) -> Invoker:
    """Raises InputError for names and URLs that cannot be or were read from a file that leaves a part of them out,
    CouldNotRunError without credentials.

    `chat`: speak in chat messages, or not; None: as the target says. SageMaker's containers take both. `idle_s`: the
    longest gap between two tokens; None: that of the whole request.
    """
    timeouts = Timeouts(
        connect_s=min(CONNECT_TIMEOUT_S, request_timeout_s),
        first_byte_s=request_timeout_s,
        idle_s=min(request_timeout_s, idle_s or request_timeout_s),
        total_s=request_timeout_s,
    )
    region = target.region or DEFAULT_REGION
    if target.kind == "bedrock":
        return open_bedrock(
            target.endpoint,
            region=region,
            service_tier=target.service_tier,
            endpoint_url=target.endpoint_url,
            timeouts=timeouts,
        )
    codec = codec_for("openai-chat" if (target.chat if chat is None else chat) else target.protocol, model=target.model)
    if target.kind == "openai":
        if LEFT_OUT in target.endpoint:
            raise InputError(
                f"target {target.endpoint}: files leave out what may be secret of it; give the whole command again, "
                "its --target and --resume"
            )
        return Invoker(HttpTransport(target.endpoint), codec, timeouts=timeouts, hide=hider(target.endpoint))
    transport = SageMakerTransport(
        target.endpoint,
        component=target.component,
        prefix_aware_id=target.prefix_aware_id,
        region=region,
        endpoint_url=target.endpoint_url,
    )
    return Invoker(transport, codec, timeouts=timeouts)
