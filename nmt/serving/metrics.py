"""Provides the server's metrics for Prometheus."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from nmt.serving.batcher import Batcher

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server, in a separate Prometheus registry."""

    def __init__(self, batcher: Batcher):
        self._batcher = batcher
        self.cut_off = 0  # requests that were not answered before the server stopped
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "nmt_requests", "Requests answered", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "nmt_request_seconds", "Seconds from a request's headers to its response",
            ["path"], buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip

    def count(self, path: str, status: int, seconds: float) -> None:
        """Records the status and the duration of a request.

        `path` must be the path of a route or "other", so that there are few distinct label values.
        """
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yields the current values of the batcher's metrics."""
        batcher = self._batcher
        yield GaugeMetricFamily(
            "nmt_ready", "1 if requests are accepted, else 0", value=float(batcher.is_ready)
        )
        yield GaugeMetricFamily(
            "nmt_waiting_requests", "Requests in the queue", value=batcher.waiting
        )
        for name, meaning, value in (
            ("nmt_texts", "Sentences translated", batcher.translated),
            ("nmt_batches", "Batches translated", batcher.batches),
            ("nmt_model_seconds", "Computing time of the model in seconds", batcher.seconds),
        ):
            yield CounterMetricFamily(name, meaning, value=value)

    def text(self) -> bytes:
        """Returns all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
