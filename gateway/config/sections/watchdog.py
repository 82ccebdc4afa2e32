"""The section of the watchdog over the brokers of a machine. Numbers have their unit in the name."""

from typing import Self

from pydantic import Field, model_validator

from sluicegate.gateway.config.sections.section import Section


class Watchdog(Section):
    """What the supervisor of several brokers does about one that does not answer its heartbeats."""

    unresponsive_s: int = Field(
        default=5, ge=2, le=3600, description="seconds without an answer, after which operators do not wait for it"
    )
    kill_s: int = Field(
        default=30,
        ge=0,
        le=86_400,
        description="seconds without an answer, after which it is killed and started again; 0: never",
    )

    @model_validator(mode="after")
    def _check_relation(self) -> Self:
        if 0 < self.kill_s <= self.unresponsive_s:
            text = f"kill_s is {self.kill_s}; allowed: 0, or more than unresponsive_s, which is {self.unresponsive_s}"
            raise ValueError(text)
        return self
