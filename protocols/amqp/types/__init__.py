"""AMQP's type system (part 1 of the specification): values, and how they are encoded and decoded."""
