"""What is known of Bedrock's models, of its cross-region prefixes and of its published default quotas: vendored rows.

The rows are a snapshot: a model that is missing here may well exist, so a look-up gives None and nothing refuses a
model for it. Quota codes differ by model; quotas are found by their names, whose wording AWS has changed over time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from loadproof.catalog.provenance import unverified
from loadproof.catalog.readers import table

Unit = Literal["requests", "tokens"]
NO_PREFIX = "none"
GLOBAL = "global"

_WORDINGS = (
    "{scope} model inference {unit} per minute for {title}",
    "{scope} InvokeModel {unit} per minute for {title}",
)
_VERSION = re.compile(r" v\d+$")


@dataclass(frozen=True, slots=True)
class BedrockModel:
    """One foundation model. `title` is its name in quotas; an output token counts `output_burndown` quota tokens.

    `payload` names the body that InvokeModel takes; `prefixes` are the cross-region profiles that exist for it, and
    `on_demand` tells whether it may be invoked without one. `converse_lacks` names what it does not take
    of Converse's request: a field (`toolConfig.stream`: in a stream), a choice of tools, a `document`, the source
    `s3Location`.
    """

    model_id: str
    title: str
    payload: str
    context_tokens: int
    max_output_tokens: int
    output_burndown: float
    image_input: bool
    on_demand: bool
    prefixes: tuple[str, ...]
    tiers: tuple[str, ...]
    converse_lacks: tuple[str, ...]
    source: str
    date: str

    @property
    def unverified(self) -> bool:
        return unverified(self.source)


@dataclass(frozen=True, slots=True)
class Prefix:
    """A cross-region prefix. Regions are empty where a row cannot list them: without a prefix, and with `global`."""

    prefix: str
    quota_scope: str  # how a quota's name begins
    source_regions: tuple[str, ...]
    destination_regions: tuple[str, ...]
    source: str
    date: str

    @property
    def unverified(self) -> bool:
        return unverified(self.source)


@dataclass(frozen=True, slots=True)
class BedrockQuota:
    """A published default, per minute. `region` None: every region without a row of its own; `code` None: not known."""

    name: str
    region: str | None
    value: float
    code: str | None
    adjustable: bool
    source: str
    date: str


@cache
def bedrock_models() -> Mapping[str, BedrockModel]:
    """Models by their ids (`meta.llama3-1-8b-instruct-v1:0`)."""
    return {row.model_id: row for row in table(BedrockModel, "bedrock_models.csv")}


@cache
def bedrock_prefixes() -> Mapping[str, Prefix]:
    """Prefixes by name; `none` is the model of one region."""
    return {row.prefix: row for row in table(Prefix, "bedrock_prefixes.csv")}


@cache
def bedrock_quotas() -> tuple[BedrockQuota, ...]:
    """Every published default."""
    columns = {"name": "quota_name", "code": "quota_code"}
    return tuple(table(BedrockQuota, "bedrock_quotas.csv", columns))


def quota_names(prefix: str, unit: Unit, title: str) -> tuple[str, ...]:
    """The names under which AWS has listed a model's quota; the first is today's."""
    scope = bedrock_prefixes()[prefix].quota_scope
    return tuple(wording.format(scope=scope, unit=unit, title=title) for wording in _WORDINGS)


@cache
def default_quota(model: BedrockModel, prefix: str, unit: Unit, region: str) -> BedrockQuota | None:
    """The published default of a model in a region, per minute; None where no row tells it."""
    for name in quota_names(prefix, unit, model.title):
        named = [row for row in bedrock_quotas() if same_quota(row.name, name)]
        for wanted in (region, None):
            found = next((row for row in named if row.region == wanted), None)
            if found is not None:
                return found
    return None


def same_quota(one: str, other: str) -> bool:
    """Whether two names mean one quota: letter case and a closing version (` V1`) tell nothing."""
    return _comparable(one) == _comparable(other)


def split_profile_id(model_id: str) -> tuple[str, str]:
    """`us.meta.llama…` as (`us`, `meta.llama…`); a plain model id as (`none`, itself)."""
    head, _, rest = model_id.partition(".")
    return (head, rest) if head in _crossing() and "." in rest else (NO_PREFIX, model_id)


def _crossing() -> Iterable[str]:
    return [name for name in bedrock_prefixes() if name != NO_PREFIX]


def _comparable(name: str) -> str:
    return _VERSION.sub("", name.casefold().strip())
