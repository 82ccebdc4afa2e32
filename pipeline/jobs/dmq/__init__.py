"""The job `dmq`: what lies in a dead message queue and why, and what to do about it."""
