"""Subnets and security groups: whether they are there, together, and with addresses that are free."""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.preflight.needs import Subnets
from loadproof.preflight.rules.rule import Found, subnets_rule
from loadproof.wire.documents import Document


@subnets_rule(
    "LA151",
    "A subnet or security group is not there",
    reason="SageMaker checks the VPC's parts when an endpoint is made, minutes into the deployment. They must exist in "
    "the region and belong to the environment's VPC.",
    mend="Correct `network` in environment.yaml.",
)
def part_missing(need: Subnets) -> Iterator[Found]:
    region = need.account.region
    groups = {
        one["GroupId"]: one
        for one in need.account.listed(
            "ec2", "describe_security_groups", "SecurityGroups", _by_id("group-id", need.security_group_ids)
        )
    }
    for kind, wanted, found in (
        ("subnet", need.subnet_ids, _subnets(need)),
        ("security-group", need.security_group_ids, groups),
    ):
        mend = f"aws ec2 describe-{kind}s --filters Name=vpc-id,Values={need.vpc_id} --region {region}"
        for name in wanted:
            if name not in found:
                yield Found(name, f"there is no such {kind}", mend, needed=f"a {kind} of {need.vpc_id}")
            elif found[name]["VpcId"] != need.vpc_id:
                yield Found(name, f"it belongs to {found[name]['VpcId']}", mend, needed=f"a {kind} of {need.vpc_id}")


@subnets_rule(
    "LA152",
    "Subnets have too few addresses",
    reason="Each instance takes two addresses or more of the subnets. Without them instances do not start, or scaling "
    "stops.",
    mend="Add a larger subnet, or free addresses.",
)
def too_few_addresses(need: Subnets) -> Iterator[Found]:
    free = {name: int(one["AvailableIpAddressCount"]) for name, one in _subnets(need).items()}
    if free and sum(free.values()) < need.addresses:
        each = ", ".join(f"{count} in {name}" for name, count in sorted(free.items()))
        yield Found(
            need.vpc_id,
            f"{sum(free.values())} addresses are free ({each})",
            f"aws ec2 create-subnet --vpc-id {need.vpc_id} --cidr-block LARGER --region {need.account.region}, "
            "then add it to network.subnet_ids",
            needed=f"{need.addresses} at most: two for each instance of endpoints and benchmark",
        )


def _subnets(need: Subnets) -> dict[str, Document]:
    params = _by_id("subnet-id", need.subnet_ids)
    return {one["SubnetId"]: one for one in need.account.listed("ec2", "describe_subnets", "Subnets", params)}


def _by_id(name: str, ids: tuple[str, ...]) -> Document:
    """As a filter: an id that is missing is then missing from the answer, and no error."""
    return {"Filters": [{"Name": name, "Values": list(ids)}]}
