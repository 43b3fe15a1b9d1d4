"""What `cdk bootstrap` leaves in an account: its version, and the bucket of the assets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.preflight.needs import Bootstrap
from loadproof.preflight.rules.rule import Found, bootstrap_rule

_LEAST_VERSION: Final = 6  # what every template asks for (its rule CheckBootstrapVersion)


@bootstrap_rule(
    "LA171",
    "The account is not bootstrapped",
    reason="The CDK CLI deploys through roles and a bucket that `cdk bootstrap` makes, once in an account and region. "
    "Templates ask for its version 6 or later.",
    mend="Bootstrap the account, with the qualifier that cdk.json has.",
)
def not_bootstrapped(need: Bootstrap) -> Iterator[Found]:
    found = need.account.read("ssm", "get_parameter", {"Name": need.parameter}, ("ParameterNotFound",))
    version = (found or {}).get("Parameter", {}).get("Value", "")
    if found is None:
        yield Found(
            need.parameter, "there is no such parameter", _command(need), needed=f"version {_LEAST_VERSION} or later"
        )
    elif not version.isdigit() or int(version) < _LEAST_VERSION:
        yield Found(
            need.parameter, f"its version is {version}", _command(need), needed=f"version {_LEAST_VERSION} or later"
        )


@bootstrap_rule(
    "LA172",
    "The bucket of the CDK's assets is gone",
    reason="Somebody emptied the account and left the bootstrap's parameter. The first asset that the CLI publishes "
    "then fails.",
    mend="Delete the stack CDKToolkit and bootstrap again: bootstrapping alone does not make the bucket again.",
)
def assets_gone(need: Bootstrap) -> Iterator[Found]:
    account = need.account
    parameter = account.read("ssm", "get_parameter", {"Name": need.parameter}, ("ParameterNotFound",))
    if parameter is None or account.read("s3", "head_bucket", {"Bucket": need.bucket}, ("404", "NoSuchBucket")):
        return
    delete = f"aws cloudformation delete-stack --stack-name CDKToolkit --region {account.region}"
    yield Found(need.bucket, "there is no such bucket", f"{delete}, then {_command(need)}", needed="the assets' bucket")


def _command(need: Bootstrap) -> str:
    qualifier = "" if need.qualifier == "hnb659fds" else f" --qualifier {need.qualifier}"
    return f"npx cdk bootstrap aws://{need.account.id}/{need.account.region}{qualifier}"
