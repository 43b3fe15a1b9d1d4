"""AWS::EC2::SecurityGroup and AWS::EC2::VPCEndpoint. No packet passes through them; what they name must exist."""

from __future__ import annotations

from botocore.client import BaseClient

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceType,
    Work,
    as_text,
    changed,
    names,
    picked,
    tag_rows,
)
from loadproof.wire.documents import Document


def _tagged(work: Work, properties: Properties, kind: str) -> Document:
    tags = tag_rows(work, properties)
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


def _check_vpc(ec2: BaseClient, properties: Properties) -> None:
    """EC2 refuses what moto takes: a VPC that does not exist."""
    if "VpcId" in properties:
        ec2.describe_vpcs(VpcIds=[properties["VpcId"]])


class SecurityGroup(ResourceType):
    """A group in a VPC. Rules given for a direction replace the ones that a new group has."""

    type_name = "AWS::EC2::SecurityGroup"
    supported = names("GroupDescription GroupName SecurityGroupEgress SecurityGroupIngress Tags VpcId")
    name_property = "GroupName"
    longest_name = 255
    deletion = ("ec2", "delete_security_group", "GroupId")

    def create(self, work: Work, properties: Properties) -> Made:
        ec2 = work.client("ec2")
        _check_vpc(ec2, properties)
        group_id = ec2.create_security_group(
            GroupName=self.name(work, properties),
            Description=properties["GroupDescription"],
            **picked(properties, "VpcId"),
            **_tagged(work, properties, "security-group"),
        )["GroupId"]
        if properties.get("SecurityGroupEgress"):
            default = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]["IpPermissionsEgress"]
            ec2.revoke_security_group_egress(GroupId=group_id, IpPermissions=default)
        self._allow(ec2, group_id, properties)
        return Made(group_id, self._shown(ec2, group_id))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        ec2 = work.client("ec2")
        found = ec2.describe_security_groups(GroupIds=[physical_id])["SecurityGroups"][0]
        if found["IpPermissions"]:
            ec2.revoke_security_group_ingress(GroupId=physical_id, IpPermissions=found["IpPermissions"])
        if found["IpPermissionsEgress"]:
            ec2.revoke_security_group_egress(GroupId=physical_id, IpPermissions=found["IpPermissionsEgress"])
        everywhere = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}
        self._allow(ec2, physical_id, {**new, "SecurityGroupEgress": new.get("SecurityGroupEgress") or [everywhere]})
        return self._shown(ec2, physical_id)

    def _allow(self, ec2: BaseClient, group_id: str, properties: Properties) -> None:
        inbound = [_permission(rule, "Source") for rule in properties.get("SecurityGroupIngress", [])]
        if inbound:
            ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=inbound)
        outbound = [_permission(rule, "Destination") for rule in properties.get("SecurityGroupEgress", [])]
        if outbound:
            ec2.authorize_security_group_egress(GroupId=group_id, IpPermissions=outbound)

    def _shown(self, ec2: BaseClient, group_id: str) -> Document:
        found = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
        return {"GroupId": group_id, "Id": group_id, "VpcId": found.get("VpcId", "")}


def _permission(rule: Properties, side: str) -> Document:
    """One rule as EC2 takes it; `side` names the other end: Source of what comes in, Destination of what goes out."""
    told = picked(rule, "Description")
    permission: Document = {"IpProtocol": str(rule["IpProtocol"])}
    permission |= {name: int(rule[name]) for name in ("FromPort", "ToPort") if name in rule}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **told}]
    if "CidrIpv6" in rule:
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **told}]
    if f"{side}PrefixListId" in rule:
        permission["PrefixListIds"] = [{"PrefixListId": rule[f"{side}PrefixListId"], **told}]
    if f"{side}SecurityGroupId" in rule:
        permission["UserIdGroupPairs"] = [{"GroupId": rule[f"{side}SecurityGroupId"], **told}]
    return permission


class VpcEndpoint(ResourceType):
    type_name = "AWS::EC2::VPCEndpoint"
    _changeable = names("PolicyDocument PrivateDnsEnabled RouteTableIds SecurityGroupIds SubnetIds")
    supported = _changeable | names("ServiceName Tags VpcEndpointType VpcId")

    def create(self, work: Work, properties: Properties) -> Made:
        ec2 = work.client("ec2")
        _check_vpc(ec2, properties)
        found = ec2.create_vpc_endpoint(
            **picked(properties, "VpcId", "ServiceName", "VpcEndpointType"),
            **self._settings(properties),
            **_tagged(work, properties, "vpc-endpoint"),
        )["VpcEndpoint"]
        return Made(found["VpcEndpointId"], self._shown(found))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        changes = picked(self._settings(new), "PolicyDocument", "PrivateDnsEnabled")
        for noun in ("RouteTable", "SecurityGroup", "Subnet"):
            gone, added = changed(old, new, f"{noun}Ids")
            changes |= {f"Add{noun}Ids": added} if added else {}
            changes |= {f"Remove{noun}Ids": gone} if gone else {}
        ec2 = work.client("ec2")
        ec2.modify_vpc_endpoint(VpcEndpointId=physical_id, **changes)
        return self._shown(ec2.describe_vpc_endpoints(VpcEndpointIds=[physical_id])["VpcEndpoints"][0])

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[physical_id])

    def _settings(self, properties: Properties) -> Document:
        settings = picked(properties, *self._changeable)
        if "PolicyDocument" in settings:
            settings["PolicyDocument"] = as_text(settings["PolicyDocument"])
        return settings

    def _shown(self, found: Document) -> Document:
        return {
            "Id": found["VpcEndpointId"],
            "CreationTimestamp": str(found["CreationTimestamp"]),
            "DnsEntries": [f"{one['HostedZoneId']}:{one['DnsName']}" for one in found.get("DnsEntries", [])],
            "NetworkInterfaceIds": found.get("NetworkInterfaceIds", []),
        }
