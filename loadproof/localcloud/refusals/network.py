"""What EC2 refuses of security groups and VPC endpoints, and moto takes."""

from __future__ import annotations

import re
from typing import Final

from loadproof.localcloud.refusals.rules import Moto, Rule, moto_of, require
from loadproof.localcloud.wire import Caller, Params

_INVALID: Final = "InvalidParameterValue"
# Amazon EC2 API reference, CreateSecurityGroup: of names and descriptions in a VPC.
_TEXT: Final = re.compile(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,255}")
_LARGEST, _SMALLEST = 16, 28  # bits of a subnet's prefix
_PROTOCOLS: Final = ("tcp", "udp", "icmp", "icmpv6")
_HIGHEST_PORT: Final = 65_535
_HOME: Final = "us-east-1"


def _group(caller: Caller, params: Params) -> None:
    name = params["GroupName"]
    message = f"Invalid value '{name}' for groupName. Group names may not be in the format sg-*."
    require(not name.startswith("sg-"), _INVALID, message)
    for what, text in (("groupName", name), ("groupDescription", params["Description"])):
        require(_TEXT.fullmatch(text), _INVALID, f"Invalid value '{text}' for {what}. Character sets beyond ASCII")
    network = params.get("VpcId")
    known = not network or network in moto_of("ec2", caller).vpcs
    require(known, "InvalidVpcID.NotFound", f"The vpc ID '{network}' does not exist")


def _ports(caller: Caller, params: Params) -> None:
    for rule in [*(params.get("IpPermissions") or []), params]:
        protocol = str(rule.get("IpProtocol") or "-1").lower()
        known = protocol in _PROTOCOLS or protocol.lstrip("-").isdigit()
        require(known, _INVALID, f"Invalid value '{protocol}' for IP protocol. Unknown protocol.")
        low, high = rule.get("FromPort"), rule.get("ToPort")
        if low is None or high is None or rule.get("IpProtocol") not in ("tcp", "udp"):
            continue
        require(int(low) <= int(high), _INVALID, f"Invalid TCP port range ({low}:{high}).")
        fits = int(low) >= 0 and int(high) <= _HIGHEST_PORT
        require(fits, _INVALID, f"TCP/UDP port ({low}:{high}) out of range")


def _delete_group(caller: Caller, params: Params) -> None:
    groups = moto_of("ec2", caller).groups
    asked = params.get("GroupId")
    default = any(one[asked].name == "default" for one in groups.values() if asked in one)
    require(not default, "CannotDelete", "the specified group: default cannot be deleted by a user")
    used = any(group.id == asked for one in _interfaces(caller) for group in one.group_set)
    require(not used, "DependencyViolation", f"resource {asked} has a dependent object")


def _interfaces(caller: Caller) -> list[Moto]:
    return list(moto_of("ec2", caller).enis.values())


def _delete_subnet(caller: Caller, params: Params) -> None:
    asked = params["SubnetId"]
    used = any(one.subnet.id == asked for one in _interfaces(caller))
    require(not used, "DependencyViolation", f"The subnet '{asked}' has dependencies and cannot be deleted.")


def _endpoint(caller: Caller, params: Params) -> None:
    name = params.get("ServiceName") or ""
    alike = name.replace(f".{caller.region}.", f".{_HOME}.")
    foreign = ".vpce-svc-" in name or not name.startswith("com.amazonaws.")
    message = f"The Vpc Endpoint Service '{name}' does not exist"
    require(foreign or alike in _services(caller), "InvalidServiceName", message)


def _services(caller: Caller) -> set[str]:
    from moto.ec2.models.vpcs import VPCBackend  # noqa: PLC0415  reads every region's machines: a third of a cloud's start

    return {one["ServiceName"] for one in VPCBackend._collect_default_endpoint_services(caller.account, _HOME)}


def _subnet(caller: Caller, params: Params) -> None:
    """Amazon VPC user guide, "Subnet sizing": /16 to /28."""
    cidr = params.get("CidrBlock") or ""
    length = cidr.rpartition("/")[2]
    fits = not length.isdigit() or _LARGEST <= int(length) <= _SMALLEST
    require(fits, "InvalidSubnet.Range", f"The CIDR '{cidr}' is invalid.")


RULES: dict[str, Rule] = {
    "CreateSecurityGroup": _group,
    "AuthorizeSecurityGroupIngress": _ports,
    "AuthorizeSecurityGroupEgress": _ports,
    "DeleteSecurityGroup": _delete_group,
    "CreateSubnet": _subnet,
    "DeleteSubnet": _delete_subnet,
    "CreateVpcEndpoint": _endpoint,
}
