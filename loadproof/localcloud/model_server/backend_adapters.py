"""An adapter behind a real model server: unpacked on this machine, and loaded as SageMaker asks a container to.

SageMaker posts `{"name", "src"}` to /adapters with `src` a folder, and names the adapter in a header of every request
(https://github.com/vllm-project/vllm/pull/27892; djl-serving, serving/docs/adapters_api.md). A server without that
route is asked all the same, as there: its component is InService, and what answers is the server's matter.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import orjson

LOAD_TIMEOUT_S: Final = 60.0
IDENTIFIER: Final = "X-Amzn-SageMaker-Adapter-Identifier"
ALIAS: Final = "X-Amzn-SageMaker-Adapter-Alias"
_SHOWN_BYTES: Final = 300
_NO_ROUTE: Final = (404, 405)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def adapter_problem(
    url: str, name: str, s3_uri: str | None, folder: Path, read: Callable[[str], bytes | None] | None
) -> str | None:
    """Why the server at `url` has not loaded the adapter; None when it has, or has no route for it. Blocks.

    Unpacks it in a folder of its own under `folder`, which a server of this machine reads. An older one of this name
    goes first.
    """
    source = s3_uri or ""
    if read is not None:
        try:
            source = str(_unpacked(read(source), folder / name))
        except (tarfile.TarError, EOFError, OSError) as error:
            return f"adapter {name}: {s3_uri} is no tar.gz that can be unpacked: {error}"
    with contextlib.suppress(OSError):  # it was not there, or the server is not: the next request tells
        _ask(urllib.request.Request(f"{url}/adapters/{quote(name)}", method="DELETE"))
    body, headers = orjson.dumps({"name": name, "src": source}), {"Content-Type": "application/json"}
    try:
        _ask(urllib.request.Request(f"{url}/adapters", data=body, headers=headers, method="POST"))
    except urllib.error.HTTPError as error:
        said = error.read(_SHOWN_BYTES).decode(errors="replace")
        return None if error.code in _NO_ROUTE else f"adapter {name}: POST {url}/adapters answered {error.code}: {said}"
    except (OSError, ValueError) as error:
        return f"adapter {name}: POST {url}/adapters failed: {getattr(error, 'reason', error)}"
    return None


def adapter_headers(name: str | None) -> dict[str, str]:
    """What SageMaker adds to a request for an adapter; nothing without one."""
    return {} if name is None else {IDENTIFIER: name, ALIAS: name}


def for_adapter(body: bytes, name: str | None) -> bytes:
    """The same request to an OpenAI API, which knows an adapter as a model."""
    try:
        fields = orjson.loads(body) if name is not None else None
    except orjson.JSONDecodeError:
        return body
    return orjson.dumps({**fields, "model": name}) if isinstance(fields, dict) else body


def _unpacked(packed: bytes | None, folder: Path) -> Path:
    if packed is None:
        raise OSError("there is no such object")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def _ask(request: urllib.request.Request) -> None:
    with _DIRECT.open(request, timeout=LOAD_TIMEOUT_S):
        pass
