"""What a server counts, for Prometheus: requests, latencies, confidence, abstentions, OOD rows and the drift alarm."""

from __future__ import annotations

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from protoattend.app.server.listing import FAR
from protoattend.monitoring.drift import DriftMonitor
from protoattend.monitoring.usage import PrototypeUsage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
AT_ONCE = 100  # rows that the drift monitor takes in together
WATCHED = 50_000  # rows after which it begins again, as its memory grows with what it has seen


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "protoattend_requests", "Requests by route and status.", ["method", "route", "status"], registry=registry
        )
        self._latency = Histogram(
            "protoattend_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=registry
        )
        self._rows = Counter("protoattend_rows", "Rows decided by inference requests.", registry=registry)
        self._abstained = Counter("protoattend_abstentions", "Rows below the least confidence.", registry=registry)
        self._far = Counter("protoattend_ood_rows", "Rows out-of-distribution, p <= 0.01.", registry=registry)
        self._confidence = Histogram(
            "protoattend_confidence", "Confidence of decisions.", buckets=SHARES, registry=registry
        )
        self.waiting = Gauge("protoattend_rows_waiting", "Rows that wait to be decided.", registry=registry)
        self._alarm = Gauge("protoattend_drift_alarm", "1 once drift was detected.", registry=registry)
        self._evidence = Gauge("protoattend_drift_evidence", "log10 of the evidence of drift.", registry=registry)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def decided(self, confidence: np.ndarray, far: np.ndarray, least: float) -> None:
        """Count decided rows."""
        self._rows.inc(len(confidence))
        self._abstained.inc(int((confidence < least).sum()))
        self._far.inc(int((far <= FAR).sum()))
        for share in confidence.tolist():
            self._confidence.observe(share)

    def drift(self, alarm: bool, evidence: float) -> None:
        self._alarm.set(int(alarm))
        self._evidence.set(evidence)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Watch:
    """A drift monitor that is fed some rows at a time, and whose memory is bounded; its alarm stays on."""

    def __init__(self, reference: PrototypeUsage, metrics: Metrics) -> None:
        self._reference, self._metrics = reference, metrics
        self._monitor = DriftMonitor(reference)
        self._gathered: PrototypeUsage | None = None
        self.alarm = False

    def see(self, usage: PrototypeUsage) -> None:
        """Take in decisions."""
        gathered = usage if self._gathered is None else self._gathered.followed_by(usage)
        self._gathered = gathered
        if len(gathered) < AT_ONCE:
            return
        report = self._monitor.update(gathered)
        self._gathered, self.alarm = None, self.alarm or report.alarm
        self._metrics.drift(self.alarm, report.evidence)
        if self._monitor.n_seen >= WATCHED:
            self._monitor = DriftMonitor(self._reference)
