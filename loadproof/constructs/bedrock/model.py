"""What a profile invokes on Bedrock: an application inference profile, or provisioned throughput of its own."""

from __future__ import annotations

from aws_cdk import CfnResource, CfnTag
from aws_cdk import aws_bedrock as bedrock
from aws_cdk import aws_iam as iam
from constructs import Construct

from loadproof.catalog.bedrock import GLOBAL, NO_PREFIX
from loadproof.constructs.bedrock.throughput.infrastructure import Throughput
from loadproof.constructs.buffer.target import BufferTarget
from loadproof.constructs.cdk.statements import Statement, allow
from loadproof.constructs.deployment import Deployment
from loadproof.profiles.on_bedrock import bedrock_settings, deployed_name, invoked_id, prefix_row

_ACTIONS = ("bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream")  # Converse's rights too


class HostedModel(Construct):
    """The model of a profile, on the account's quotas or on model units of its own.

    `arn` is what Converse is called with, `metric_id` the ModelId of its metrics; both are known when deployed.
    An application inference profile's tags are those that the bill knows its tokens by.
    """

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self.deployment = deployment
        settings = bedrock_settings(deployment.profile)
        self.resource: CfnResource
        if settings.provisioned_throughput is not None:
            throughput = Throughput(
                self,
                "Throughput",
                deployment=deployment,
                settings=settings.provisioned_throughput,
                tags=deployment.tags,
            )
            self.resource, self.arn, self.metric_id = throughput.resource, throughput.arn, throughput.arn
            return
        profile = self._inference_profile()
        self.resource, self.arn = profile, profile.attr_inference_profile_arn
        self.metric_id = profile.attr_inference_profile_id

    @property
    def name(self) -> str:
        """What everything of this profile is named after."""
        return self.deployment.endpoint_name

    def invoke_statements(self) -> list[Statement]:
        """The right to invoke exactly this, in every region that a request may be sent to.

        A request through a profile needs the profile, and the model wherever it may run, there only through the
        profile. Source: Bedrock user guide, inference-profiles-prereq and global-cross-region-inference.
        """
        deployment = self.deployment
        settings = bedrock_settings(deployment.profile)
        if settings.provisioned_throughput is not None:
            return [allow(*_ACTIONS, on=self.arn)]
        profiles = [self.arn]
        if settings.inference_profile != NO_PREFIX:
            profiles.append(self._source_arn())
        through = {"bedrock:InferenceProfileArn": profiles[0] if len(profiles) == 1 else profiles}
        here = (deployment.environment.region,)
        regions = tuple(sorted({*here, *prefix_row(deployment.profile).destination_regions}))
        statements = [
            allow(*_ACTIONS, on=profiles),
            allow(*_ACTIONS, on=[self._model_arn(region) for region in regions], when={"StringEquals": through}),
        ]
        if settings.inference_profile == GLOBAL:
            anywhere = {"aws:RequestedRegion": "unspecified", **through}
            statements.append(allow(*_ACTIONS, on=self._model_arn(""), when={"StringEquals": anywhere}))
        return statements

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Give that right to somebody."""
        for statement in self.invoke_statements():
            grantee.grant_principal.add_to_principal_policy(iam.PolicyStatement.from_json(statement))

    def target(self) -> BufferTarget:
        """What a buffer in front of it needs to know; not the context, since refusals of Bedrock cost nothing."""
        profile = self.deployment.profile
        variables = {"ENDPOINT_NAME": self.arn, "PROTOCOL": "converse", "MODEL_REVISION": invoked_id(profile)}
        return BufferTarget(self.name, self.deployment, variables, tuple(self.invoke_statements()))

    def _inference_profile(self) -> bedrock.CfnApplicationInferenceProfile:
        """Without a description: it could not change without the name's changing too."""
        return bedrock.CfnApplicationInferenceProfile(
            self,
            "InferenceProfile",
            inference_profile_name=deployed_name(self.deployment.environment_name, self.deployment.profile),
            model_source=bedrock.CfnApplicationInferenceProfile.InferenceProfileModelSourceProperty(
                copy_from=self._source_arn()
            ),
            tags=[CfnTag(key=name, value=value) for name, value in self.deployment.tags.items()],
        )

    def _source_arn(self) -> str:
        """What the inference profile copies: the model here, or Bedrock's own cross-region profile."""
        profile = self.deployment.profile
        if bedrock_settings(profile).inference_profile == NO_PREFIX:
            return self._model_arn(self.deployment.environment.region)
        return self.deployment.arn("bedrock", f"inference-profile/{invoked_id(profile)}")

    def _model_arn(self, region: str) -> str:
        model_id = self.deployment.profile.model.id
        return self.deployment.arn("bedrock", f"foundation-model/{model_id}", region=region, account="")
