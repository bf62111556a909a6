"""The default tuner and other packages' tuners on published problems: ``python -m benchmarks tuners``."""
