"""What the server counts, as Prometheus reads it."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from nmt.serving.batcher import Batcher

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The figures of one server; several may live in one process."""

    def __init__(self, batcher: Batcher):
        self._batcher = batcher
        self.cut_off = 0  # requests that were not finished before the server's end
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "nmt_requests", "Requests answered", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "nmt_request_seconds", "From a request's head to its answer",
            ["path"], buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip

    def count(self, path: str, status: int, seconds: float) -> None:
        """Counts a request; `path` is that of a route, so that there are few of them."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What the batcher knows at this moment."""
        batcher = self._batcher
        yield GaugeMetricFamily(
            "nmt_ready", "1 when the model is loaded", value=float(batcher.is_ready)
        )
        yield GaugeMetricFamily(
            "nmt_waiting_requests", "Requests in the queue", value=batcher.waiting
        )
        for name, meaning, value in (
            ("nmt_texts", "Sentences translated", batcher.translated),
            ("nmt_batches", "Batches translated", batcher.batches),
            ("nmt_model_seconds", "Seconds that the model has worked", batcher.seconds),
        ):
            yield CounterMetricFamily(name, meaning, value=value)

    def text(self) -> bytes:
        """All figures in Prometheus's text format."""
        return generate_latest(self._registry)
