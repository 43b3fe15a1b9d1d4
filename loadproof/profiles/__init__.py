"""Deploy profiles: typed, strict, checked; every problem with its place."""

from loadproof.profiles.loader import (
    Checked,
    check_file,
    document_hash,
    load_calibration,
    load_environment,
    load_profile,
    named_files,
    place_in,
    places_in,
    profile_document,
    profile_files,
    profile_hash,
)
from loadproof.profiles.schema import Component, Environment, Family, Profile
from loadproof.profiles.settings import (
    accelerators_per_copy,
    components_of,
    container_variables,
    is_staged,
    protocol_of,
    quantization_from_variables,
    settings_from_variables,
    tensor_parallel_degree,
)

__all__ = [
    "Checked",
    "Component",
    "Environment",
    "Family",
    "Profile",
    "accelerators_per_copy",
    "check_file",
    "components_of",
    "container_variables",
    "document_hash",
    "is_staged",
    "load_calibration",
    "load_environment",
    "load_profile",
    "named_files",
    "place_in",
    "places_in",
    "profile_document",
    "profile_files",
    "profile_hash",
    "protocol_of",
    "quantization_from_variables",
    "settings_from_variables",
    "tensor_parallel_degree",
]
