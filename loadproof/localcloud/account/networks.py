"""The networks, subnets and security groups that a region has."""

from __future__ import annotations

from moto.backends import get_backend

from loadproof.localcloud.wire import Caller


def vpcs(caller: Caller) -> set[str]:
    return set(get_backend("ec2")[caller.account][caller.region].vpcs)


def subnets(caller: Caller) -> set[str]:
    zones = get_backend("ec2")[caller.account][caller.region].subnets.values()
    return {name for zone in zones for name in zone}


def security_groups(caller: Caller) -> set[str]:
    networks = get_backend("ec2")[caller.account][caller.region].groups.values()
    return {name for network in networks for name in network}
