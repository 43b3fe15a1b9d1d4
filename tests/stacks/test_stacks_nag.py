"""cdk-nag's AwsSolutions pack over every example and capability, in one synthesis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cdk_nag
import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_s3 as s3
from stacks_support import ENVIRONMENT, FEATURE_FLAGS, KEY_ARN, NETWORK, profile
from test_stacks_roles import ENVIRONMENT_WITH_ALL, EVERYTHING
from test_stacks_templates import CAPABILITIES, EXAMPLES

from loadproof.profiles import load_environment, load_profile
from stacks.application import add_stacks
from stacks.context import Deployment
from stacks.security.acknowledged import ACKNOWLEDGED


def deployments(folder: Path) -> Iterator[Deployment]:
    """Every example as it stands, every capability in an environment with network and key, and all at once."""
    for file in EXAMPLES:
        yield Deployment(file.parent.name, load_environment(file.parent), load_profile(file))
    secured = ENVIRONMENT.model_copy(update={"network": NETWORK, "kms_key_arn": KEY_ARN})
    for capability, changes in CAPABILITIES.items():
        yield Deployment(capability, secured, profile(folder, changes))
    routed = NETWORK.model_copy(update={"vpc_endpoints": True, "route_table_ids": ("rtb-0123456789abcdef0",)})
    environment = ENVIRONMENT_WITH_ALL.model_copy(update={"network": routed})
    yield Deployment("everything", environment, profile(folder, EVERYTHING))


def nag(app: App, out: Path) -> set[tuple[str, str]]:
    """What the pack found: (construct's path below its stack, finding). Synthesis fails when there is anything."""
    Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    try:
        app.synth()
    except Exception as error:
        assert "ValidationFailed" in str(error)
    report = json.loads((out / "validation-report.json").read_text(encoding="utf-8"))
    return {
        (construct["constructPath"].partition("/")[2], violation["ruleName"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    out = tmp_path_factory.mktemp("nag")
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS, outdir=str(out))
    add_stacks(app, list(deployments(tmp_path_factory.mktemp("profiles"))))
    return nag(app, out)


def test_nothing_is_found_without_a_reason(found: set[tuple[str, str]]) -> None:
    """Zero unacknowledged findings over all stacks."""
    assert sorted(one for one in found if not any(known.covers(*one) for known in ACKNOWLEDGED)) == []


def test_every_reason_is_still_needed(found: set[tuple[str, str]]) -> None:
    """An acknowledgement of what is no longer found is taken out."""
    assert [known for known in ACKNOWLEDGED if not any(known.covers(*one) for one in found)] == []


def test_the_pack_is_awake(tmp_path: Path) -> None:
    """A plain bucket is found without TLS: a pack that ran over nothing would pass everything."""
    app = App(builtin_cloud_formation_validation=False, outdir=str(tmp_path))
    s3.CfnBucket(Stack(app, "Plain"), "Bucket")
    assert ("Bucket", "AwsSolutions-S10") in nag(app, tmp_path)
