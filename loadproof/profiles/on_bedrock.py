"""What a profile with backend bedrock means: what it invokes, and what that is called once deployed."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from loadproof.catalog.bedrock import NO_PREFIX, BedrockModel, Prefix, bedrock_models, bedrock_prefixes
from loadproof.profiles.names import endpoint_name, fitted
from loadproof.profiles.schema import Bedrock, Buffer, Profile

FEWEST_CONSUMERS: Final = 2  # MaximumConcurrency of an event source takes no fewer
MOST_CONSUMERS: Final = 1000


def bedrock_settings(profile: Profile) -> Bedrock:
    """The profile's `bedrock`, or its defaults."""
    return profile.bedrock or Bedrock()


def bedrock_row(profile: Profile) -> BedrockModel | None:
    """What the catalog knows of the profile's model; None for a model it has no row of.

    Provisioned throughput names a model with the size of its context (`amazon.nova-lite-v1:0:24k`).
    """
    return bedrock_models().get(re.sub(r":\d+k$", "", profile.model.id))


def prefix_row(profile: Profile) -> Prefix:
    """The cross-region prefix's row; that of `none` without one."""
    return bedrock_prefixes()[bedrock_settings(profile).inference_profile]


def invoked_id(profile: Profile) -> str:
    """`us.meta.llama…`, or the model's own id without a prefix."""
    prefix = bedrock_settings(profile).inference_profile
    return profile.model.id if prefix == NO_PREFIX else f"{prefix}.{profile.model.id}"


def bedrock_consumers(profile: Profile) -> int:
    """What `buffer.max_concurrency: auto` is: whole batches within the bound, but no fewer than Lambda takes."""
    batch_size = (profile.buffer or Buffer()).batch_size
    return min(MOST_CONSUMERS, max(FEWEST_CONSUMERS, bedrock_settings(profile).max_concurrency // batch_size))


def deployed_name(environment_name: str, profile: Profile) -> str:
    """The profile's application inference profile, or its provisioned throughput.

    Neither can change what it is made of, and names are unique: a change makes a new one beside the old one, which goes
    when the new one is there. So what it is made of is part of its name.
    """
    throughput = bedrock_settings(profile).provisioned_throughput
    made_of = invoked_id(profile)
    if throughput is not None:
        made_of += f" {throughput.model_units} {throughput.commitment}"
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:8]
    return fitted(f"{endpoint_name(environment_name, profile.name)}-{digest}")
