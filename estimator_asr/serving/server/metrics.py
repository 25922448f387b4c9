"""Server metrics in the Prometheus text format."""

from __future__ import annotations

import functools

import prometheus_client

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters, gauges and histograms for one server."""

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        counter, gauge, histogram = (
            functools.partial(kind, registry=self._registry)
            for kind in (prometheus_client.Counter, prometheus_client.Gauge, prometheus_client.Histogram)
        )
        self._requests = counter("asr_requests", "Requests by route and status.", ("route", "status"))
        self._seconds = histogram("asr_request_seconds", "Time per request.", ("route",), buckets=_SECONDS)
        self._batch_sizes = histogram("asr_batch_size", "Utterances in a batch.", buckets=_BATCH_SIZES)
        self._audio_seconds = counter("asr_audio_seconds", "Seconds of audio recognised.")
        self.utterances = counter("asr_utterances", "Utterances recognised, by status.", ("status",))
        self.queue_length = gauge("asr_queue_length", "Utterances waiting in the queue.")
        self.queue_seconds = gauge("asr_queue_audio_seconds", "Seconds of audio waiting in the queue.")
        self.version = gauge("asr_model_version", "Version of the export being served.")
        prometheus_client.ProcessCollector(registry=self._registry)
        prometheus_client.PlatformCollector(registry=self._registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_batch(self, size: int, audio_seconds: float) -> None:
        self._batch_sizes.observe(size)
        self._audio_seconds.inc(audio_seconds)

    def format(self) -> bytes:
        return prometheus_client.generate_latest(self._registry)
