"""What one client may ask for, and how long it may take."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on requests; all of them are inclusive.

    A request beyond a bound on its own is refused for good (400 or 413); one that finds the queue
    full may come again (429).
    """

    queue: int = 256  # requests that wait for the model
    body_bytes: int = 1_000_000
    texts: int = 256  # in a request
    characters: int = 20_000  # of all texts of a request, of a prefix or a target
    beam: int = 16
    n_best: int = 16
    next_tokens: int = 100
    alternatives: int = 20  # each of them is searched for
    arrival_s: float = 10.0  # from a request's first byte to its last
    answer_s: float = 60.0  # from its last byte to its answer
    shutdown_s: float = 30.0  # for the requests in hand, once the server is told to stop
    connections: int = 4000  # open at once
