"""Reports: a study or a run as one self-contained HTML page."""

from scalable_bandits.report.writing import page, write_report

__all__ = ["page", "write_report"]
