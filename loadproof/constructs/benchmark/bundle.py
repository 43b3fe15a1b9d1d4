"""What a benchmark in the cloud is planned from: the profile as it was deployed, with the files it names."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aws_cdk import AssetStaging, FileAssetPackaging, Stack
from constructs import Construct

from loadproof.constructs.deployment import Deployment
from loadproof.errors import InputError
from loadproof.profiles import named_files, profile_hash
from loadproof.profiles.inheritance import profile_root
from loadproof.profiles.names import jobs_prefix
from loadproof.profiles.secrets import shown_path
from loadproof.wire.documents import Document

MANIFEST: Final = "bundle.json"
_ROOT: Final = "deploy_profiles"


@dataclass(frozen=True, slots=True)
class Bundle:
    """An archive in the CDK's own bucket. It is the same as long as what it is planned from is."""

    bucket: str
    key: str


def bundle_asset(scope: Construct, deployment: Deployment) -> Bundle:
    """Raises InputError for a file that the profile names and that is not there, or lies outside its folder."""
    with tempfile.TemporaryDirectory(prefix="loadproof-bundle-") as folder:
        write_bundle(deployment, Path(folder))
        staged = AssetStaging(scope, "BenchmarkBundle", source_path=folder)
    stack = Stack.of(scope)
    location = stack.synthesizer.add_file_asset(
        source_hash=f"{bundle_prefix(deployment.environment_name)}{staged.asset_hash}",
        file_name=staged.relative_staged_path(stack),
        packaging=FileAssetPackaging.ZIP_DIRECTORY,
    )
    return Bundle(location.bucket_name, location.object_key)


def bundle_prefix(environment_name: str) -> str:
    """How the keys of an environment's bundles begin, and no other asset's: its benchmarks may read these alone."""
    return f"bundle-{jobs_prefix(environment_name)}"


def write_bundle(deployment: Deployment, folder: Path) -> None:
    """The profile merged with its parents, an environment of just the account and region, and the named files.

    The environment lies in a folder of its own: what it has to say about the profile was checked here already.
    """
    profile, environment = deployment.profile, deployment.environment
    home, beside = folder / _ROOT / "_deployed", folder / _ROOT / deployment.environment_name
    home.mkdir(parents=True)
    beside.mkdir()
    # Every value that was written, not the defaults: they follow, and some may only follow.
    written: Document = profile.model_dump(mode="json", exclude_unset=True, exclude={"acknowledged"})
    if profile.calibration is not None:
        name = f"{profile.name}.calibration.yaml"
        _write(home / name, written["calibration"])
        written["calibration"] = name
    _write(home / f"{profile.name}.yaml", written)
    _write(beside / "environment.yaml", {"account": environment.account, "region": environment.region})
    _write(
        folder / MANIFEST,
        {
            "profile": f"{_ROOT}/{home.name}/{profile.name}.yaml",
            "profile_sha256": profile_hash(profile),
            "environment": deployment.environment_name,
        },
    )
    for path, name in named_files(profile):
        _copy(deployment, shown_path(path), name, home)


def _write(file: Path, document: object) -> None:
    """JSON is YAML too."""
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _copy(deployment: Deployment, field: str, name: str, home: Path) -> None:
    """Where the profile says, seen from the profile: the path is part of its hash. A trace may be a folder of files."""
    if deployment.file is None:
        raise InputError(f"{field}: `{name}` is relative to a file, and this profile has none")
    source = deployment.file.parent / name
    root = profile_root(deployment.file).resolve()
    files = sorted(one for one in source.glob("*") if one.is_file()) if source.is_dir() else [source]
    if Path(name).is_absolute() or not all(one.resolve().is_relative_to(root) for one in (source, *files)):
        raise InputError(f"{field}: `{name}` lies outside {root.name}/, so the job cannot have it; keep it in there")
    if not source.exists():
        raise InputError(f"{field}: `{name}` does not exist, and the benchmark in the cloud needs it")
    for one in files:
        target = home / name / one.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(one, target)
