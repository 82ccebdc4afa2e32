"""Whole brokers under load, side by side on one machine in one run: `python -m bench`.

The package drives a broker from outside, over sockets, and reads its processor time and memory from /proc. It imports
nothing of the broker, so the same code measures any MQTT broker. Micro-benchmarks of single components are in
`bench/cores/`. Linux only.
"""
