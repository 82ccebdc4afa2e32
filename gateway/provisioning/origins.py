"""Where an object comes from that both a configuration and operators can make."""

from typing import Final

CONFIGURATION: Final = "configuration"
OPERATOR: Final = "operator"  # made while the node ran
