"""Speed, measured side by side in one run on one machine: ``python -m benchmarks``."""
