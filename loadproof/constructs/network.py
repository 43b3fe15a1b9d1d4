"""The stack of an environment's VPC endpoints: how a network without a way out reaches AWS's own services."""

from __future__ import annotations

import re
from typing import Final

from aws_cdk import Environment as CdkEnvironment
from aws_cdk import Stack, Tags
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from loadproof.catalog import registry
from loadproof.constructs.cdk.statements import allow, document
from loadproof.errors import InputError
from loadproof.profiles.names import NETWORK, stack_name
from loadproof.profiles.schema import Environment, Network
from loadproof.wire.documents import Document

# What containers, the consumer and the benchmark's hosts call from inside.
SERVICES: Final = (
    "application-autoscaling",
    "ecr.api",
    "ecr.dkr",
    "kms",
    "logs",
    "monitoring",
    "sagemaker.api",
    "sagemaker.runtime",
    "secretsmanager",
    "sqs",
)
_HTTPS: Final = 443


def _own_credentials(account: str) -> Document:
    """Lets through the account's own roles alone. The gateways stay open: their route tables are others' too, and AWS
    signs for ECR's layers and CloudFormation's answers by accounts of its own.
    """
    own = {"StringEquals": {"aws:PrincipalAccount": account}}
    return document({"Principal": "*", **allow("*", on="*", when=own)})


class NetworkStack(Stack):
    """An interface endpoint a service, reached from the environment's security groups only, and two gateways."""

    def __init__(self, scope: Construct, *, environment_name: str, environment: Environment, network: Network) -> None:
        if registry(environment.region).partition != "aws":
            raise InputError(
                f"environment.yaml network.vpc_endpoints: their names in {environment.region} are not known here; "
                f"make the endpoints yourself, and leave vpc_endpoints out"
            )
        super().__init__(
            scope,
            stack_name(environment_name, NETWORK),
            env=CdkEnvironment(account=environment.account, region=environment.region),
            description=f"VPC endpoints of {environment_name}",
            tags=dict(environment.tags),
            analytics_reporting=False,
        )
        for name, value in environment.tags.items():
            Tags.of(self).add(name, value)
        group = self._security_group(network)
        for service in SERVICES:
            ec2.CfnVPCEndpoint(
                self,
                re.sub(r"\W", "", service.title()),
                vpc_id=network.vpc_id,
                service_name=f"com.amazonaws.{environment.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(network.subnet_ids),
                security_group_ids=[group.attr_group_id],
                policy_document=_own_credentials(environment.account),
            )
        for name, service in (("S3", "s3"), ("DynamoDb", "dynamodb")):
            ec2.CfnVPCEndpoint(
                self,
                name,
                vpc_id=network.vpc_id,
                service_name=f"com.amazonaws.{environment.region}.{service}",
                vpc_endpoint_type="Gateway",
                route_table_ids=list(network.route_table_ids),
            )

    def _security_group(self, network: Network) -> ec2.CfnSecurityGroup:
        """In by HTTPS from the environment's own groups; out to nowhere, since an endpoint only answers."""
        return ec2.CfnSecurityGroup(
            self,
            "Group",
            vpc_id=network.vpc_id,
            group_description="HTTPS to VPC endpoints from the security groups of the environment",
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp",
                    from_port=_HTTPS,
                    to_port=_HTTPS,
                    source_security_group_id=source,
                    description="HTTPS",
                )
                for source in network.security_group_ids
            ],
            # Without a rule CloudFormation would allow everything; this one matches nothing.
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="icmp", from_port=252, to_port=86, cidr_ip="255.255.255.255/32", description="None"
                )
            ],
        )
