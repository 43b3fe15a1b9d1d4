"""From what a person types to one row of the catalog, or to the names that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from loadproof import catalog
from loadproof.capacity.rows import model_shape
from loadproof.catalog.config_json import load_config, read_config_json
from loadproof.cli.catalog.rows import (
    Document,
    accelerator_document,
    container_document,
    instance_document,
    model_document,
)
from loadproof.errors import InputError

Found = tuple[str, Callable[[], Document], str]  # its kind, its document, its name as the catalog writes it


def find_row(name: str) -> tuple[str, Document]:
    """(kind, document) of the row of that name in any case; a model also by a variant's id or by a config.json.

    Raises InputError with the nearest names of all kinds, or with what is wrong with the config.json.
    """
    if name.endswith(".json"):
        return "model", _own_model(Path(name))
    wanted, names = name.strip().casefold(), _by_name()
    for key in (wanted, f"ml.{wanted}", wanted.replace(" ", ":")):
        if key in names:
            kind, document, _ = names[key]
            return kind, document()
    # Names in tables go without the release, ids do not.
    if "/" not in name or catalog.architecture(name.strip()) is not None:
        with suppress(InputError):
            return "model", model_document(model_shape(name))
    if len(name) < 256 and name and Path(name).is_dir():
        raise InputError(f"{name}: a folder; name the config.json in it")
    raise InputError(f"no row is named `{name[:60]}`; {_hint(name.strip(), names)}")


def _own_model(file: Path) -> Document:
    shape = read_config_json(file)
    document = model_document(shape)
    stored = load_config(file).get("quantization_config")
    if isinstance(stored, dict) and shape.quantization == "none":
        document["quantization"] = f"{str(stored.get('quant_method', 'unknown'))[:40]}: its size is not known here"
    return document


def _by_name() -> dict[str, Found]:
    names: dict[str, Found] = {}
    for shape in catalog.architectures().values():
        for key in (shape.name, shape.hf_id, shape.hf_id.split("/")[-1]):
            names[key.casefold()] = ("model", partial(model_document, shape), key)
    for image in reversed(catalog.container_images()):  # the newest of a family answers to the family's name
        for key in (image.family, f"{image.family}:{image.version}"):
            names[key.casefold()] = ("container", partial(container_document, image), key)
    for machine in catalog.instances().values():
        key = machine.instance_type
        names[key.casefold()] = ("instance", partial(instance_document, machine), key)
    for chip in catalog.accelerators().values():
        names[chip.name.casefold()] = ("accelerator", partial(accelerator_document, chip), chip.name)
    return names


def _hint(typed: str, names: dict[str, Found]) -> str:
    """Models by id first; then names spelt alike, and those that begin with or contain what was typed, as the catalog
    writes them."""
    wanted = typed.casefold()
    holding = sorted((name for name in names if len(wanted) > 1 and wanted in name), key=lambda n: (n.find(wanted), n))
    alike = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    models = catalog.near_models(typed) if "/" in wanted else ()
    near = list(dict.fromkeys((*models, *(names[name][2] for name in (*alike, *holding)))))[:4]
    if not near:
        return "see `loadproof catalog list`"
    return f"did you mean {', '.join(near)}?"
