"""cdk-nag's AwsSolutions pack over the templates of every example and capability, in one synthesis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cdk_nag
import pytest
from aws_cdk import App, CfnResource, DefaultStackSynthesizer, Stack, Validations
from aws_cdk.cloudformation_include import CfnInclude
from aws_cdk.cx_api import CloudAssembly
from bedrock_profiles import bedrock_profile
from stacks_support import ENVIRONMENT, FEATURE_FLAGS, KEY_ARN, NETWORK, profile
from test_stacks_bedrock import CAPABILITIES as ON_BEDROCK
from test_stacks_roles import ENVIRONMENT_WITH_ALL, EVERYTHING
from test_stacks_templates import CAPABILITIES, EXAMPLES

from loadproof.constructs.deployment import Deployment
from loadproof.constructs.security.acknowledged import ACKNOWLEDGED
from loadproof.profiles import load_environment, load_profile
from stacks.application import add_stacks


def deployments(folder: Path) -> Iterator[Deployment]:
    """Every example as it stands, every capability in an environment with network and key, and all at once."""
    for file in EXAMPLES:
        yield Deployment(file.parent.name, load_environment(file.parent), load_profile(file))
    secured = ENVIRONMENT.model_copy(update={"network": NETWORK, "kms_key_arn": KEY_ARN})
    for capability, changes in CAPABILITIES.items():
        yield Deployment(capability, secured, profile(folder, changes))
    for capability, changes in ON_BEDROCK.items():
        yield Deployment(f"bedrock-{capability}", secured, bedrock_profile(folder, changes))
    routed = NETWORK.model_copy(update={"vpc_endpoints": True, "route_table_ids": ("rtb-0123456789abcdef0",)})
    environment = ENVIRONMENT_WITH_ALL.model_copy(update={"network": routed})
    yield Deployment("everything", environment, profile(folder, EVERYTHING))


def reread(assembly: CloudAssembly, out: Path) -> App:
    """Each template as CDK's own classes: the pack's rules know a resource by its class, and many of ours are plain."""
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS, outdir=str(out))
    for stack in assembly.stacks:
        # The template has the parameter and the rule of the bootstrap already.
        synthesizer = DefaultStackSynthesizer(generate_bootstrap_version_rule=False)
        again = Stack(app, stack.stack_name, synthesizer=synthesizer)
        CfnInclude(again, "Template", template_file=stack.template_full_path)
    return app


def nag(app: App) -> set[tuple[str, str]]:
    """What the pack found: (construct's path, finding). Synthesis fails when there is anything."""
    Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    try:
        app.synth()
    except Exception as error:
        assert "ValidationFailed" in str(error)
    report = json.loads((Path(app.outdir) / "validation-report.json").read_text(encoding="utf-8"))
    return {
        (construct["constructPath"], violation["ruleName"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """(our construct's path below its stack, finding)."""
    context = {**FEATURE_FLAGS, "aws:cdk:enable-path-metadata": True}
    app = App(builtin_cloud_formation_validation=False, context=context, outdir=str(tmp_path_factory.mktemp("ours")))
    add_stacks(app, list(deployments(tmp_path_factory.mktemp("profiles"))))
    assembly = app.synth()
    own_paths = {
        f"{stack.stack_name}/Template/{name}": body["Metadata"]["aws:cdk:path"].partition("/")[2]
        for stack in assembly.stacks
        for name, body in stack.template["Resources"].items()
    }
    return {(own_paths[path], finding) for path, finding in nag(reread(assembly, tmp_path_factory.mktemp("nag")))}


def test_nothing_is_found_without_a_reason(found: set[tuple[str, str]]) -> None:
    """Zero unacknowledged findings over all stacks."""
    assert sorted(one for one in found if not any(known.covers(*one) for known in ACKNOWLEDGED)) == []


def test_every_reason_is_still_needed(found: set[tuple[str, str]]) -> None:
    """An acknowledgement of what is no longer found is taken out."""
    assert [known for known in ACKNOWLEDGED if not any(known.covers(*one) for one in found)] == []


def test_the_pack_is_awake(tmp_path: Path) -> None:
    """A plain resource is found as CDK's own class is: a pack that ran over nothing would pass everything."""
    ours = App(builtin_cloud_formation_validation=False, outdir=str(tmp_path / "ours"))
    CfnResource(Stack(ours, "Plain"), "Bucket", type="AWS::S3::Bucket")
    again = reread(ours.synth(), tmp_path / "nag")
    assert ("Plain/Template/Bucket", "AwsSolutions-S10") in nag(again)
