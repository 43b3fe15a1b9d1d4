"""A run that was not planned before its job: the leader plans it, from the profile as it was deployed.

`input.zip` under the run's prefix holds the profile, its `environment.yaml`, the files that the profile names, and
`bundle.json`: which profile of which environment, and the hash it was deployed with. It is planned here, not where it
was written: prompts, start and copies in service are of the moment the benchmark runs, once the endpoint is awake.
"""

from __future__ import annotations

import io
import os
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import orjson

from loadproof.bench.connect import service_url
from loadproof.bench.from_profile import ProfileChoice, spec_of_profile
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import write_plan
from loadproof.bench.remote.awake import await_serving
from loadproof.bench.remote.planning import planned_for_hosts
from loadproof.bench.remote.settings import LOCAL_TERMS, Terms, write_terms
from loadproof.bench.s3_store import Store
from loadproof.bench.spec import BenchmarkSpec
from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.credentials import is_loopback

BUNDLE = "input.zip"
MANIFEST = "bundle.json"
LOCAL_CLOUD = "LOADPROOF_LOCAL_CLOUD"  # a local cloud says in here what answers behind its endpoints: twin or http
MOST_BYTES = 2 * 1024**3  # unpacked: datasets, traces, a tokenizer


def plan_bundle(store: Store, run_id: str, folder: Path) -> None:
    """Write plan and terms of the run that the store's bundle describes; `folder` is empty and the working directory.

    Raises InputError for a bundle that cannot be planned, CouldNotRunError when its endpoint is not in service.
    """
    _unpack(store.get(BUNDLE) or b"", folder)
    spec = _spec(folder)
    write_plan(folder, planned_for_hosts(spec, store, run_id, time.time_ns()))
    store.put(PLAN_FILE, (folder / PLAN_FILE).read_bytes())
    url = service_url("S3")
    # Last: hosts that wait for the leader's plan look for the terms.
    write_terms(store, LOCAL_TERMS if url and is_loopback(url) else Terms())


def _spec(folder: Path) -> BenchmarkSpec:
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
        file, deployed = Path(manifest["profile"]), str(manifest["profile_sha256"])
        environment = str(manifest["environment"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(
            f"{BUNDLE}: no {MANIFEST} that names a profile ({error!r}); deploy the profile again"
        ) from None

    def here(spec: BenchmarkSpec) -> BenchmarkSpec:
        local = os.environ.get(LOCAL_CLOUD)
        known = cast(Literal["twin", "http"], local) if local in ("twin", "http") else None
        return replace(spec, target=replace(spec.target, local_cloud=known))

    await_serving(spec_of_profile(ProfileChoice(file, environment, ask=False), here).target)
    spec = spec_of_profile(ProfileChoice(file, environment), here)
    if spec.profile is None or spec.profile.sha256 != deployed:
        raise InputError(
            f"{file}: this image's Loadproof reads another profile than the one deployed (hash {deployed[:12]}…); "
            "build the image from the version that deploys"
        )
    return spec


def _unpack(body: bytes, folder: Path) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if sum(one.file_size for one in archive.infolist()) > MOST_BYTES:
                raise InputError(f"{BUNDLE}: more than {MOST_BYTES // 1024**3} GiB unpacked")
            archive.extractall(folder)
    except zipfile.BadZipFile:
        raise CouldNotRunError(f"{BUNDLE}: missing or no archive under the run's prefix") from None
