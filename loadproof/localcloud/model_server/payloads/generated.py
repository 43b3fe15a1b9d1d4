"""What TGI's answers and LMI's TGI-like ones have in common: the request's fields, the token, the text, its details."""

from __future__ import annotations

from loadproof.localcloud.model_server import tokens
from loadproof.localcloud.model_server.payloads.ask import Ask, count_field, map_field, seed_of, text_field
from loadproof.wire.documents import Document


def read_inputs(fields: Document, default_tokens: int) -> tuple[Ask, Document]:
    """`inputs` and `parameters` as a request, and the parameters. Raises FieldError."""
    prompt = text_field(fields, "inputs")
    parameters = map_field(fields, "parameters")
    ask = Ask(
        input_tokens=tokens.count_tokens(prompt),
        output_tokens=count_field(parameters, "max_new_tokens", default_tokens),
        stream=fields.get("stream") is True,
        prompt=prompt,
        seed=seed_of(parameters, prompt),
    )
    return ask, parameters


class GeneratedText:
    """An answer with `generated_text` and, when asked for, `details`. What differs is each server's own."""

    def __init__(self, ask: Ask, *, details: bool, full_text: bool) -> None:
        self.ask = ask
        self._details = details
        self._full_text = full_text

    def opening(self) -> bytes:
        return b""

    def closing(self) -> bytes:
        return b""

    def event(self, index: int, shown_index: int, surplus_tokens: int = 0) -> Document:
        """One streamed token; the last one carries the text and its details."""
        last = index + 1 == self.ask.output_tokens
        return {
            "index": shown_index,
            "token": self.token_document(index),
            "generated_text": self._text() if last else None,
            "details": self._stream_details(surplus_tokens) if last and self._details else None,
        }

    def whole(self, finish_reason: str | None) -> Document:
        """The unary answer."""
        answer: Document = {"generated_text": self._text()}
        if self._details:
            answer["details"] = {
                "finish_reason": finish_reason,
                "generated_tokens": self.ask.output_tokens,
                "seed": None,
                "prefill": [],
                "tokens": [self.token_document(index) for index in range(self.ask.output_tokens)],
            }
        return answer

    def token_document(self, index: int) -> Document:
        seed = self.ask.seed
        return {"id": tokens.token_id(seed, index), "text": tokens.token_text(seed, index), "logprob": -0.5}

    def _text(self) -> str:
        answer = tokens.answer_text(self.ask.seed, self.ask.output_tokens)
        return f"{self.ask.prompt}{answer}" if self._full_text else answer

    def _stream_details(self, surplus_tokens: int) -> Document:
        return {
            "finish_reason": "length",
            "generated_tokens": self.ask.output_tokens + surplus_tokens,
            "seed": None,
            "input_length": self.ask.input_tokens,
        }
