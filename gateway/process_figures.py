"""What the operating system says of this process: memory and processor time, as `/metrics` has them by other names."""

from typing import Final

from prometheus_client.process_collector import ProcessCollector

from gateway.figures import ProcessFigures

_COLLECTOR: Final = ProcessCollector(registry=None)


def process_figures() -> ProcessFigures | None:
    """Return the figures of this process; None where there is no /proc to read them from."""
    found = {sample.name: sample.value for metric in _COLLECTOR.collect() for sample in metric.samples}
    if "process_resident_memory_bytes" not in found:
        return None
    return ProcessFigures(
        memory_bytes=int(found["process_resident_memory_bytes"]),
        cpu_ms_total=round(found["process_cpu_seconds_total"] * 1000),
    )
