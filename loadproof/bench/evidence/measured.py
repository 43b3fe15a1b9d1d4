"""What a run measured, held to what the profile deploys now: endpoint, model, region, account and dataset.

A run names them all, and a signature binds them. That they are this profile's only the profile's tree can say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadproof.bench.evidence.store import Row, StoredRun, part_of
from loadproof.errors import ProfileError
from loadproof.profiles import Environment, Profile, load_environment
from loadproof.profiles.loader import ENVIRONMENT_FILE
from loadproof.profiles.names import endpoint_name, inference_component_name
from loadproof.profiles.settings import components_of

_ARN_PARTS = 6  # arn:partition:service:region:account:resource


@dataclass(frozen=True, slots=True)
class Measured:
    """Sentences: how what was measured `differs` from what the profile deploys, and what of it is `unknown`."""

    differs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def measured_by(run: StoredRun, profile: Profile, file: Path) -> Measured:
    """Of a run of this profile; `file` lies beside the profile's other files.

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
    said = _another_dataset(run, profile, file)
    return Measured((*differs, *said.differs), (*unknown, *said.unknown))


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


def _another_dataset(run: StoredRun, profile: Profile, file: Path) -> Measured:
    name = profile.workload.dataset
    workload = part_of(run.plan, "spec", "workload")
    if name is None:
        sent = workload.get("dataset")
        return Measured((f"sent the prompts of {sent}, the profile names no dataset",)) if sent else Measured()
    digest = workload.get("dataset_sha256")
    if digest is None:
        return Measured(unknown=(f"workload.dataset {name}: the run does not say what was in it",))
    now = _sha256_of(file.parent / name)
    if now is None:
        return Measured(unknown=(f"workload.dataset {name}: cannot be read, so whether it changed is not known",))
    # No digest is shown: a review reads what a stranger's profile names.
    return Measured() if digest == now else Measured((f"workload.dataset {name}: its content changed since the run",))


def _sha256_of(file: Path) -> str | None:
    try:
        if not file.is_file():
            return None
        with file.open("rb") as reading:
            return hashlib.file_digest(reading, "sha256").hexdigest()
    except OSError:
        return None
