"""The consumer. Until it is written every message stays in the queue."""


def handler(event: object, context: object) -> dict[str, object]:
    raise NotImplementedError
