"""What a machine needs for Loadproof, looked at one by one; only `account` asks anybody outside of this machine."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from loadproof.cli.profile_names import environments
from loadproof.errors import LoadproofError
from loadproof.invocation.aws_errors import BotoCoreError, ClientError
from loadproof.invocation.aws_sdk import aws_session
from loadproof.invocation.endpoints import aws_client
from loadproof.profiles import load_environment
from loadproof.profiles.folders import default_folder

State = Literal["ok", "warning", "error"]
LEAST_PYTHON: Final = (3, 11)
LEAST_NODE: Final = 20
SUPPORTED_NODE: Final = 22  # 20 has ended its life: no fixes since April 2026
CDK_MAJOR: Final = "2"  # the CLI 3.0.0 refuses the assemblies of aws-cdk-lib 2
TOO_FULL_BYTES: Final = 200e6
LOW_BYTES: Final = 2e9  # a demo's state, runs and node_modules
FILES_FOR_MANY_STREAMS: Final = 4096  # 1,024 streams, each a socket, and what a client has besides
COARSE_CLOCK_S: Final = 0.001
SKEW_THAT_AWS_REFUSES_S: Final = 300  # "RequestTimeTooSkewed" of SigV4: 5 minutes; 15 for S3
_ANSWER_S: Final = 5.0


class Look(NamedTuple):
    """What was looked at, how it stands, what was found there, and the one command that mends it."""

    name: str
    state: State
    found: str
    mend: str = ""


def machine() -> Iterator[Look]:
    """All that can be seen without a network, in under a second."""
    yield python()
    yield node()
    yield cdk()
    yield packages()
    yield credentials()
    yield region()
    yield clock()
    yield cores()
    yield disk()
    yield ports()
    yield open_files()


def python() -> Look:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < LEAST_PYTHON:
        return Look("Python", "error", found, "make setup PYTHON=python3.13")
    return Look("Python", "ok", f"{found}, {sys.prefix}")


def node() -> Look:
    """Node runs the CDK CLI and the synthesis of a stack: `aws-cdk-lib` is JavaScript behind Python."""
    mend = "nvm install 24"
    version = _said_by("node", "--version")
    if version is None:
        return Look("Node", _where_an_app_is(), "not on the path; synthesis and deployments need it", mend)
    major = version.lstrip("v").partition(".")[0]
    if not major.isdigit() or int(major) < LEAST_NODE:
        return Look("Node", "error", f"{version}; {LEAST_NODE} or newer is needed", mend)
    if int(major) < SUPPORTED_NODE:
        return Look("Node", "warning", f"{version} still works here; it has had no fixes since April 2026", mend)
    return Look("Node", "ok", version)


def cdk() -> Look:
    """The CLI that `npx cdk` runs here: of this folder, or of one above."""
    here = Path.cwd()
    found = next((one for folder in (here, *here.parents) if (one := _cdk_in(folder)).exists()), None)
    mend = "npm ci" if (here / "package-lock.json").exists() else f"npm install aws-cdk@{CDK_MAJOR}"
    if found is None:
        return Look("CDK CLI", _where_an_app_is(), "no node_modules/aws-cdk here or above; deployments need it", mend)
    version = str(json.loads(found.read_text(encoding="utf-8")).get("version", "of no version"))
    if version.partition(".")[0] != CDK_MAJOR:
        return Look("CDK CLI", "error", f"{version} refuses what aws-cdk-lib {CDK_MAJOR} writes", mend)
    return Look("CDK CLI", "ok", version)


def _where_an_app_is() -> State:
    """What a lack means that synthesis and deployments alone feel: no error where there is no app to synthesize."""
    return "error" if Path("cdk.json").is_file() else "warning"


def _cdk_in(folder: Path) -> Path:
    return folder / "node_modules" / "aws-cdk" / "package.json"


def packages() -> Look:
    """The extras: what asks AWS, what stacks are made with, and the local cloud."""
    extras = {"aws": ("boto3", "AWS's SDK"), "cdk": ("aws_cdk", "stacks"), "local": ("moto", "the local cloud")}
    missing = {extra: what for extra, (module, what) in extras.items() if find_spec(module) is None}
    if missing:
        return Look("Packages", "warning", f"without {', '.join(missing.values())}", _installs(*missing))
    return Look("Packages", "ok", "AWS's SDK, stacks and the local cloud")


def _installs(*extras: str) -> str:
    """From the wheel that `init` brought along, where there is one."""
    found = "--find-links wheels " if any(Path("wheels").glob("loadproof-*.whl")) else ""
    return f"pip install {found}'loadproof[{','.join(extras)}]'"


def credentials() -> Look:
    """Found without asking a network: an instance's or a container's own are seen by `--online` alone."""
    local = _local_cloud()
    if local is not None:
        return local
    if find_spec("boto3") is None:
        return Look("Credentials", "warning", "not looked for: that takes AWS's SDK", _installs("aws"))
    try:
        session = aws_session()._session  # the only way to leave a source of credentials out
    except LoadproofError as error:
        return Look("Credentials", "error", str(error).partition(";")[0], "aws configure list-profiles")
    for asks_a_network in ("iam-role", "container-role"):
        session.get_component("credential_provider").remove(asks_a_network)
    try:
        found = session.get_credentials()
    except BotoCoreError as error:
        return Look("Credentials", "error", str(error), "aws configure sso")
    if found is None:
        said = "none found; AWS asks for them, `loadproof local up` and all predictions do not"
        return Look("Credentials", "warning", said, "aws configure sso")
    return Look("Credentials", "ok", f"from {found.method}")


def _local_cloud() -> Look | None:
    """Where the shell is pointed at an address of this machine: whether anybody is there."""
    url = os.environ.get("AWS_ENDPOINT_URL", "")
    address = urlsplit(url)
    if address.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    try:
        socket.create_connection((address.hostname, address.port or 80), timeout=1).close()
    except OSError:
        return Look("Credentials", "error", f"AWS_ENDPOINT_URL is {url}, and nobody is there", "unset AWS_ENDPOINT_URL")
    return Look("Credentials", "ok", f"of what answers at {url}, not of AWS")


def region() -> Look:
    found = _own_region()
    own = ", ".join(f"{region} ({name})" for name, region in _regions().items())
    if found is None and not own:
        said = "none; an environment.yaml names its own, other AWS tools ask for it"
        return Look("Region", "warning", said, "export AWS_REGION=us-east-1")
    return Look("Region", "ok", "; ".join(filter(None, (found, own and f"of the environments here: {own}"))))


def _own_region() -> str | None:
    """As AWS's SDK finds it; without one, as the shell says."""
    if find_spec("boto3") is None:
        return os.environ.get("AWS_DEFAULT_REGION")
    with suppress(LoadproofError):  # a profile that is not there: told among the credentials
        region: str | None = aws_session().region_name
        return region
    return None


def _regions() -> dict[str, str]:
    """By the name of each environment here, or in a folder above, whose file is right."""
    regions = {}
    for name in environments():
        with suppress(LoadproofError):
            folder = default_folder()
            if folder.absolute().parent in (here := Path.cwd(), *here.parents):
                regions[name] = load_environment(folder / name).region
    return regions


def clock() -> Look:
    """How fine the clock is that measures; whether it is right, only somebody else knows (`account`)."""
    fineness_s = time.get_clock_info("perf_counter").resolution
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    if fineness_s > COARSE_CLOCK_S:
        said = f"steps of {fineness_s * 1000:g} ms: too coarse for latencies"
        return Look("Clock", "error", said, "run where perf_counter has steps under 1 ms")
    return Look("Clock", "ok", f"{now}, steps of {fineness_s * 1e9:,.0f} ns")


def cores() -> Look:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = os.getloadavg()[0]
    found = f"{count}, {busy:.1f} of them busy over the last minute"
    if count - busy < 1:
        return Look("Cores", "warning", f"{found}: a benchmark from here is late, and says so", "top -o %CPU")
    return Look("Cores", "ok", found)


def disk() -> Look:
    """Where runs are written, and where the local cloud keeps its state."""
    free, place = min((shutil.disk_usage(folder).free, folder) for folder in (str(Path.cwd()), tempfile.gettempdir()))
    found = f"{free / 1e9:,.1f} GB free at {place}"
    if free < LOW_BYTES:
        return Look(
            "Disk", "error" if free < TOO_FULL_BYTES else "warning", found, f"du -sh {place}/* | sort -h | tail"
        )
    return Look("Disk", "ok", found)


def ports() -> Look:
    """The local cloud takes a free port of loopback."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError as error:
        return Look("Ports", "error", f"127.0.0.1 takes no connection: {error}", "ip link set lo up")
    proxy = os.environ.get("http_proxy") or os.environ.get("HTTP_PROXY") or ""
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if proxy and "127.0.0.1" not in direct and direct != "*":
        said = "a proxy is set for 127.0.0.1 too; the local cloud is not behind it"
        return Look("Ports", "warning", said, "export NO_PROXY=127.0.0.1,localhost")
    return Look("Ports", "ok", f"127.0.0.1:{port} was free")


def open_files() -> Look:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_FOR_MANY_STREAMS:
        allowed = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        said = f"{soft:,} at once: about {soft // 2:,} streams"
        return Look("Open files", "warning", said, f"ulimit -n {allowed}")
    return Look("Open files", "ok", "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,} at once")


def account(qualifier: str) -> Iterator[Look]:
    """Who AWS says we are, whether its clock is ours, and whether `cdk bootstrap` was run; asks STS and SSM, once each.

    In the region that is set, else the first environment's here. `qualifier`: of the bootstrap, as cdk.json has it.
    """
    where = _own_region() or next(iter(_regions().values()), None)
    url = os.environ.get("AWS_ENDPOINT_URL") or None
    if where is None:
        yield Look("Account", "error", "no region to ask in", "export AWS_REGION=us-east-1")
        return
    try:
        sts = aws_client("sts", where, url, connect_timeout_s=_ANSWER_S, read_timeout_s=_ANSWER_S)
        before = time.time()
        answer = sts.get_caller_identity()
        middle = (before + time.time()) / 2
    except (BotoCoreError, ClientError, LoadproofError) as error:
        yield Look("Account", "error", str(error), "aws sts get-caller-identity")
        return
    yield Look("Account", "ok", f"{answer['Account']} as {answer['Arn']}")
    yield _skew(answer["ResponseMetadata"]["HTTPHeaders"].get("date", ""), middle)
    ssm = aws_client("ssm", where, url, connect_timeout_s=_ANSWER_S, read_timeout_s=_ANSWER_S)
    try:
        version = ssm.get_parameter(Name=f"/cdk-bootstrap/{qualifier}/version")["Parameter"]["Value"]
    except ssm.exceptions.ParameterNotFound:
        mend = f"npx cdk bootstrap aws://{answer['Account']}/{where}"
        yield Look("Bootstrap", "error", f"{answer['Account']} is not bootstrapped in {where}", mend)
    except (BotoCoreError, ClientError) as error:
        mend = "aws ssm get-parameters-by-path --path /cdk-bootstrap --recursive"
        yield Look("Bootstrap", "warning", f"could not be seen: {error}", mend)
    else:
        yield Look("Bootstrap", "ok", f"version {version} in {where}")


def _skew(date: str, ours: float) -> Look:
    """Our clock against the `Date` of an answer, which counts whole seconds."""
    try:
        theirs = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return Look("Clock skew", "warning", "the answer has no date to hold ours against", "timedatectl status")
    skew_s = ours - theirs
    found = f"{abs(skew_s):,.0f} s {'before' if skew_s > 0 else 'behind'} the answer's"
    if abs(skew_s) > SKEW_THAT_AWS_REFUSES_S:
        return Look("Clock skew", "error", f"{found}: AWS refuses signatures of that time", "timedatectl set-ntp true")
    return Look("Clock skew", "ok", found if abs(skew_s) >= 2 else "none")


def _said_by(*command: str) -> str | None:
    """The first line that a program prints; None where there is none, or it does not end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().partition("\n")[0]
