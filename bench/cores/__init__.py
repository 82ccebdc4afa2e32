"""Micro-benchmarks, one file per core and named after it. They measure and report; they assert no times."""
