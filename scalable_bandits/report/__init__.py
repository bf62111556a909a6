"""Reports: one HTML page, complete in itself, for a study or a run."""

from scalable_bandits.report.writing import page, write_report

__all__ = ["page", "write_report"]
