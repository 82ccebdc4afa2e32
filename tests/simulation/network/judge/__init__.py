"""What links add to the judges of the brokers: what crosses a link, what is stored behind it, and what all agree on.

That of one broker is `simulation/judge/truth.py`.
"""
