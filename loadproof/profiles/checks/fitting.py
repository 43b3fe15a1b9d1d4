"""Does it fit? Weights, heads, copies, reservations against instances (LP304-LP311, LP316, LP320, LP370, LP378)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.catalog import Accelerator, Architecture, Instance
from loadproof.catalog.formats import torn_blocks, torn_groups
from loadproof.families import FAMILIES
from loadproof.pages.wording import counted, joined
from loadproof.profiles.checks.facts import (
    GB,
    accelerator_of,
    architecture_of,
    copies_per_instance,
    instances_for,
    known_instances,
    kv_cache,
    longest_request_limit,
    mean_tokens,
    memory_share,
    rooms,
    weight_bytes,
)
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.settings import accelerators_per_copy, longer_context, tensor_parallel_degree
from loadproof.profiles.tree import Path

MANY_ACCELERATORS: Final = 8  # a whole machine of the largest
NEARLY_ALL: Final = 0.95  # of 64 GiB 3.2: kernel, agent and Docker take two to four
SMALL_SHARE: Final = 0.25  # of one accelerator: weights, and as much again for the longest request
SPEED: Final = 4  # times what one accelerator takes at the least: below, sharding is what makes it fast enough


@component_rule(
    "LP304",
    "Weights exceed the accelerators' memory",
    reason="The server stops while loading, after the machine was paid for.",
    mend="Use a larger instance, more accelerators a copy, or a quantized checkpoint.",
)
def weights_too_large(placed: Placed) -> Iterator[Found]:
    for instance, shape, memory, allowed in _memories(placed):
        weights = weight_bytes(placed.component.model, shape)
        if weights > allowed:
            count = accelerators_per_copy(placed.component)
            share = f"{allowed / GB:.0f} GB usable of " if allowed < memory else ""
            yield Found(
                placed.at("model"),
                f"weights of {weights / GB:.0f} GB exceed {share}{memory / GB:.0f} GB GPU memory "
                f"({count} x {instance.accelerator} of {instance.instance_type})",
                "use a larger instance, more accelerators a copy, or a quantized checkpoint",
            )


@component_rule(
    "LP305",
    "Tensor parallel degree does not divide the attention heads",
    reason="Every accelerator takes the same number of heads; servers refuse anything else.",
    mend="Use a divisor of the model's attention heads.",
)
def degree_divides_heads(placed: Placed) -> Iterator[Found]:
    degree = tensor_parallel_degree(placed.component)
    shape = architecture_of(placed.component.model)
    if shape and shape.heads % degree:
        fitting = [value for value in (1, 2, 4, 8, 16, 32) if shape.heads % value == 0 and value <= 8]
        yield Found(
            _degree_path(placed),
            f"{degree} does not divide the model's {shape.heads} attention heads",
            f"use {joined(fitting, 'or')}",
        )


@component_rule(
    "LP306",
    "Tensor parallel degree does not fit the key-value heads",
    reason="Key-value heads are split evenly, or each is copied to the same number of accelerators.",
    mend="Use a degree that divides the key-value heads, or a multiple of them.",
)
def degree_fits_kv_heads(placed: Placed) -> Iterator[Found]:
    degree = tensor_parallel_degree(placed.component)
    shape = architecture_of(placed.component.model)
    if shape is None or shape.heads % degree:
        return
    if shape.kv_heads % degree and degree % shape.kv_heads:
        fits = [n for n in (1, 2, 4, 8, 16) if shape.heads % n == 0 and not (shape.kv_heads % n and n % shape.kv_heads)]
        yield Found(
            _degree_path(placed),
            f"{degree} neither divides the model's {shape.kv_heads} key-value heads nor is a multiple of them",
            f"use {joined(fits, 'or')}",
        )


@component_rule(
    "LP378",
    "Tensor parallel degree cuts through blocks of quantized weights",
    reason="Such a checkpoint has one scale for 128 x 128 weights (FP8 in blocks) or for a group of 128 inputs (AWQ, "
    "GPTQ), and every accelerator must get whole ones: vLLM and SGLang stop while loading anything else "
    "(catalog/formats.py has the sources). A checkpoint of smaller groups says so in its id (`-g64`).",
    mend="Use a smaller degree, or expert parallelism, which shares experts out whole.",
)
def degree_keeps_blocks(placed: Placed) -> Iterator[Found]:
    model, container = placed.component.model, placed.component.container
    degree, shape = tensor_parallel_degree(placed.component), architecture_of(placed.component.model)
    if shape is None:
        return
    family = container.family
    for said in torn_blocks(family, model.id, shape, degree, container.environment):
        fits = [n for n in (1, 2, 4, 8) if n < degree and not any(torn_blocks(family, model.id, shape, n, {}))]
        found = f"{degree} cuts through blocks of the model's FP8 weights: {said}"
        yield Found(_degree_path(placed), found, f"use {joined(fits, 'or')}, or expert parallelism")
    kind = model.quantization
    for said in torn_groups(family, model.id, kind, shape, degree):
        fits = [n for n in (1, 2, 4, 8) if n < degree and not any(torn_groups(family, model.id, kind, shape, n))]
        found = f"{degree} cuts through groups of the model's {kind} weights: {said}"
        yield Found(_degree_path(placed), found, f"use {joined(fits, 'or')}, or another format")


@component_rule(
    "LP307",
    "A copy wants more accelerators than the instance has",
    reason="A copy lives on one instance; CreateInferenceComponent would wait for room that never comes.",
    mend="Lower the accelerators of a copy, or use a larger instance.",
)
def copy_exceeds_instance(placed: Placed) -> Iterator[Found]:
    wanted = accelerators_per_copy(placed.component)
    for path, instance in known_instances(placed.endpoint):
        if wanted > instance.accelerator_count:
            yield Found(
                _accelerators_path(placed, path),
                f"a copy wants {wanted} accelerators, {instance.instance_type} has {instance.accelerator_count}",
                f"lower it to {instance.accelerator_count}, or use a larger instance",
            )


@component_rule(
    "LP308",
    "Tensor parallel degree and accelerators a copy disagree",
    reason="More shards than accelerators cannot start; fewer leave accelerators paid for and idle.",
    mend="Make the two equal, or leave one of them out.",
)
def degree_equals_accelerators(placed: Placed) -> Iterator[Found]:
    degree, accelerators = tensor_parallel_degree(placed.component), accelerators_per_copy(placed.component)
    path = placed.at("copies", "accelerators_per_copy")
    if degree > accelerators:
        found = f"a copy has {accelerators} accelerators for a tensor parallel degree of {degree}"
        yield Found(path, found, f"raise it to {degree}")
    elif degree < accelerators and not _neuron(placed):
        found = f"a copy has {accelerators} accelerators, but the model shards over {degree}"
        yield Found(path, found, f"lower it to {degree}, or raise tensor_parallel_degree", "warning")
    container = placed.component.container
    family = FAMILIES[container.family]
    if degree <= accelerators < family.ranks(degree, container.environment):
        name = next(name for name in family.degree_variables if name in container.environment)
        found = f"{container.environment[name]} times a tensor parallel degree of {degree}, a copy has {accelerators}"
        mend = "delete it, or give the copy as many accelerators"
        yield Found(placed.at("container", "environment", name), found, mend)


@rule(
    "LP309",
    "Copies do not fit the instances",
    reason="Copies past the room wait as InsufficientCapacity, and scaling stops below its own maximum.",
    mend="Raise endpoint.max_instances, or lower the copies' maximum.",
)
def copies_exceed_instances(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    if endpoint.hosting != "inference_components":
        return
    for _, instance in known_instances(endpoint):
        held = rooms(subject.components, instance)
        whole = instances_for(subject.components, instance, "max")
        if whole > endpoint.max_instances:
            copies = sum(placed.component.copies.max for placed, _ in held)
            path = held[-1][0].at("copies", "max") if len(held) > 1 else ("copies", "max")
            yield Found(
                path,
                f"{copies} copies need {whole} instances of {instance.instance_type} "
                f"({', '.join(f'{room} a machine' for _, room in held)}), max_instances is {endpoint.max_instances}",
                f"raise endpoint.max_instances to {whole}, or lower copies.max",
            )


@component_rule(
    "LP310",
    "A copy reserves more than the machine has",
    reason="memory_mib_per_copy and cpus_per_copy are reservations: a copy that cannot get them never starts. "
    "SageMaker keeps a share of each machine, some GiB at the least: nearly all of it is refused, too.",
    mend="Lower the reservation, or use a larger instance.",
)
def copy_exceeds_host(placed: Placed) -> Iterator[Found]:
    copies = placed.component.copies
    for _, instance in known_instances(placed.endpoint):
        host_mib = int(instance.host_memory_gib * 1024)
        if copies.memory_mib_per_copy > host_mib:
            found = f"{copies.memory_mib_per_copy} MiB a copy exceed the {host_mib} MiB of {instance.instance_type}"
            yield Found(placed.at("copies", "memory_mib_per_copy"), found, f"lower it well below {host_mib}")
        if copies.cpus_per_copy and copies.cpus_per_copy > instance.vcpu:
            found = f"{copies.cpus_per_copy:g} vCPUs a copy exceed the {instance.vcpu} of {instance.instance_type}"
            yield Found(placed.at("copies", "cpus_per_copy"), found, f"lower it to at most {instance.vcpu}")
        count = min(copies_per_instance(placed, instance), max(1, copies.max))
        memory_mib, cpus = count * copies.memory_mib_per_copy, count * (copies.cpus_per_copy or 0)
        kept = f"SageMaker keeps a share of {instance.instance_type}"
        if NEARLY_ALL * host_mib < memory_mib <= host_mib:
            found = f"{memory_mib:,} of {host_mib:,} MiB are reserved by {counted(count, 'copy', 'copies')}: {kept}"
            mend = f"write at most {int(NEARLY_ALL * host_mib / count):,}"
            yield Found(placed.at("copies", "memory_mib_per_copy"), found, mend, "warning")
        if count and cpus == instance.vcpu:
            found = f"all {instance.vcpu} vCPUs are reserved by {counted(count, 'copy', 'copies')}: {kept}"
            mend = f"write less than {instance.vcpu / count:g}"
            yield Found(placed.at("copies", "cpus_per_copy"), found, mend, "warning")


@component_rule(
    "LP311",
    "The longest request does not fit beside the weights",
    reason="Servers reserve KV cache for one request of full length, and refuse to start without room for it.",
    mend="Lower the longest request (max_total_tokens, max_model_len, context_length), or give the copy more memory.",
)
def no_room_for_a_request(placed: Placed) -> Iterator[Found]:
    limit = longest_request_limit(placed)
    if limit is None:
        return
    name, tokens = limit
    for instance, shape, memory, allowed in _memories(placed):
        count = round(memory / accelerator_of(instance).memory_bytes)
        cache = kv_cache(placed, shape, count)
        left = allowed - weight_bytes(placed.component.model, shape)
        needed = cache.bytes_of(tokens) * count  # heads held as copies take their room each time
        if left <= 0 or needed <= left:
            continue  # weights that do not fit at all are LP304's
        fitting = int(cache.tokens_within(left / count)) // 256 * 256
        unset, family = name == "the model's context", FAMILIES[placed.component.container.family]
        starts = unset and not (family.holds_longest and family.longest_is_context)
        yield Found(
            placed.at("container", "settings") if unset else placed.at(*name.split(".")),
            f"one request of {tokens} tokens{f' ({name})' if unset else ''} needs {needed / GB:.1f} GB of KV cache, "
            f"the weights leave {left / GB:.1f} GB on {instance.instance_type}",
            f"set a limit of at most {fitting} tokens, or give the copy more memory",
            "warning" if starts else None,
        )


@component_rule(
    "LP316",
    "Longer than the model's context",
    reason="Positions past the context were never trained; servers refuse the setting, unless a variable stretches the "
    "positions (`rope_scaling` in SM_VLLM_HF_OVERRIDES), or switches their check off.",
    mend="Lower it to the model's context, or stretch the positions as the model's card says.",
)
def longer_than_context(placed: Placed) -> Iterator[Found]:
    shape, limit = architecture_of(placed.component.model), longest_request_limit(placed)
    if shape is None or limit is None or limit[1] <= shape.context:
        return
    meant = longer_context(placed.component.container.environment)
    if meant == "stretched":
        return
    place, mend = placed.at(*limit[0].split(".")), f"lower it to at most {shape.context}"
    found = f"{limit[1]} tokens exceed the model's context of {shape.context}"
    if meant == "allowed":
        yield Found(place, f"{found}, and the server is told to take them", mend, "warning")
    else:
        yield Found(place, found, mend)


@component_rule(
    "LP320",
    "Architecture that contradicts itself",
    reason="Every prediction follows from these numbers.",
    mend="Copy them from the model's config.json.",
)
def inconsistent_architecture(placed: Placed) -> Iterator[Found]:
    own = placed.component.model.architecture
    if own is None:
        return
    path = placed.at("model", "architecture")
    if own.num_attention_heads % own.num_key_value_heads:
        found = f"{own.num_key_value_heads} key-value heads do not divide {own.num_attention_heads} attention heads"
        yield Found((*path, "num_key_value_heads"), found, "copy both from config.json")
    if own.num_experts_per_token > own.num_experts:
        found = f"{own.num_experts_per_token} experts a token exceed {own.num_experts} experts"
        yield Found((*path, "num_experts_per_token"), found, "copy both from config.json")
    apart = (own.sliding_window_layers or 0) + own.linear_attention_layers
    if apart > own.num_hidden_layers:
        found = f"{apart} layers with a window or with linear attention exceed {own.num_hidden_layers} layers"
        yield Found((*path, "num_hidden_layers"), found, "copy them from config.json, or name it in model.config_json")
    if own.active_parameters_b is not None and own.active_parameters_b > own.parameters_b:
        found = f"{own.active_parameters_b:g} billion active parameters exceed {own.parameters_b:g} in total"
        yield Found((*path, "active_parameters_b"), found, "write billions in both")


@component_rule(
    "LP370",
    "Small model on a whole machine",
    reason="A model that fits one accelerator is to run on one "
    "(https://docs.vllm.ai/en/latest/serving/parallelism_scaling/): of eight each waits for the others in every layer, "
    "and eight copies answer several times as much. Told where weights, and the longest request's cache, take at most "
    "a quarter of one accelerator each, and no bound is within four times of what one could do at best.",
    mend="Write tensor_parallel_degree: 1 with more copies, or use a smaller instance.",
    severity="warning",
)
def small_on_many(placed: Placed) -> Iterator[Found]:
    shape, limit = architecture_of(placed.component.model), longest_request_limit(placed)
    count, known = tensor_parallel_degree(placed.component), list(known_instances(placed.endpoint))
    if shape is None or limit is None or count < MANY_ACCELERATORS or not known or _neuron(placed):
        return
    if placed.component.container.family == "custom":  # what else runs in it, nobody knows
        return
    weights = weight_bytes(placed.component.model, shape)
    taken = max(weights, kv_cache(placed, shape, 1).bytes_of(limit[1]))
    for chip in {accelerator_of(instance) for _, instance in known}:
        if taken > SMALL_SHARE * memory_share(placed.component.container) * chip.memory_bytes:
            return
        if _needs_speed(placed, shape, weights, chip):
            return
    found = f"{count} accelerators for weights of {weights / GB:.1f} GB, which one holds several times over"
    yield Found(_degree_path(placed), found, "write 1 with more copies, or use a smaller instance")


def _needs_speed(placed: Placed, shape: Architecture, weights: float, chip: Accelerator) -> bool:
    """Step = weights / bandwidth; prompt = 2 · parameters · tokens / compute."""
    workload = placed.profile.workload
    step_ms = weights / (chip.bandwidth_gb_per_s * 1e9) * 1000
    prompt_tokens = mean_tokens(workload.first_prompts) + mean_tokens(workload.input_tokens) * (workload.turns - 1)
    prompt_ms = 2 * shape.active_parameters_b * 1e9 * prompt_tokens / (chip.bf16_tflops * 1e12) * 1000
    least_ms = {"ttft": prompt_ms + step_ms, "itl": step_ms, "tpot": step_ms}
    least_ms["e2e"] = prompt_ms + step_ms * mean_tokens(workload.output_tokens)
    bounds = placed.profile.objectives.bounds.items()
    return any(bound < SPEED * least_ms.get(name.partition("_")[0], 0) for name, bound in bounds)


def _memories(placed: Placed) -> Iterator[tuple[Instance, Architecture, float, float]]:
    """(instance, model shape, bytes of a copy's accelerators, bytes the engine may use) for each known instance."""
    shape = architecture_of(placed.component.model)
    for _, instance in known_instances(placed.endpoint) if shape else ():
        count = min(accelerators_per_copy(placed.component), instance.accelerator_count)
        memory = float(accelerator_of(instance).memory_bytes) * count
        assert shape is not None
        yield instance, shape, memory, memory * memory_share(placed.component.container)


def _neuron(placed: Placed) -> bool:
    """Neuron counts cores, not chips, in its tensor parallel degree."""
    return any(accelerator_of(instance).vendor == "AWS" for _, instance in known_instances(placed.endpoint))


def _degree_path(placed: Placed) -> Path:
    if placed.component.container.settings.tensor_parallel_degree is not None:
        return placed.at("container", "settings", "tensor_parallel_degree")
    return placed.at("copies", "accelerators_per_copy")


def _accelerators_path(placed: Placed, default: Path) -> Path:
    if placed.component.copies.accelerators_per_copy is not None:
        return placed.at("copies", "accelerators_per_copy")
    unset = placed.component.container.settings.tensor_parallel_degree is None
    return default if unset else _degree_path(placed)
