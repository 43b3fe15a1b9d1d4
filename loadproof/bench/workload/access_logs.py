"""Logs of web servers, load balancers and gateways that count bytes: they are told apart from traces, and refused.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html,
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html, the combined format of
https://nginx.org/en/docs/http/ngx_http_log_module.html, which API Gateway's CLF follows; as JSON whatever one chose.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from loadproof.bench.workload.trace_formats import TraceError

_LINES: Final = (
    (re.compile(r"(https?|h2|grpcs|wss?) \d{4}-\d\d-\d\dT\S+ (app|net)/"), "a load balancer's log"),
    (re.compile(r"\d{4}-\d\d-\d\dT\S+ \S+ [\d.a-f:]+:\d+ \S+:\d+ "), "a load balancer's log"),
    (re.compile(r"#(Version|Fields): "), "a log of CloudFront (or in W3C format)"),
    (re.compile(r"\S+ \S+ .{1,200}? \[\d\d/\w{3}/\d{4}:"), "a web server's log"),
)
_NAMES: Final = frozenset(
    {
        *("bytes_sent", "body_bytes_sent", "bytes_received", "response_code", "response_length", "upstream_status"),
        *("httpmethod", "http_method", "request_method", "routekey", "resourcepath", "responselength"),
        *("cs-bytes", "sc-bytes", "sc-status", "x-edge-location"),
    }
)


class UncountedError(TraceError):
    """A log that counts no tokens. Nothing of it is quoted."""

    def __init__(self, place: str, whose: str) -> None:
        """Whose log it is."""
        super().__init__(
            (
                place,
                f"{whose} counts bytes, which tell no tokens (a streamed answer is mostly framing); give data capture "
                "of the endpoint, invocation logs of Bedrock or the log of a gateway that counts tokens, or write "
                "timestamp_s,input_tokens,output_tokens of each request",
            )
        )


def access_log_of_line(line: str) -> str:
    """Whose log a line is, in words; empty for none."""
    return next((whose for pattern, whose in _LINES if pattern.match(line)), "")


def access_log_of_fields(names: Collection[str]) -> str:
    """The same of a row's fields: two at least that such logs have and traces have not."""
    found = sum(name.lower() in _NAMES for name in names)
    return "an access log" if found >= 2 else ""
