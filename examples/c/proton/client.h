/* What the programs share: a connection that ends the program when something goes wrong, and messages of text. */
#ifndef CLIENT_H
#define CLIENT_H

#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/proactor.h>
#include <proton/session.h>
#include <proton/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a program does when its connection is open, and at each event of its links. */
void opened(pn_session_t *session);
void handle(pn_event_t *event);

static inline void report(const char *what, pn_condition_t *why) {
    int is_known = why != NULL && pn_condition_is_set(why);
    const char *text = is_known ? pn_condition_get_description(why) : NULL;
    fprintf(stderr, "%s: %s%s%s\n", what, is_known ? pn_condition_get_name(why) : "no reason given",
            text != NULL ? ": " : "", text != NULL ? text : "");
}

static inline void fail(const char *what, pn_condition_t *why) {
    report(what, why);
    exit(EXIT_FAILURE);
}

/* Sends to an address. NULL: each message has an address of its own. */
static inline pn_link_t *open_sender(pn_session_t *session, const char *name, const char *address) {
    pn_link_t *sender = pn_sender(session, name);
    if (address != NULL) {
        pn_terminus_set_address(pn_link_target(sender), address);
    }
    pn_link_open(sender);
    return sender;
}

/* Receives from an address. NULL: from a temporary queue, whose name comes with PN_LINK_REMOTE_OPEN. */
static inline pn_link_t *open_receiver(pn_session_t *session, const char *name, const char *address, int credit) {
    pn_link_t *receiver = pn_receiver(session, name);
    if (address != NULL) {
        pn_terminus_set_address(pn_link_source(receiver), address);
    } else {
        pn_terminus_set_dynamic(pn_link_source(receiver), true);
    }
    pn_link_open(receiver);
    pn_link_flow(receiver, credit);
    return receiver;
}

/* Sends a message whose fields are set, with a text as its body. The outcome is an event: PN_DELIVERY. */
static inline pn_delivery_t *send_text(pn_link_t *sender, pn_message_t *message, const char *text) {
    static uint64_t tag = 0;
    static pn_rwbytes_t buffer = {0};
    pn_message_set_durable(message, true);
    pn_data_put_string(pn_message_body(message), pn_bytes(strlen(text), text));
    tag++;
    pn_delivery_t *delivery = pn_delivery(sender, pn_dtag((const char *)&tag, sizeof tag));
    if (pn_message_send(message, sender, &buffer) < 0) {
        fail("send", NULL);
    }
    return delivery;
}

/* Says whether the event is the outcome of a message that was sent. */
static inline int was_decided(pn_event_t *event) {
    pn_delivery_t *delivery = pn_event_delivery(event);
    return pn_event_type(event) == PN_DELIVERY && pn_link_is_sender(pn_delivery_link(delivery)) &&
           pn_delivery_updated(delivery);
}

/* Says the same, and ends the program if the message was not stored. */
static inline int was_stored(pn_event_t *event) {
    pn_delivery_t *delivery = pn_event_delivery(event);
    if (!was_decided(event)) {
        return 0;
    }
    if (pn_delivery_remote_state(delivery) != PN_ACCEPTED) {
        fail("not stored", pn_disposition_condition(pn_delivery_remote(delivery)));
    }
    return 1;
}

/* Reads a message if the event brings a whole one. */
static inline int was_received(pn_event_t *event, pn_message_t *message) {
    pn_delivery_t *delivery = pn_event_delivery(event);
    if (pn_event_type(event) != PN_DELIVERY || !pn_link_is_receiver(pn_delivery_link(delivery)) ||
        !pn_delivery_readable(delivery) || pn_delivery_partial(delivery)) {
        return 0;
    }
    size_t size = pn_delivery_pending(delivery);
    char *data = malloc(size);
    if (data == NULL || pn_link_recv(pn_delivery_link(delivery), data, size) != (ssize_t)size ||
        pn_message_decode(message, data, size) != 0) {
        fail("receive", NULL);
    }
    free(data);
    return 1;
}

/* Returns the body of a message: the text of a string, or what a publisher has sent as bytes. */
static inline pn_bytes_t text_of(pn_message_t *message) {
    pn_data_t *body = pn_message_body(message);
    pn_data_rewind(body);
    pn_data_next(body);
    return pn_data_type(body) == PN_BINARY ? pn_data_get_binary(body) : pn_data_get_string(body);
}

/* Tells the broker what became of a message, and lets it send another one. */
static inline void settle(pn_delivery_t *delivery, uint64_t outcome) {
    pn_link_t *receiver = pn_delivery_link(delivery);
    pn_delivery_update(delivery, outcome);
    pn_delivery_settle(delivery);
    pn_link_flow(receiver, 1);
}

static inline void check_for_errors(pn_event_t *event) {
    switch (pn_event_type(event)) {
    case PN_TRANSPORT_CLOSED:
        if (pn_condition_is_set(pn_transport_condition(pn_event_transport(event)))) {
            fail("connection", pn_transport_condition(pn_event_transport(event)));
        }
        break;
    case PN_CONNECTION_REMOTE_CLOSE:
        if (pn_connection_state(pn_event_connection(event)) & PN_LOCAL_ACTIVE) {
            fail("connection", pn_connection_remote_condition(pn_event_connection(event)));
        }
        break;
    case PN_SESSION_REMOTE_CLOSE:
        fail("session", pn_session_remote_condition(pn_event_session(event)));
        break;
    case PN_LINK_REMOTE_CLOSE: /* there is no such queue, for example */
    case PN_LINK_REMOTE_DETACH:
        fail(pn_link_name(pn_event_link(event)), pn_link_remote_condition(pn_event_link(event)));
        break;
    default:
        break;
    }
}

/* Connects to the broker that AMQP_URL names, and handles events until the connection is closed. */
static inline int run(const char *name) {
    const char *url = getenv("AMQP_URL");
    const char *address = url != NULL ? url : "127.0.0.1:5672";
    char id[64];
    snprintf(id, sizeof id, "%s-%d", name, (int)getpid());
    if (strncmp(address, "amqp://", strlen("amqp://")) == 0) {
        address += strlen("amqp://");
    }
    pn_proactor_t *proactor = pn_proactor();
    pn_connection_t *connection = pn_connection();
    pn_connection_set_container(connection, id);
    pn_proactor_connect2(proactor, connection, NULL, address);
    for (;;) {
        pn_event_batch_t *events = pn_proactor_wait(proactor);
        for (pn_event_t *event = pn_event_batch_next(events); event != NULL; event = pn_event_batch_next(events)) {
            check_for_errors(event);
            if (pn_event_type(event) == PN_CONNECTION_INIT) {
                pn_session_t *session = pn_session(pn_event_connection(event));
                pn_connection_open(pn_event_connection(event));
                pn_session_open(session);
                opened(session);
            } else if (pn_event_type(event) == PN_PROACTOR_INACTIVE) {
                pn_proactor_done(proactor, events);
                pn_proactor_free(proactor);
                return EXIT_SUCCESS;
            } else {
                handle(event);
            }
        }
        pn_proactor_done(proactor, events);
    }
}

#endif
