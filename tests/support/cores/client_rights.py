"""ACL profiles, and a roster that records what it reports."""

from sluicegate.messaging.clients.acl_profile import AclProfile, AddressRules, TopicRules, parse_exception
from sluicegate.messaging.clients.limits import ClientProfile
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.clients.roster import ClientRoster, ClientUsername


def rules(*exceptions: str, allows: bool = False) -> TopicRules:
    return TopicRules([parse_exception(each, "smf") for each in exceptions], allows_by_default=allows)


def acl(**kinds: TopicRules) -> AclProfile:
    """An ACL profile named `tight` that restricts the kinds named, and nothing else."""
    free = rules(allows=True)
    return AclProfile(
        "tight",
        connect=AddressRules([], allows_by_default=True),
        publish=kinds.get("publish", free),
        subscribe=kinds.get("subscribe", free),
        share_names=kinds.get("share_names", free),
    )


class Told:
    """A roster with one user, `ada`, and a record of its reports."""

    def __init__(self, profile: ClientProfile | None = None, its_acl: AclProfile | None = None) -> None:
        self.roster = ClientRoster()
        self.roster.configure(
            [ClientUsername("ada", client_profile="p", acl_profile="tight")],
            [profile or ClientProfile(name="p")],
            [its_acl or acl()],
        )
        self.told: list[tuple[str, str, str]] = []
        self.roster.denials.listener = lambda reason, client, text: self.told.append((reason, client, text))

    def admit(self, client: str = "c", user: str = "ada", *, takes_over: bool = False) -> ClientRights:
        return self.roster.admit(user, client, "10.0.0.1", 0, takes_over=takes_over)
