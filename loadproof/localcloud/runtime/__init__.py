"""The SageMaker runtime of the local cloud. `Runtime(directory, ...).setup(app)` puts it on an aiohttp application.

Faithful: paths, headers, modelled errors with their texts, event-stream frames cut anywhere, the 6 MB body, 60 s and
8 min limits, in-stream exceptions, routing by least outstanding requests or at random, shares of a deployment and of
variants, CloudWatch's invocation metrics, asynchronous inference, data capture of whole answers.
Not here: signatures and bearer tokens are the gate's (`localcloud/seal`), nothing throttles, sessions are ignored,
prefix-aware routing falls back to least outstanding, streams and asynchronous answers are not captured.
"""

from loadproof.localcloud.runtime.answer import Limits
from loadproof.localcloud.runtime.service import Runtime

__all__ = ["Limits", "Runtime"]
