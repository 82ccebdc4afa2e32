"""Whole brokers under load, side by side on one machine in one run: `python -m bench`.

What lives here drives a broker from outside, over sockets, and reads its processor time and memory from /proc. It
imports nothing of the broker's inside, so the same code measures any MQTT broker. Micro-benchmarks of single cores
live in `bench/cores/`. Linux only.
"""
