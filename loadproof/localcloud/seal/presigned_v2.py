"""S3's presigned URLs of signature version 2, by botocore's own signer."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from botocore.auth import HmacV1QueryAuth
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from loadproof.localcloud.seal.canonical import Request

_SIGNED_IF_SENT = ("content-md5", "content-type")


class _Signer(HmacV1QueryAuth):  # type: ignore[misc]
    def __init__(self, secret: str, expires: str) -> None:
        super().__init__(Credentials("", secret))
        self._at = expires

    def _get_date(self) -> str:
        return self._at


def signature_v2(request: Request, query: Mapping[str, str], secret: str) -> str:
    """The signature that the URL should carry."""
    headers = HTTPHeaders()
    sent = {name.lower(): value for name, value in query.items()}
    for name in (*_SIGNED_IF_SENT, *(one for one in sent if one.startswith("x-amz-"))):
        if name in sent:
            headers[name] = sent[name]
    for name, value in request.headers.items():
        if name.lower().startswith("x-amz-") and name.lower() not in sent:
            headers[name.lower()] = value
    bucket = request.headers.get("Host", "").partition(":")[0].removesuffix(".localhost").removesuffix(".s3")
    hosted = request.headers.get("Host", "").partition(":")[0] != bucket
    path = f"/{bucket}{request.path}" if hosted else request.path
    split = urlsplit(f"http://localhost{path}?{request.query}")
    return str(_Signer(secret, query["Expires"]).get_signature(request.method, split, headers, auth_path=path))
