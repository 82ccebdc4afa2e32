"""Who may connect, as the configuration says: one authenticator for all protocols."""

from random import Random

from gateway.config import Config
from protocols import scram
from protocols.authentication import Authenticator


def make_authenticator(config: Config, rng: Random) -> Authenticator:
    """Return the authenticator of a configuration."""
    secrets = {user.name: user.secret() for user in config.authentication.users}
    anonymous = [
        name
        for name, listener in config.listeners.enabled().items()
        if config.authentication.anonymous_allowed_on(listener.host)
    ]
    return Authenticator(
        secrets=secrets,
        anonymous_listeners=frozenset(anonymous),
        mechanisms={scram.NAME: scram.ScramSha256(secrets, rng.randbytes)},
        scram_matches=scram.password_matches,
    )
