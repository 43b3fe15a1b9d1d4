"""What deployments need of an account: plain facts of an environment and its profiles, nothing asked yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final, Literal

from loadproof.preflight.account import Account
from loadproof.profiles.images import EcrImage
from loadproof.profiles.schema import Environment

ADDRESSES_PER_INSTANCE: Final = 2  # SageMaker developer guide, host-vpc: at least two for each instance of a model
Kind = Literal["endpoint", "inference component", "log group", "queue", "dashboard", "state machine"]


@dataclass(frozen=True, slots=True)
class Need(ABC):
    """Something a deployment needs, and the account to ask about it. What rules look at."""

    account: Account

    @property
    @abstractmethod
    def place(self) -> str:
        """What somebody calls it."""


@dataclass(frozen=True, slots=True)
class Instances(Need):
    """Instances of one type at once, by the name of their quota; `of` are the endpoints or jobs that take them.

    `ours` are the endpoints among them: what they have now is not counted twice.
    """

    instance_type: str
    use: Literal["endpoint", "processing job"]
    count: int
    of: tuple[str, ...]
    ours: frozenset[str] = frozenset()

    @property
    def quota_name(self) -> str:
        return f"{self.instance_type} for {self.use} usage"

    @property
    def place(self) -> str:
        return self.quota_name


@dataclass(frozen=True, slots=True)
class Reservation(Need):
    """A training plan or reserved capacity that an endpoint's instances come from."""

    arn: str
    instance_types: tuple[str, ...]
    count: int
    endpoint: str

    @property
    def place(self) -> str:
        return self.arn


@dataclass(frozen=True, slots=True)
class Weights(Need):
    """Weights or an adapter in S3. `key_arn` is the only key that the role may use; None: none.

    `from_jumpstart`: they lie in a bucket of AWS's, which shows its policy to nobody. `by_known_server`: what loads
    them is known, and starts from a checkpoint's config.json.
    """

    uri: str
    what: str
    key_arn: str | None
    is_object: bool
    from_jumpstart: bool = False
    by_known_server: bool = False

    @property
    def bucket(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[0]

    @property
    def key(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[2]

    @property
    def place(self) -> str:
        return self.uri


@dataclass(frozen=True, slots=True)
class Secret(Need):
    """The hub's token of a gated model."""

    arn: str

    @property
    def place(self) -> str:
        return self.arn


@dataclass(frozen=True, slots=True)
class Image(Need):
    """An image that containers or the benchmark's job are started from."""

    image: EcrImage
    what: str

    @property
    def place(self) -> str:
        return self.image.repository


@dataclass(frozen=True, slots=True)
class Key(Need):
    """The environment's key. `services` use it by their own names, beside roles of the account."""

    arn: str
    services: tuple[str, ...]

    @property
    def place(self) -> str:
        return self.arn


@dataclass(frozen=True, slots=True)
class Stack(Need):
    """A stack that will be made or updated, whatever state it is in."""

    name: str

    @property
    def place(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Named(Need):
    """A resource whose name the template fixes: nobody else may have it. `retention_days` of a log group."""

    kind: Kind
    name: str
    stack: str
    retention_days: int | None = None

    @property
    def place(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Subnets(Need):
    """The VPC's part that containers run in, and how many addresses they take at their most."""

    vpc_id: str
    subnet_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]
    addresses: int

    @property
    def place(self) -> str:
        return self.vpc_id


@dataclass(frozen=True, slots=True)
class AlarmTopic(Need):
    """Whom alarms tell."""

    environment: Environment
    stacks: tuple[str, ...]

    @property
    def place(self) -> str:
        return self.environment.alarm_topic_arn or "alarms"


@dataclass(frozen=True, slots=True)
class Bootstrap(Need):
    """What `cdk bootstrap` leaves in an account."""

    qualifier: str

    @property
    def parameter(self) -> str:
        return f"/cdk-bootstrap/{self.qualifier}/version"

    @property
    def bucket(self) -> str:
        return f"cdk-{self.qualifier}-assets-{self.account.id}-{self.account.region}"

    @property
    def place(self) -> str:
        return self.parameter


@dataclass(frozen=True, slots=True)
class BedrockQuotaNeed(Need):
    """Requests or tokens a minute of a model on Bedrock; `names` are those that the quota is listed under."""

    model_id: str
    unit: str
    names: tuple[str, ...] = field(default=())

    @property
    def place(self) -> str:
        return self.names[0]
