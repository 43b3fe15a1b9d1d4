"""Lambda on SQS: the poller of event source mappings and the processes that run the real function code."""

from loadproof.localcloud.queue.poller import QueuePoller

__all__ = ["QueuePoller"]
