"""Logs that count bytes: told by their kind, refused with what to give instead, quoted nowhere."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from loadproof.bench.learn.reading import read_recorded
from loadproof.bench.workload.traces import trace_of
from loadproof.errors import InputError

ALB = (
    "https 2026-07-02T22:23:00.186641Z app/secret/50dc6c495c0c9188 192.0.2.39:2817 10.0.0.1:80 0.086 0.048 0.037 "
    '200 200 1820 57000 "POST https://secret.example.com:443/v1/chat HTTP/1.1" "curl" - - arn "Root=1" "-"\n'
)
CLASSIC = '2026-07-02T22:23:00.186641Z secret 192.0.2.39:2817 10.0.0.1:80 0.1 0.2 0.1 200 200 0 29 "GET / HTTP/1.1"\n'
NGINX = '192.0.2.3 - secret [17/May/2026:08:05:32 +0000] "POST /v1/chat/completions HTTP/1.1" 200 3316 "-" "secret"\n'
CLOUDFRONT = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes\n2026-12-04\t21:02:31\tSECRET\t392\n"
API_GATEWAY = '{"requestId":"secret","requestTime":"04/Dec/2026","httpMethod":"POST","routeKey":"x"}\n'
ENVOY = '{"start_time":"2026-07-02T22:23:00.186Z","path":"secret","response_code":200,"bytes_sent":57000}\n'
LOGS = {
    "alb.log": (ALB, "a load balancer's log"),
    "classic.log": (CLASSIC, "a load balancer's log"),
    "access.log": (NGINX, "a web server's log"),
    "cloudfront.txt": (CLOUDFRONT, "a log of CloudFront"),
    "api.jsonl": (API_GATEWAY, "an access log"),
    "envoy.jsonl": (ENVOY, "an access log"),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_of_bytes_is_told(tmp_path: Path, name: str) -> None:
    """By who learns of it, and by who would play it."""
    text, kind = LOGS[name]
    path = tmp_path / name
    path.write_text(text * 2)
    for read in (lambda: trace_of(path), lambda: read_recorded([str(path)])):
        with pytest.raises(InputError) as raised:
            read()
        said = str(raised.value)
        assert said.startswith(f"{path}:1: {kind}") and "counts bytes" in said and "timestamp_s,input_tokens" in said
        assert "secret" not in said.lower().removeprefix(str(tmp_path).lower())


def test_a_folder_of_them_is_told_too(tmp_path: Path) -> None:
    """As a load balancer leaves them in its bucket."""
    for name in ("a.log.gz", "b.log.gz"):
        (tmp_path / name).write_bytes(gzip.compress(ALB.encode()))
    with pytest.raises(InputError, match=r"a\.log\.gz:1: a load balancer's log counts bytes") as raised:
        read_recorded([str(tmp_path)])
    assert len(str(raised.value).splitlines()) == 2
