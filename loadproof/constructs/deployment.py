"""What every construct of one profile's stack is given, and the ARNs that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from loadproof.catalog import registry
from loadproof.errors import InputError
from loadproof.profiles import components_of, names
from loadproof.profiles.schema import Component, Environment, Profile
from loadproof.simulation.targets import resolved_scaling


@dataclass(frozen=True, slots=True)
class Deployment:
    """One profile in one environment. Pure: no construct, no AWS call.

    `components` are the profile's models, their scaling in numbers. `scaling_paused` leaves it out of the template, so
    that a plain variant's instance type may change. `file` is the profile's own, where its relative paths begin.
    `own_stack_name` is that of a stack of somebody's own.
    Raises InputError where an `auto` of the scaling has no number.
    """

    environment_name: str
    environment: Environment
    profile: Profile
    scaling_paused: bool = False
    file: Path | None = None
    own_stack_name: str | None = None
    components: tuple[Component, ...] = field(init=False)

    def __post_init__(self) -> None:
        try:
            components = tuple(
                component.model_copy(update={"scaling": resolved_scaling(self.profile, component)})
                for component in components_of(self.profile)
            )
        except InputError as error:
            raise InputError(f"profile {self.profile.name}: {error}") from None
        object.__setattr__(self, "components", components)

    @property
    def stack_name(self) -> str:
        return self.own_stack_name or names.stack_name(self.environment_name, self.profile.name)

    @property
    def tags(self) -> dict[str, str]:
        """The environment's own, and whose a resource is: rights over an environment's endpoints ask for the latter."""
        return {**self.environment.tags, **self.owner_tags}

    @property
    def owner_tags(self) -> dict[str, str]:
        return {names.ENVIRONMENT_TAG: self.environment_name, names.PROFILE_TAG: self.profile.name}

    @property
    def endpoint_name(self) -> str:
        return names.endpoint_name(self.environment_name, self.profile.name)

    @property
    def hosts_components(self) -> bool:
        """True when copies are inference components, False for a plain variant."""
        return self.profile.endpoint is not None and self.profile.endpoint.hosting == "inference_components"

    @property
    def partition(self) -> str:
        return registry(self.environment.region).partition

    def component_name(self, component: Component, adapter: str | None = None) -> str:
        return names.inference_component_name(self.endpoint_name, component.name, adapter)

    def arn(self, service: str, resource: str, *, region: str | None = None, account: str | None = None) -> str:
        """An ARN in this environment; pass `""` for the parts that a service's ARNs leave empty.

        Literal on purpose: account and region are known, and a reader of the template sees whom a role may touch.
        """
        region = self.environment.region if region is None else region
        account = self.environment.account if account is None else account
        return f"arn:{self.partition}:{service}:{region}:{account}:{resource}"

    @property
    def in_this_account(self) -> dict[str, dict[str, str]]:
        """The condition for a bucket that is named: names are the world's, and may come to be somebody else's."""
        return {"StringEquals": {"aws:ResourceAccount": self.environment.account}}

    @property
    def in_weights_accounts(self) -> dict[str, dict[str, str | list[str]]]:
        """The same for buckets that weights come from, which other accounts that the environment names may own."""
        others = self.environment.weights_accounts
        accounts = [self.environment.account, *others] if others else self.environment.account
        return {"StringEquals": {"aws:ResourceAccount": accounts}}

    def s3_arn(self, bucket_and_key: str) -> str:
        return self.arn("s3", bucket_and_key, region="", account="")
