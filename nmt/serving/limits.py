"""Defines the limits on requests and on the queue.

`requests.py` enforces the limits on requests, and `batcher.py` enforces the limit on the queue.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Inclusive limits on requests.

    A request that is too large is rejected with status 400 or 413. If the queue is full, the status
    is 429, and the client may repeat the request. The status is 408 if `arrival_s` is exceeded,
    and 503 if `answer_s` is exceeded.
    """

    queue: int = 256  # waiting requests
    body_bytes: int = 1_000_000
    texts: int = 256  # per request
    characters: int = 20_000  # total of all texts in a request
    beam: int = 16
    n_best: int = 16
    next_tokens: int = 100
    alternatives: int = 20  # per request; each alternative costs a search
    arrival_s: float = 10.0  # from a request's first byte to its last
    answer_s: float = 60.0  # from a request's last byte to its response
    shutdown_s: float = 30.0  # time to answer accepted requests before the server stops
    connections: int = 4000  # open at the same time
