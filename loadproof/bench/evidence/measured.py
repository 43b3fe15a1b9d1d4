"""What a run measured, held to what the profile deploys now: endpoint, model, region, account and files.

A run names them all, and a signature binds them. That they are this profile's only the profile's tree can say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from loadproof.bench.evidence.store import Row, StoredRun, part_of
from loadproof.bench.workload.files import digest_of
from loadproof.errors import ProfileError
from loadproof.profiles import Environment, Profile, load_environment, named_files
from loadproof.profiles.loader import ENVIRONMENT_FILE
from loadproof.profiles.names import endpoint_name, inference_component_name
from loadproof.profiles.on_bedrock import bedrock_settings
from loadproof.profiles.secrets import shown_path
from loadproof.profiles.settings import components_of, protocol_of

_ARN_PARTS = 6  # arn:partition:service:region:account:resource


@dataclass(frozen=True, slots=True)
class Measured:
    """Sentences: how what was measured `differs` from what the profile deploys, and what of it is `unknown`."""

    differs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def measured_by(run: StoredRun, profile: Profile, file: Path, within: Path | None = None) -> Measured:
    """Of a run of this profile; `file` lies beside the profile's other files. None is read that lies not `within`.

    What the run or the tree does not say is unknown and proves as before: older runs hold no account, and runs of a
    local cloud have the cloud's own.
    """
    target = part_of(run.plan, "spec", "target")
    folder = _folder_of(run, file)
    environment = _environment_of(folder)
    differs: list[str] = []
    unknown: list[str] = []
    if environment is not None:
        differs += _another_endpoint(target, profile, folder.name)
        region, account = _where(run, target)
        if region is None:
            unknown.append("in which region was measured is not known")
        elif region != environment.region:
            differs.append(f"measured in {region}, the profile's environment is in {environment.region}")
        if run.local_cloud is None and account is None:
            unknown.append("in which account was measured is not known: the run does not say")
        elif run.local_cloud is None and account != environment.account:
            differs.append(f"measured in account {account}, the profile's environment is {environment.account}")
    sent = (*_another_way(target, profile), *_other_prompts(run, profile))
    content = _other_content(run, profile, file, within)
    return Measured((*differs, *sent, *content.differs), (*unknown, *content.unknown))


def _folder_of(run: StoredRun, file: Path) -> Path:
    """The environment's: of a run with --env it is the one beside the profile's own."""
    own, name = file.absolute().parent, str(run.profile.get("environment") or "")
    beside = own.parent / name
    return beside if Path(name).name == name and (beside / ENVIRONMENT_FILE).is_file() else own


def _environment_of(folder: Path) -> Environment | None:
    try:
        return load_environment(folder) if (folder / ENVIRONMENT_FILE).is_file() else None
    except ProfileError:  # loadproof check says why
        return None


def _another_endpoint(target: Row, profile: Profile, environment: str) -> Iterator[str]:
    """The endpoint's and the model's names follow from the profile's; those of Bedrock's ids do not."""
    if profile.backend == "bedrock":
        if target.get("kind") != "bedrock":
            yield f"measured {target.get('kind')} `{target.get('endpoint')}`, the profile's model is Bedrock's"
        return
    endpoint = endpoint_name(environment, profile.name)
    if target.get("kind") != "sagemaker" or target.get("endpoint") != endpoint:
        yield f"measured endpoint `{target.get('endpoint')}`, the profile's is `{endpoint}`"
        return
    plain = profile.endpoint is not None and profile.endpoint.hosting == "plain_variant"
    names = [None] if plain else [inference_component_name(endpoint, one.name) for one in components_of(profile)]
    if target.get("component") not in names:
        expected = " or ".join(f"`{name}`" if name else "none" for name in names)
        yield f"measured inference component `{target.get('component')}`, the profile's is {expected}"


def _another_way(target: Row, profile: Profile) -> Iterator[str]:
    """What an endpoint is asked with beside the prompts; a run that does not name it was made before there was any."""
    on_bedrock = profile.backend == "bedrock"
    asked = {
        "protocol": {"converse"} if on_bedrock else {protocol_of(one.container) for one in components_of(profile)},
        "service_tier": {bedrock_settings(profile).service_tier if on_bedrock else "none"},
        "prefix_aware_id": {"none"},
    }
    for name, allowed in asked.items():
        nothing = "default" if on_bedrock and name == "service_tier" else "none"
        if name in target and (sent := str(target[name] or nothing)) not in allowed:
            yield f"sent with {name} `{sent}`, the profile's is `{'` or `'.join(sorted(allowed))}`"


def _where(run: StoredRun, target: Row) -> tuple[str | None, str | None]:
    """Region and account, by the ARN that AWS gave the endpoint where the run has it."""
    deployed = run.summary.deployed if run.summary else None
    arns = [deployed.endpoint_arn if deployed else None, target.get("endpoint")]
    region, account = target.get("region"), None
    for arn in arns:
        parts = str(arn or "").split(":", _ARN_PARTS - 1)
        if len(parts) == _ARN_PARTS and parts[0] == "arn":
            region, account = parts[3] or region, parts[4] or None
            break
    return None if region is None else str(region), account


def _other_prompts(run: StoredRun, profile: Profile) -> Iterator[str]:
    sent = part_of(run.plan, "spec", "workload").get("dataset")
    if sent and profile.workload.dataset is None:
        yield f"sent the prompts of {sent}, the profile names no dataset"


def _other_content(run: StoredRun, profile: Profile, file: Path, within: Path | None) -> Measured:
    """Of the files that the profile names: what was in them when it was run, held to what is in them now.

    A run that does not say so of a tokenizer or a trace proves nothing: none was ever held to it. One that does not
    say so of a dataset proves as before.
    """
    digests = _digests(run, profile)
    differs: list[str] = []
    unknown: list[str] = []
    for field, name in _files_of(profile):
        digest, place = digests.get(field), f"{field} {name}"
        if field == "workload.dataset" and part_of(run.plan, "spec", "workload").get("dataset", name) is None:
            differs.append(f"{place}: the run sent no dataset")
            continue
        if digest is None:
            told = unknown if field == "workload.dataset" else differs
            told.append(f"{place}: the run does not say what was in it")
            continue
        path = file.parent / name
        is_ours = within is None or Path(os.path.realpath(path)).is_relative_to(within)
        now = _remembered(path) if is_ours else None
        if now is None:
            unknown.append(f"{place}: cannot be read, so whether it changed is not known")
        elif digest != now:
            # No digest is shown: a review reads what a stranger's profile names.
            differs.append(f"{place}: its content changed since the run")
    return Measured(tuple(differs), tuple(unknown))


def _remembered(path: Path) -> str | None:
    """Of many runs of one profile the same files are asked."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return _digest_at(path, facts.st_mtime_ns, facts.st_size) if path.is_file() else digest_of(path)


@lru_cache(maxsize=256)
def _digest_at(path: Path, mtime_ns: int, size: int) -> str | None:
    return digest_of(path)


def _files_of(profile: Profile) -> list[tuple[str, str]]:
    """(field, file) of each that decides what is sent; phases stand in for the arrivals."""
    unused = ("workload", "arrivals") if profile.benchmark.phases else ()
    return [(shown_path(path), name) for path, name in named_files(profile) if not unused or path[:2] != unused]


def _digests(run: StoredRun, profile: Profile) -> dict[str, str]:
    """What the run says that it read, by the field of the profile that names it; a trace is its level's."""
    spec, workload = part_of(run.plan, "spec"), part_of(run.plan, "spec", "workload")
    read = part_of(run.plan, "spec", "files")
    found = {
        "workload.dataset": read.get(str(workload.get("dataset")), workload.get("dataset_sha256")),
        "workload.tokenizer": read.get(str(workload.get("tokenizer"))),
    }
    loads = spec.get("loads")
    for at, load in enumerate(loads if isinstance(loads, list) else ()):
        field = f"benchmark.phases[{at}].trace" if profile.benchmark.phases else "workload.arrivals.trace"
        found[field] = read.get(str(load.get("trace"))) if isinstance(load, dict) else None
    return {field: str(digest) for field, digest in found.items() if digest is not None}
