"""What becomes of activemq.xml: every element and attribute is in the report, and what is written is valid."""

from pathlib import Path

import pytest

from sluicegate.gateway.importing.activemq import import_activemq
from sluicegate.gateway.importing.activemq.policies import matches
from sluicegate.gateway.importing.activemq.values import topic_filters
from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.report import ImportFailed, Part
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.messaging.topics.syntax import matches as topic_matches
from support.importing.sources import loaded, notes

HEAD = (
    '<beans xmlns="http://www.springframework.org/schema/beans"><broker xmlns="http://activemq.apache.org/schema/core"'
)


def imported(folder: Path, inside: str, *, broker: str = "", beside: str = "") -> Imported:
    text = f"{HEAD} {broker}>\n{inside}\n</broker>{beside}</beans>"
    return import_activemq("amq.xml", text, node="here", folder=str(folder))


def policy(attributes: str, children: str = "") -> str:
    entry = f"<policyEntry {attributes}>{children}</policyEntry>"
    return f"<destinationPolicy><policyMap><policyEntries>{entry}</policyEntries></policyMap></destinationPolicy>"


def declared(*names: str) -> str:
    return "<destinations>" + "".join(f'<queue physicalName="{name}"/>' for name in names) + "</destinations>"


WHOLE = """
<transportConnectors>
  <transportConnector name="a" uri="amqp://0.0.0.0:5672?maximumConnections=1000&amp;wireFormat.maxFrameSize=104857600"/>
  <transportConnector name="m" uri="mqtt+nio://localhost:1884?odd=1" updateClusterClients="true"/>
  <transportConnector name="s" uri="amqp+ssl://0.0.0.0:5671"/>
  <transportConnector name="o" uri="tcp://0.0.0.0:61616"/>
  <transportConnector name="second" uri="amqp+nio://0.0.0.0:5999"/>
  <transportConnector name="later" uri="mqtt://${host}:1"/>
</transportConnectors>
<plugins>
  <simpleAuthenticationPlugin anonymousAccessAllowed="true" anonymousGroup="guests"><users>
    <authenticationUser username="ann" password="secret" groups="users,admins"/>
    <authenticationUser username="bob" password="${bob}" groups="users"/>
  </users></simpleAuthenticationPlugin>
  <authorizationPlugin><map><authorizationMap><authorizationEntries>
    <authorizationEntry queue="&gt;" read="admins" write="admins" admin="admins"/>
    <authorizationEntry queue="APP.&gt;" read="users" write="users,guests" admin="users"/>
    <authorizationEntry topic="NEWS.*.EU" read="guests,users" write="users"/>
  </authorizationEntries><tempDestinationAuthorizationEntry>
    <tempDestinationAuthorizationEntry read="a" write="a" admin="a"/>
  </tempDestinationAuthorizationEntry></authorizationMap></map></authorizationPlugin>
  <timeStampingBrokerPlugin ttlCeiling="86400000" futureOnly="true"/>
  <redeliveryPlugin fallbackToDeadLetter="true"><redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>
    <redeliveryPolicy maximumRedeliveries="4" initialRedeliveryDelay="5000" useExponentialBackOff="true"
      backOffMultiplier="2"/></defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>
  <oddPlugin level="9"/>
</plugins>
<networkConnectors><networkConnector name="hub" uri="static:(tcp://hub:61616)" duplex="true" userName="u" password="p">
  <staticallyIncludedDestinations><queue physicalName="APP.IN"/><topic physicalName="T"/>
  </staticallyIncludedDestinations>
</networkConnector><networkConnector uri="multicast://default"/></networkConnectors>
<systemUsage><systemUsage sendFailIfNoSpace="true"><memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
  <storeUsage><storeUsage limit="20 gb"/></storeUsage></systemUsage></systemUsage>
<persistenceAdapter><kahaDB directory="x"/></persistenceAdapter><sslContext><sslContext keyStore="k"/></sslContext>
<odd><deeper value="7"/></odd>
"""


def test_every_attribute_is_in_the_report(tmp_path: Path) -> None:
    made = imported(tmp_path, WHOLE, broker='brokerName="b" strange="1"', beside='<import resource="jetty.xml"/>')
    loaded(made, tmp_path)
    said = "\n".join(f"{note.setting.place} {note.text}" for note in made.report.notes)
    words = (
        'strange="1"', "oddPlugin", 'level="9"', 'value="7"', "updateClusterClients", "duplex", "multicast", "odd: ",
        "percentOfJvmHeap", "sendFailIfNoSpace", "fallbackToDeadLetter", "futureOnly", "jetty.xml",
        "sslContext", "kahaDB", "tempDestinationAuthorizationEntry", "maxFrameSize", "${host}",
    )  # fmt: skip
    assert [word for word in words if word not in said] == []


def test_connectors_become_listeners(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, WHOLE), tmp_path)
    assert (config.listeners.amqp.host, config.listeners.amqp.port) == ("0.0.0.0", 5672)
    assert config.listeners.amqp.max_connections == 1000
    assert (config.listeners.mqtt.host, config.listeners.mqtt.port) == ("127.0.0.1", 1884)
    assert not config.listeners.amqp_tls.enabled  # its certificate is in a key store
    assert config.spool.usage_bytes_max == 20 << 30


def test_rights_of_entries_add_up(tmp_path: Path) -> None:
    made = imported(tmp_path, WHOLE.replace("oddPlugin", "loggingBrokerPlugin") + declared("APP.X", "OTHER"))
    config = loaded(made, tmp_path)
    users = {each.name: each for each in config.authentication.users}
    profiles = {each.name: each.profile() for each in config.authentication.acl_profiles}
    assert config.authentication.allow_anonymous is True
    topics = ("$queue/OTHER", "$queue/APP.X", "NEWS/x/EU", "NEWS.x.EU")
    may = {
        name: [each for each in topics if profiles[name].publish.allows_topic(each)]
        for name in ("ann", "bob", "default")
    }
    assert may == {
        "ann": ["$queue/OTHER", "$queue/APP.X", "NEWS/x/EU"],
        "bob": ["$queue/APP.X", "NEWS/x/EU"],
        "default": ["$queue/APP.X"],
    }
    assert profiles["default"].subscribe.allows_topic("NEWS/x/EU")
    queues = {each.config.name: each.config for each in config.queues.declared}
    assert (queues["OTHER"].permission, queues["OTHER"].owner) == ("no-access", "ann")
    assert (queues["APP.X"].permission, queues["APP.X"].owner) == ("no-access", "")
    assert users["ann"].is_hashed()
    assert "nobody can log in" in notes(made, Part.NOT_TAKEN)['<authenticationUser username="bob"> password="..."']


SIMPLE = """<simpleAuthenticationPlugin anonymousAccessAllowed="{anonymous}"><users>
  <authenticationUser username="ann" password="secret" groups="users"/>
  </users></simpleAuthenticationPlugin>"""
MAP = "<authorizationPlugin><map>{}</map></authorizationPlugin>"
ENTRIES = MAP.format(
    "<authorizationMap><authorizationEntries>{}</authorizationEntries></authorizationMap>",
)


@pytest.mark.parametrize(
    "rights",
    [
        MAP.format('<cachedLDAPAuthorizationMap connectionURL="ldap://x"/>'),
        ENTRIES.format(""),
        "<authorizationPlugin/>",
        ENTRIES.format('<authorizationEntry topic="&gt;" read="users" write="users"/>') * 2,
        '<bean xmlns="http://www.springframework.org/schema/beans" class="org.example.Auth"/>',
        "<shiroPlugin/>",
    ],
)
def test_rights_that_are_not_known_are_given_to_nobody(rights: str, tmp_path: Path) -> None:
    made = imported(tmp_path, f"<plugins>{SIMPLE.format(anonymous='false')}{rights}</plugins>{declared('Q')}")
    config = loaded(made, tmp_path)
    profiles = {each.name: each.profile() for each in config.authentication.acl_profiles}
    assert {"default", config.authentication.users[0].acl_profile} == {*profiles}
    for profile in profiles.values():
        assert not any(rules.allows_topic("a") for rules in (profile.publish, profile.subscribe))
    assert {(each.config.permission, each.config.owner) for each in config.queues.declared} == {("no-access", "")}
    assert any("nobody may publish" in text for text in notes(made, Part.NOT_TAKEN).values())


@pytest.mark.parametrize(
    ("plugins", "anonymous"),
    [
        (f"<plugins><loggingBrokerPlugin/>{SIMPLE.format(anonymous='true')}</plugins>", True),
        (f"<plugins><simpleAuthenticationPlugin/>{SIMPLE.format(anonymous='true')}</plugins>", False),
        ('<plugins><bean class="org.example.Auth"/></plugins>', False),
        (f'<plugins>{SIMPLE.format(anonymous="true")}<ref bean="auth"/></plugins>', False),
    ],
)
def test_an_unknown_plugin_admits_nobody_without_an_account(plugins: str, anonymous: bool, tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, plugins), tmp_path)
    assert config.authentication.allow_anonymous is anonymous


def test_plugins_that_the_broker_names_elsewhere_are_unknown_ones(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, "", broker='plugins="#auth"'), tmp_path)
    assert config.authentication.allow_anonymous is False


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        """<plugins><bean class="org.example.Auth"><property name="dbPassword" value="hidden1"/><map>
        <entry key="clientSecret" value="hidden2"/></map></bean>
        <authorizationPlugin><map><cachedLDAPAuthorizationMap connectionPassword="hidden3" connectionURL="ldap://x"/>
        </map></authorizationPlugin></plugins>
        <transportConnectors><transportConnector uri="mqtt+ssl://0.0.0.0:1?transport.keyStorePassword=hidden4&amp;a=b"/>
        </transportConnectors><networkConnectors>
        <networkConnector uri="static:(tcp://me:hidden5@hub:61616)" userName="u" password="hidden6"/>
        </networkConnectors>""",
    )
    said = "\n".join([*made.report.lines(), str(made.report.to_dict())])
    assert "hidden" not in said
    assert [word for word in ("connectionPassword", "keyStorePassword", "a=b", "hub") if word not in said] == []


@pytest.mark.parametrize("option", ["needClientAuth=true", "transport.needClientAuth=TRUE", "needClientAuth=yes"])
def test_a_connector_for_clients_with_certificates_is_closed(option: str, tmp_path: Path) -> None:
    connector = f'<transportConnector name="s" uri="mqtt://0.0.0.0:1883?maximumConnections=²&amp;{option}"/>'
    made = imported(tmp_path, connector)
    assert made.configuration["listeners"]["mqtt"]["enabled"] is False
    assert "maximumConnections" in "".join(notes(made, Part.NOT_TAKEN).values())


def test_the_queues_of_unknown_users_are_closed(tmp_path: Path) -> None:
    entry = '<authorizationEntry queue="&gt;" read="admins" write="admins"/>'
    made = imported(tmp_path, f"<plugins><jaasAuthenticationPlugin/>{ENTRIES.format(entry)}</plugins>{declared('Q')}")
    (queue,) = (each.config for each in loaded(made, tmp_path).queues.declared if each.config.name == "Q")
    assert (queue.permission, queue.owner) == ("no-access", "")
    said = notes(made, Part.NOT_TAKEN)['<authorizationEntry queue=">"> read="admins"']
    assert "names no user" in said


def test_an_owner_may_do_more_than_a_reader_and_the_report_says_so(tmp_path: Path) -> None:
    entry = '<authorizationEntry queue="Q" read="users"/>'
    plugin = SIMPLE.format(anonymous="false").replace(
        "</users>", '<authenticationUser username="bob" password="x" groups="b"/></users>'
    )
    made = imported(tmp_path, f"<plugins>{plugin}{ENTRIES.format(entry)}</plugins>{declared('Q')}")
    (queue,) = (each.config for each in loaded(made, tmp_path).queues.declared if each.config.name == "Q")
    assert queue.owner == "ann"
    assert "delete the queue" in notes(made, Part.DIFFERS)['<authorizationEntry queue="Q"> read="users"']


@pytest.mark.parametrize("name", ["FOO*", "A.FOO*", "A>", "A.>.B", "$client-username.A", "A/*", "*A.>"])
def test_names_that_would_mean_more_here_have_no_filter(name: str, tmp_path: Path) -> None:
    entry = f'<authorizationEntry topic="{name.replace(">", "&gt;")}" read="users" write="users"/>'
    made = imported(tmp_path, f"<plugins>{SIMPLE.format(anonymous='false')}{ENTRIES.format(entry)}</plugins>")
    for profile in loaded(made, tmp_path).authentication.acl_profiles:
        assert (profile.publish_topic_exceptions, profile.subscribe_topic_exceptions) == ((), ())
    assert any("no filter here" in text for text in notes(made, Part.NOT_TAKEN).values())


@pytest.mark.parametrize(
    ("attributes", "children", "expected"),
    [
        ('queue="&gt;"', "", {"dead_msg_queue": "ActiveMQ.DLQ", "max_redelivery_count": 6}),
        ('queue="A.*" prioritizedMessages="true"', "", {"respect_msg_priority_enabled": True}),
        ('queue="&gt;" allConsumersExclusiveByDefault="true"', "", {"access_type": "exclusive"}),
        ('queue="A.&gt;" queuePrefetch="50"', "", {"max_delivered_unacked_msgs_per_flow": 50}),
        ('queue="&gt;" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="60000"', "", {"expires_unbound_s": 60}),
        ('queue="&gt;"', '<individualDeadLetterStrategy queuePrefix="DLQ."/>', {"dead_msg_queue": "DLQ.A.B"}),
        ('queue="&gt;"', '<discarding processExpired="true"/>', {"dead_msg_queue": ""}),
        (
            'queue="&gt;"',
            '<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName="DEAD"/></deadLetterQueue>'
            "</sharedDeadLetterStrategy>",
            {"dead_msg_queue": "DEAD"},
        ),
        ('queue="OTHER" prioritizedMessages="true"', "", {"respect_msg_priority_enabled": False}),
    ],
)  # fmt: skip
def test_policies_become_attributes(
    attributes: str, children: str, expected: dict[str, object], tmp_path: Path
) -> None:
    strategy = f"<deadLetterStrategy>{children}</deadLetterStrategy>" if children else ""
    config = loaded(imported(tmp_path, policy(attributes, strategy) + declared("A.B")), tmp_path)
    queues = {each.config.name: each.config for each in config.queues.declared}
    assert expected.items() <= queues["A.B"].to_dict().items()
    dead = queues["A.B"].dead_msg_queue
    assert not dead or dead in queues


def test_redelivery_and_time_to_live_are_of_all_queues(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, WHOLE + declared("Q")), tmp_path)
    queue = next(each.config for each in config.queues.declared if each.config.name == "Q")
    assert (queue.max_ttl, queue.max_redelivery_count) == (86_400, 4)
    assert (queue.redelivery_delay_initial_interval_ms, queue.redelivery_delay_multiplier) == (5000, 200)


def test_virtual_destinations_are_taken_with_their_options(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        """<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
        <virtualTopic name="VT.>" prefix="C.*." selectorAware="true" local="true"/>
        <compositeQueue name="IN" forwardOnly="false" copyMessage="false"><forwardTo><queue physicalName="OUT"/>
          <topic physicalName="AUDIT"/><filteredDestination selector="n &gt; 5" queue="BIG"/>
          <filteredDestination selector="n &gt;" queue="BAD"/></forwardTo></compositeQueue>
        <compositeTopic name="LOOP"><forwardTo><topic physicalName="LOOP"/></forwardTo></compositeTopic>
        </virtualDestinations></virtualDestinationInterceptor>
        <mirroredQueue prefix="M." copyMessage="true"/></destinationInterceptors>"""
        + declared("Q"),
    )
    virtual = loaded(made, tmp_path).virtual_destinations
    (topic,) = virtual.virtual_topics
    assert (topic.name, topic.prefix, topic.selector_aware, topic.local) == ("VT.>", "C.*.", True, True)
    composites = {each.name: each for each in virtual.composite_queues}
    targets = [(each.queue, each.topic, each.selector) for each in composites["IN"].forward_to]
    assert targets == [("OUT", None, None), (None, "AUDIT", None), ("BIG", None, "n > 5")]
    assert composites["IN"].forward_only is False
    assert composites["Q"].forward_to[0].topic == "M.Q"
    missing = notes(made, Part.NOT_TAKEN)
    assert "circle" in missing['<compositeTopic name="LOOP">']
    assert any("left out" in text for text in missing.values())


def test_network_connectors_become_bridges_that_are_off(tmp_path: Path) -> None:
    (bridge,) = loaded(imported(tmp_path, WHOLE), tmp_path).bridges
    assert (bridge.name, bridge.enabled, bridge.remote_url) == ("hub", False, "amqp://hub:5672")
    assert [(each.queue, each.remote_queue) for each in bridge.outgoing] == [("APP.IN", "APP.IN")]


@pytest.mark.parametrize("name", ["A.B", "A.>", ">", "A.B.>", "A"])
def test_filters_match_what_the_name_does_with_dots_and_with_slashes(name: str) -> None:
    for topic in ("A", "A.B", "A.B.C", "B", "A.C", "AB.C", "A.BC"):
        filters = [parse_filter(each, Syntax.SMF) for each in topic_filters(name)]
        for form in (topic, topic.replace(".", "/")):
            assert any(topic_matches(each, form) for each in filters) == matches(name, topic), (form, filters)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a>\n<b></a>", "amq.xml:2: this is not XML: mismatched tag"),
        ("<a/>", "amq.xml:1: it has 0 elements <broker>"),
        ('<!DOCTYPE a [\n<!ENTITY x "y">]><a/>', "amq.xml:2: the document declares entities"),
        ('<broker>\n<transportConnector uri="nothing"/></broker>', "amq.xml:2: uri 'nothing' is no address"),
        (
            '<broker>\n<policyEntry queue="Q" queuePrefetch="x"/></broker>',
            'amq.xml:2: <policyEntry queue="Q"> queuePrefetch="x" is not allowed; allowed: a whole number',
        ),
        (
            '<broker><redeliveryPlugin>\n<redeliveryPolicy redeliveryDelay="1" useExponentialBackOff="true" '
            'backOffMultiplier="inf"/></redeliveryPlugin></broker>',
            "amq.xml:2: backOffMultiplier is no number",
        ),
        (
            '<broker><systemUsage><systemUsage>\n<storeUsage limit="much"/></systemUsage></systemUsage></broker>',
            'amq.xml:2: <storeUsage> limit="much" is not allowed; allowed: a size',
        ),
    ],
)
def test_mistakes_have_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed) as failure:
        import_activemq("amq.xml", text, node="here", folder=str(tmp_path))
    assert str(failure.value).startswith(message)
