"""Defines the limits on requests and on the length of the request queue.

`requests.py` enforces the limits on requests, and `batcher.py` enforces the limit on the queue. The
fields of requests have further limits.
"""

from dataclasses import dataclass

MAX_BEAM = 16  # also the maximum number of translations per text


@dataclass(frozen=True)
class Limits:
    """Inclusive limits on requests.

    A request that is too large is rejected with status 400 or 413. If the request queue is full, a
    request is rejected with status 429, and the client may send it again. A request that is still
    incomplete after `arrival_s` seconds is rejected with status 408. A request that is still
    unanswered after `answer_s` seconds is rejected with status 503.
    """

    queue: int = 256  # maximum number of waiting requests
    body_bytes: int = 1_000_000
    texts: int = 256  # per request
    characters: int = 20_000  # total of all texts in a request
    arrival_s: float = 10.0  # time from the first to the last byte of a request
    answer_s: float = 60.0  # time from the last byte of a request to its response
    shutdown_s: float = 30.0  # time to answer accepted requests before the server stops
    connections: int = 4000  # open at the same time
