"""How long one step of the server takes: a roofline per accelerator, the fabric's all-reduce, the server's own time."""

from __future__ import annotations

from math import log2
from typing import Literal

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import kv_bytes_per_token, kv_bytes_per_token_per_accelerator
from loadproof.capacity.speculation import OWN_EXPERTS, Speculation
from loadproof.catalog.weights import WIDE_BYTES, head_parameters, looked_up_parameters, wide_parameters

Resource = Literal["bandwidth", "compute", "fabric", "server"]


class StepTimes:
    """Step times of one copy. Made once per deployment; each call is O(1).

    `step = max(read weights, compute) + read KV + all-reduce + server`, with N accelerators per copy:
    - read weights = bytes touched / (N · bandwidth · efficiency), a gain faster for a single token
    - compute      = (2 · body · tokens + 2 · head · scored tokens + attention) / (N · FLOP/s · efficiency), where the
                     output head scores each decoded token, of a prompt its last alone; body = active parameters - head
    - read KV      = context tokens · KV bytes per token and accelerator / (bandwidth · efficiency · KV share)
    - all-reduce   = layers · reduces · (latency · log2 N + 2 (N-1)/N · tokens · hidden · 2 bytes / fabric bandwidth)
    - server       = a + b · layers + x · layers of experts + y · layers of linear attention + c · log2 N
                     + d · sequences + e · log2 N · prompt tokens
    With speculative decoding a decode step stands for a token a sequence: what a round takes (proposals, then one step
    that checks all of them), divided by the tokens that a sequence gets from it.
    Source: the usual inference roofline (Pope et al. 2022, arXiv:2211.05102) with parameters from `data/*.csv`.
    """

    __slots__ = (
        "_allreduce_base_ms",
        "_allreduce_per_token_ms",
        "_attention_ms_per_pair",
        "_checked_tokens",
        "_compute_ms_per_token",
        "_draft",
        "_emitted_tokens",
        "_expert_choices",
        "_expert_read_ms",
        "_expert_skip",
        "_full_blocks",
        "_head_ms_per_token",
        "_kv_ms_per_token",
        "_server_base_ms",
        "_server_per_prompt_token_ms",
        "_server_per_sequence_ms",
        "_shared_read_ms",
        "_single_token_gain",
    )

    def __init__(self, deployment: PlannedDeployment) -> None:
        shape, chip, server = deployment.architecture, deployment.accelerator, deployment.server
        n = 1 if server.layers_in_turn else deployment.accelerators  # how many work at the same time
        bytes_per_ms = chip.bandwidth_gb_per_s * 1e6 * server.bandwidth_efficiency
        compute = chip.bf16_tflops
        if deployment.quantization == "fp8" and chip.fp8_tflops:
            compute = chip.fp8_tflops
        flops_per_ms = compute * 1e9 * server.compute_efficiency

        expert_bytes, shared_bytes = _touched_bytes(deployment)
        self._shared_read_ms = shared_bytes / (n * bytes_per_ms)
        self._expert_read_ms = expert_bytes / (n * bytes_per_ms)
        picked = bool(shape.experts) and not server.all_experts
        self._expert_skip = 1 - shape.experts_per_token / shape.experts if picked else 0.0
        self._single_token_gain = server.single_token_gain
        active = shape.active_parameters_b * 1e9
        head = min(active, head_parameters(shape))
        self._compute_ms_per_token = 2 * (active - head) / (n * flops_per_ms)
        self._head_ms_per_token = 2 * head / (n * flops_per_ms)
        # Scores and weighted values: 2 · 2 FLOPs per head dimension, per layer, per pair of tokens.
        self._attention_ms_per_pair = 4 * shape.layers * shape.heads * shape.head_dim / (n * flops_per_ms)
        kv_bytes = kv_bytes_per_token if server.layers_in_turn else kv_bytes_per_token_per_accelerator
        self._kv_ms_per_token = kv_bytes(deployment) / (bytes_per_ms * server.kv_read_share)
        # Without split KV, one thread block reads one sequence's one key-value head: few leave multiprocessors idle.
        heads_here = max(1.0, shape.kv_heads / n)
        self._full_blocks = 0.0 if server.split_kv else (chip.multiprocessors or 0) / heads_here

        fabric = deployment.fabric
        doublings = log2(n)
        reduces = shape.layers * shape.allreduces_per_layer
        self._allreduce_base_ms = reduces * fabric.latency_us * 1e-3 * doublings
        self._allreduce_per_token_ms = reduces * 2 * (n - 1) / n * shape.hidden * 2 / (fabric.effective_gb_per_s * 1e6)
        layers_ms = server.step_ms_per_layer * shape.layers
        layers_ms += server.step_ms_per_expert_layer * (shape.layers if shape.experts else 0)
        layers_ms += server.step_ms_per_linear_layer * shape.linear_layers
        self._server_base_ms = server.step_ms + layers_ms + server.step_ms_per_doubling * doublings
        self._server_per_sequence_ms = server.step_ms_per_sequence
        self._server_per_prompt_token_ms = server.prefill_us_per_token_per_doubling * 1e-3 * doublings

        speculation = deployment.speculation
        self._checked_tokens = speculation.checked_tokens if speculation else 1  # of a sequence, in one step
        self._expert_choices = 1 + (self._checked_tokens - 1) * OWN_EXPERTS
        self._emitted_tokens = speculation.emitted_tokens if speculation else 1.0
        self._draft = DraftTimes(deployment, speculation, bytes_per_ms, flops_per_ms) if speculation else None

    def decode_ms(self, batch: float, context_tokens: float) -> float:
        """One decode step of `batch` sequences that attend to `context_tokens` tokens together."""
        return self.step_ms(decodes=batch, context_tokens=context_tokens)

    def prefill_ms(self, new_tokens: int, requests: int = 1, cached_tokens: int = 0) -> float:
        """One step that prefills `new_tokens` prompt tokens of `requests` equal requests, `cached_tokens` each done."""
        pairs = new_tokens * (cached_tokens + new_tokens / requests / 2)
        return self.step_ms(prefill_tokens=new_tokens, prefill_pairs=pairs, prefill_requests=requests)

    def step_ms(
        self,
        *,
        decodes: float = 0,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float:
        """One step of any mix, in ms. `prefill_pairs` counts (new token, attended token) pairs of the prompts."""
        if self._draft is None or not decodes:
            return self._whole_ms(decodes, context_tokens, prefill_tokens, prefill_pairs, prefill_requests)
        alone_ms = self._whole_ms(decodes, context_tokens)
        round_ms = alone_ms + sum(self._draft.shares(decodes).values())
        if not prefill_tokens:
            return round_ms / self._emitted_tokens
        mixed_ms = self._whole_ms(decodes, context_tokens, prefill_tokens, prefill_pairs, prefill_requests)
        return round_ms / self._emitted_tokens + mixed_ms - alone_ms

    def decode_shares(self, batch: float, context_tokens: float) -> dict[Resource, float]:
        """What one decode step spends its time on, in ms by resource; the parts sum to `decode_ms`."""
        parts = self.plain_shares(batch, context_tokens, self._checked_tokens)
        if self._draft is None:
            return parts
        drafted = self._draft.shares(batch)
        return {name: (value + drafted[name]) / self._emitted_tokens for name, value in parts.items()}

    def plain_shares(
        self, batch: float, context_tokens: float, tokens_each: int = 1, scored: float | None = None
    ) -> dict[Resource, float]:
        """The same of a step that computes `tokens_each` tokens of `batch` sequences, proposes none, and scores so many
        of them (all, unless said)."""
        tokens = batch * tokens_each
        choices = batch * (self._expert_choices if tokens_each > 1 else 1)
        read = self._read_ms(tokens, choices)
        compute = tokens * self._compute_ms_per_token + (tokens if scored is None else scored) * self._head_ms_per_token
        return {
            "bandwidth": (read if read >= compute else 0.0) + self._kv_ms(batch, context_tokens),
            "compute": compute if compute > read else 0.0,
            "fabric": self._allreduce_base_ms + tokens * self._allreduce_per_token_ms,
            "server": self._server_base_ms + batch * self._server_per_sequence_ms,
        }

    def _whole_ms(
        self,
        decodes: float,
        context_tokens: float,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float:
        """One step of the model over all tokens that it computes; what is proposed is already there."""
        checked = decodes * self._checked_tokens
        tokens = checked + prefill_tokens
        read = self._read_ms(tokens, decodes * self._expert_choices + prefill_tokens)
        compute = tokens * self._compute_ms_per_token + (checked + prefill_requests) * self._head_ms_per_token
        compute += prefill_pairs * self._attention_ms_per_pair
        kv = self._kv_ms(decodes, context_tokens) if decodes else 0.0
        allreduce = self._allreduce_base_ms + tokens * self._allreduce_per_token_ms
        server = self._server_base_ms + (decodes + prefill_requests) * self._server_per_sequence_ms
        server += prefill_tokens * self._server_per_prompt_token_ms
        return max(read, compute) + kv + allreduce + server

    def _read_ms(self, tokens: float, choices: float) -> float:
        """Weights one step reads. Experts are picked evenly: one stays idle with probability (1 - k/E)^choices."""
        read = self._shared_read_ms
        if self._expert_read_ms:
            read += self._expert_read_ms * (1.0 - float(self._expert_skip**choices))
        return read / self._single_token_gain if tokens <= 1 else read

    def _kv_ms(self, decodes: float, context_tokens: float) -> float:
        return context_tokens * self._kv_ms_per_token * max(1.0, self._full_blocks / decodes)


class DraftTimes:
    """What proposing costs a round: its passes one after another, each `max(read, compute) + all-reduce + server`.

    The draft's own KV cache, a small share of the model's, is left out, and so is its prompt.
    """

    __slots__ = (
        "_compute_ms_per_token",
        "_passes",
        "_read_ms",
        "_reduce_base_ms",
        "_reduce_per_token_ms",
        "_server_ms",
    )

    def __init__(
        self, deployment: PlannedDeployment, speculation: Speculation, bytes_per_ms: float, flops_per_ms: float
    ) -> None:
        fabric, hidden = deployment.fabric, deployment.architecture.hidden
        n = min(speculation.draft_accelerators or deployment.accelerators, deployment.accelerators)
        reduces = 2 * speculation.draft_layers if n > 1 else 0
        self._passes = speculation.passes
        self._server_ms = speculation.pass_ms
        self._read_ms = speculation.draft_bytes / (n * bytes_per_ms)
        self._compute_ms_per_token = 2 * speculation.draft_parameters_b * 1e9 / (n * flops_per_ms)
        self._reduce_base_ms = reduces * fabric.latency_us * 1e-3 * log2(n)
        self._reduce_per_token_ms = reduces * 2 * (n - 1) / n * hidden * 2 / (fabric.effective_gb_per_s * 1e6)

    def shares(self, batch: float) -> dict[Resource, float]:
        """ms of a round by resource, for `batch` sequences."""
        compute = batch * self._compute_ms_per_token
        return {
            "bandwidth": self._passes * self._read_ms if self._read_ms >= compute else 0.0,
            "compute": self._passes * compute if compute > self._read_ms else 0.0,
            "fabric": self._passes * (self._reduce_base_ms + batch * self._reduce_per_token_ms),
            "server": self._passes * self._server_ms,
        }


def _touched_bytes(deployment: PlannedDeployment) -> tuple[float, float]:
    """(bytes in experts, bytes every token reads): what a format keeps in 16 bits is read so, but for embeddings, which
    are looked up."""
    shape = deployment.architecture
    experts, shared = _experts(deployment)
    wide = max(0.0, wide_parameters(shape, deployment.quantization) - looked_up_parameters(shape))
    wide = min(shared, wide)
    packed_bytes = deployment.weight_bytes_per_parameter
    return experts * packed_bytes, (shared - wide) * packed_bytes + wide * WIDE_BYTES


def _experts(deployment: PlannedDeployment) -> tuple[float, float]:
    """(parameters in experts, parameters every token reads). Dense models have no experts.

    total = shared + E · e and active = shared + k · e give e = (total - active) / (E - k).
    """
    shape = deployment.architecture
    active = shape.active_parameters_b * 1e9
    if not shape.experts or shape.experts <= shape.experts_per_token:
        return 0.0, active
    each = (shape.parameters_b * 1e9 - active) / (shape.experts - shape.experts_per_token)
    return shape.experts * each, max(0.0, active - shape.experts_per_token * each)
