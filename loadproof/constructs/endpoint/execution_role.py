"""The role SageMaker takes on to run a profile's containers: what they need and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from aws_cdk import CfnResource, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from loadproof.catalog import registry
from loadproof.constructs.cdk.statements import Statement, allow, document, trust
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.staging.infrastructure import StagedWeights
from loadproof.errors import InputError
from loadproof.profiles.images import ecr_image, image_of
from loadproof.profiles.names import alarm_name
from loadproof.profiles.schema import Component, Environment, HubSource, JumpStartSource, S3Source

VPC_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
PULL_ACTIONS = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


class ExecutionRole(Construct):
    """Trusts SageMaker for this account only.

    Its rights are a policy of their own, named after what they allow. An edit of weights, image or outputs so makes a
    second policy before anything moves, and CloudFormation takes the first away when everything has moved: until then,
    and when an update is rolled back, the old copies must still be able to start.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, weights: StagedWeights | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        account = deployment.environment.account
        self.role = iam.CfnRole(
            self,
            "Role",
            description=f"Runs the containers of {deployment.endpoint_name}",
            assume_role_policy_document=trust(
                "sagemaker.amazonaws.com", when={"StringEquals": {"aws:SourceAccount": account}}
            ),
        )
        self.arn = self.role.attr_arn
        rights = document(*_statements(deployment, weights))
        # Only the bucket of staged weights has no name yet.
        written = json.dumps(Stack.of(self).resolve(rights) if weights else rights, sort_keys=True)
        digest = hashlib.sha256(written.encode()).hexdigest()[:8]
        self._rights = iam.CfnPolicy(
            self, f"Rights{digest}", policy_name=f"endpoint-{digest}", policy_document=rights, roles=[self.role.ref]
        )

    def before(self, user: CfnResource) -> None:
        """Whatever is made with the role waits for its rights, and goes before they go."""
        user.add_resource_dependency(self._rights)


def _statements(deployment: Deployment, weights: StagedWeights | None) -> Iterable[Statement]:
    yield from _logs_and_metrics(deployment)
    yield from _images(deployment)
    yield from _weights(deployment, weights)
    yield from _outputs(deployment)
    yield from _key(deployment)
    yield from network_interfaces(deployment.environment)


def network_interfaces(environment: Environment) -> Iterable[Statement]:
    """What SageMaker does by the role in the environment's network: another account's service may use an interface in
    its own subnets alone (ec2:Subnet is a key of interfaces in the service authorization reference).
    """
    if environment.network is None:
        return
    yield allow(*VPC_ACTIONS, on="*", sid="NetworkInterfaces")
    here = f"arn:{registry(environment.region).partition}:ec2:{environment.region}:{environment.account}"
    subnets = [f"{here}:subnet/{one}" for one in environment.network.subnet_ids]
    yield allow(
        "ec2:CreateNetworkInterfacePermission",
        on=f"{here}:network-interface/*",
        when={"ArnEquals": {"ec2:Subnet": subnets}},
        sid="InterfacesInSubnets",
    )


def _logs_and_metrics(deployment: Deployment) -> Iterable[Statement]:
    groups = [f"/aws/sagemaker/Endpoints/{deployment.endpoint_name}"]
    if deployment.hosts_components:
        # One by one: a name that was too long no longer begins with the endpoint's.
        names = [deployment.component_name(component) for component in deployment.components]
        groups += [f"/aws/sagemaker/InferenceComponents/{name}" for name in names]
    # `:*` is part of a log group's ARN in IAM, for the group's own actions as for its streams'.
    arns = [deployment.arn("logs", f"log-group:{group}:*") for group in groups]
    actions = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents")
    yield allow(*actions, on=arns, sid="Logs")
    namespaces = {"StringLike": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/*"]}}
    yield allow("cloudwatch:PutMetricData", on="*", when=namespaces, sid="Metrics")
    # SageMaker reads the alarms that roll an update back by the endpoint's own role.
    # Each by its name: a beginning of names is that of another profile's, too.
    kinds = deployment.profile.objectives.alarm_kinds
    alarms = [deployment.arn("cloudwatch", f"alarm:{alarm_name(deployment.endpoint_name, kind)}") for kind in kinds]
    if alarms:
        yield allow("cloudwatch:DescribeAlarms", on=alarms, sid="RollbackAlarms")


def _images(deployment: Deployment) -> Iterable[Statement]:
    images = [image_of(component.container, deployment.environment.region) for component in deployment.components]
    repositories = sorted({repository_arn(image, deployment.partition) for image in images})
    yield allow("ecr:GetAuthorizationToken", on="*", sid="RegistryLogin")
    yield allow(*PULL_ACTIONS, on=repositories, sid="PullImages")


def repository_arn(image: str, partition: str) -> str:
    """The ECR repository of an image. Raises InputError for an image that lies elsewhere."""
    found = ecr_image(image)
    return f"arn:{partition}:ecr:{found.region}:{found.account}:repository/{found.repository}"


def _weights(deployment: Deployment, weights: StagedWeights | None) -> Iterable[Statement]:
    places = sorted({place for component in deployment.components for place in _places(component, weights)})
    named = sorted({place for component in deployment.components for place in _named_places(component)})
    kept = [place for place in places if place not in named]
    for sid, some, when in (("Weights", kept, None), ("NamedWeights", named, deployment.in_weights_accounts)):
        if some:
            objects = [deployment.s3_arn(_objects(place)) for place in some]
            yield allow("s3:GetObject", on=objects, when=when, sid=f"Read{sid}")
            yield from _listing(f"List{sid}", some, deployment, when)
    contents = sorted(
        {
            component.model.source.hub_content_arn
            for component in deployment.components
            if isinstance(component.model.source, JumpStartSource) and component.model.source.hub_content_arn
        }
    )
    if contents:
        yield allow("sagemaker:DescribeHubContent", on=contents, sid="ReadHubContent")


def _places(component: Component, weights: StagedWeights | None) -> Iterable[str]:
    """`bucket/key` of everything a component's containers read from S3; a prefix ends with a slash."""
    source = component.model.source
    if isinstance(source, S3Source | JumpStartSource):
        yield source.s3_uri.removeprefix("s3://")
    elif weights is not None and component.name in weights.uris:
        yield weights.place(component)
    elif not isinstance(source, HubSource):
        raise InputError("model.source: nothing is given, but backend sagemaker needs weights; add a source")
    for adapter in component.adapters:
        yield adapter.s3_uri.removeprefix("s3://")


def _named_places(component: Component) -> Iterable[str]:
    """Those in buckets that the profile names: not JumpStart's, which are AWS's, nor what this stack staged."""
    source = component.model.source
    if isinstance(source, S3Source):
        yield source.s3_uri.removeprefix("s3://")
    for adapter in component.adapters:
        yield adapter.s3_uri.removeprefix("s3://")


def _objects(place: str) -> str:
    return f"{place}*" if place.endswith("/") else place


def _listing(
    sid: str, places: list[str], deployment: Deployment, when: Mapping[str, Mapping[str, object]] | None
) -> Iterable[Statement]:
    """One ListBucket statement a bucket, for the prefixes only."""
    by_bucket: dict[str, list[str]] = {}
    for place in places:
        bucket, _, key = place.partition("/")
        by_bucket.setdefault(bucket, []).append(f"{key}*" if key.endswith("/") or not key else key)
    for position, (bucket, prefixes) in enumerate(sorted(by_bucket.items())):
        below = {**(when or {}), "StringLike": {"s3:prefix": prefixes}}
        yield allow("s3:ListBucket", on=deployment.s3_arn(bucket), when=below, sid=f"{sid}{position or ''}")


def _outputs(deployment: Deployment) -> Iterable[Statement]:
    """Where data capture and asynchronous inference write, and where the latter reads."""
    endpoint = deployment.profile.endpoint
    if endpoint is None:
        return
    uris: list[str | None] = []
    if endpoint.data_capture is not None:
        uris.append(endpoint.data_capture.s3_uri)
    if endpoint.async_inference is not None:
        uris.append(endpoint.async_inference.output_s3_uri)
        uris.append(endpoint.async_inference.failure_s3_uri)
    prefixes = sorted({uri.removeprefix("s3://").rstrip("/") for uri in uris if uri})
    if prefixes:
        objects = [deployment.s3_arn(f"{prefix}/*") for prefix in prefixes]
        yield allow("s3:PutObject", on=objects, when=deployment.in_this_account, sid="WriteOutputs")
    wanted = endpoint.async_inference
    if wanted is not None:
        requests = wanted.input_s3_uri.removeprefix("s3://").rstrip("/")
        below = deployment.s3_arn(f"{requests}/*")
        yield allow("s3:GetObject", on=below, when=deployment.in_this_account, sid="ReadRequests")
        topics = sorted({topic for topic in (wanted.success_topic_arn, wanted.error_topic_arn) if topic})
        if topics:
            yield allow("sns:Publish", on=topics, sid="TellResults")


def _key(deployment: Deployment) -> Iterable[Statement]:
    """The environment's key, usable only through the services that hold the data."""
    key = deployment.environment.kms_key_arn
    if key is None:
        return
    if ":key/" not in key:
        raise InputError(
            f"environment.yaml kms_key_arn: found {key}, but rights hold for a key and not for its alias; "
            f"write arn:…:key/…"
        )
    region = deployment.environment.region
    services = [f"s3.{region}.amazonaws.com", f"sagemaker.{region}.amazonaws.com"]
    yield allow(
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:GenerateDataKey",
        on=key,
        when={"StringEquals": {"kms:ViaService": services}},
        sid="UseKey",
    )
    yield allow(
        "kms:CreateGrant", on=key, when={"Bool": {"kms:GrantIsForAWSResource": "true"}}, sid="GrantKeyToVolumes"
    )
