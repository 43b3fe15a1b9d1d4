"""Which model a container would load: what its image's entry point finds in variables and in the model data.

Where Loadproof deployed it, the tag `loadproof:model-id` has said so already, and nothing is looked up.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import orjson

from loadproof.capacity import architecture_as_tag
from loadproof.catalog import architecture, is_gated
from loadproof.catalog.config_json import MOST_BYTES, architecture_from_config
from loadproof.errors import InputError
from loadproof.families import FAMILIES, MOUNTED_WEIGHTS, ModelVariables, family_and_version
from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import CannotStartError
from loadproof.localcloud.model_server.start import ARCHITECTURE_TAG, MODEL_ID_TAG

ReadObject = Callable[[str], bytes | None]  # an object of S3 by its address, None where there is none
_CONFIG: Final = "config.json"
_PACKED: Final = (".tar.gz", ".tgz")
_MOST_PACKED_BYTES: Final = 16 << 20
_TOKENS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_API_TOKEN")


def with_model(view: ContainerView, read: ReadObject) -> ContainerView:
    """The same container with the tags that name its model, and the variables that its model data holds.

    Raises CannotStartError where the image would find no model, or the twin cannot know its shape.
    """
    known = family_and_version(view.image)
    names = FAMILIES[known[0]].model_variables if known is not None else None
    if view.tags.get(MODEL_ID_TAG) or names is None:
        return view
    _check_registry(view.image)
    environment = {**view.environment, **_configured(names, view.model_data_s3_uri, read)}
    place = _place(names, environment, view.model_data_s3_uri)
    data_uri = _data_uri(place, names, view.model_data_s3_uri)
    tags = {MODEL_ID_TAG: _from_hub(place, environment)} if data_uri is None else _from_data(data_uri, read)
    return replace(view, environment=environment, tags={**view.tags, **tags})


def _check_registry(image: str) -> None:
    """Public gallery images are not supported (deep-learning-containers, vllm-samples/sagemaker)."""
    if image.startswith("public.ecr.aws/"):
        raise CannotStartError(f"SageMaker takes no image of the public gallery, found {image}; copy it to ECR")


def _configured(names: ModelVariables, data_uri: str | None, read: ReadObject) -> Mapping[str, str]:
    """What a configuration file in the model data says."""
    file = names.configured_by
    body = None if file is None or data_uri is None else _file(data_uri, file.name, read)
    return {} if file is None or body is None else file.variables(body.decode("utf-8", "replace"))


def _place(names: ModelVariables, environment: Mapping[str, str], data_uri: str | None) -> str:
    """A hub id, an S3 address or a folder: the first that the entry point finds."""
    sources = names.looked_up or (names.model,)
    for source in sources:
        mounted = source == MOUNTED_WEIGHTS
        found = (MOUNTED_WEIGHTS if data_uri else "") if mounted else environment.get(source, "").strip()
        if found:
            return found
    raise CannotStartError(
        f"{names.unnamed}: the model has none of {', '.join(sources)}. With the tag {MODEL_ID_TAG} on the "
        "AWS::SageMaker::Model or the inference component, the twin takes the Hugging Face id from there"
    )


def _data_uri(place: str, names: ModelVariables, data_uri: str | None) -> str | None:
    """Where the weights lie in S3; None for a model of the hub."""
    if place.startswith("s3://"):
        if not names.loads_s3:
            raise CannotStartError(f"the image fetches no {place}: give it as ModelDataSource instead")
        return place
    if not place.startswith("/"):
        return None
    if not place.startswith(MOUNTED_WEIGHTS):
        raise CannotStartError(f"the twin cannot look into the image's folder {place}; add the tag {MODEL_ID_TAG}")
    if data_uri is None:
        raise CannotStartError(f"{place} is empty: the model has neither ModelDataUrl nor ModelDataSource")
    folder = place.removeprefix(MOUNTED_WEIGHTS).strip("/")
    return data_uri if not folder or data_uri.endswith(_PACKED) else f"{data_uri.rstrip('/')}/{folder}"


def _from_hub(model_id: str, environment: Mapping[str, str]) -> str:
    if is_gated(model_id) and not any(environment.get(token) for token in _TOKENS):
        raise CannotStartError(
            f"401 Client Error: access to model {model_id} is restricted on the hub, and the container has no token; "
            "set HF_TOKEN (its licence must be accepted there)"
        )
    if architecture(model_id) is None:
        raise CannotStartError(
            f"the catalog does not know the shape of {model_id}. Put its config.json into S3 and name that place as "
            f"ModelDataSource, or tag the model with {MODEL_ID_TAG} and {ARCHITECTURE_TAG}"
        )
    return model_id


def _from_data(data_uri: str, read: ReadObject) -> dict[str, str]:
    """The tags that a config.json stands for."""
    body = _file(data_uri, _CONFIG, read)
    place = f"{data_uri.rstrip('/')}: {_CONFIG}"
    if body is None:
        raise CannotStartError(f"{place}: no such file; the weights' own is enough for the twin")
    try:
        config = orjson.loads(body[:MOST_BYTES])
        shape = architecture_from_config(config if isinstance(config, dict) else {}, place)
    except orjson.JSONDecodeError:
        raise CannotStartError(f"{place}: no JSON") from None
    except InputError as error:
        raise CannotStartError(str(error)) from None
    model_id = config.get("_name_or_path") or data_uri.rstrip("/").rpartition("/")[2]
    return {MODEL_ID_TAG: str(model_id), ARCHITECTURE_TAG: architecture_as_tag(shape)}


def _file(data_uri: str, name: str, read: ReadObject) -> bytes | None:
    """A file below an address, or in the archive that it names; of several the outermost."""
    if not data_uri.endswith(_PACKED):
        return read(f"{data_uri.rstrip('/')}/{name}")
    packed = read(data_uri)
    if packed is None:
        raise CannotStartError(f"Could not find model data at {data_uri}.")
    if len(packed) > _MOST_PACKED_BYTES:
        raise CannotStartError(f"{data_uri} is larger than the twin unpacks; an archive with {_CONFIG} is enough")
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            found = [one for one in archive if one.isfile() and one.name.rpartition("/")[2] == name]
            outermost = min(found, key=lambda one: one.name.count("/"), default=None)
            opened = archive.extractfile(outermost) if outermost is not None else None
            return opened.read(MOST_BYTES) if opened is not None else None
    except (tarfile.TarError, OSError, EOFError):
        raise CannotStartError(f"{data_uri} is no gzipped tar archive") from None
