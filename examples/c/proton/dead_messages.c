/* Rejects an order that nobody can work on, and finds it in the dead message queue. */
#include "client.h"

static pn_message_t *message;
static int is_sent = 0;

void opened(pn_session_t *session) {
    open_sender(session, "new orders", "topic://orders/eu");
    open_receiver(session, "orders", "orders", 10);
    open_receiver(session, "dead", "dead", 10);
}

/* Returns why a message is dead: a message annotation. */
static pn_bytes_t reason(void) {
    static const char NAME[] = "x-opt-sluicegate-dead-reason";
    pn_data_t *annotations = pn_message_annotations(message);
    pn_data_rewind(annotations);
    pn_data_next(annotations);
    size_t count = pn_data_get_map(annotations);
    pn_data_enter(annotations);
    for (size_t at = 0; at < count; at += 2) {
        pn_data_next(annotations);
        pn_bytes_t name = pn_data_get_symbol(annotations);
        pn_data_next(annotations);
        if (name.size == strlen(NAME) && memcmp(name.start, NAME, name.size) == 0) {
            return pn_data_get_string(annotations);
        }
    }
    return pn_bytes_null;
}

static void work(pn_delivery_t *delivery, pn_bytes_t text) {
    if (text.size >= strlen("order ") && memcmp(text.start, "order ", strlen("order ")) == 0) {
        printf("done: %.*s\n", (int)text.size, text.start);
        settle(delivery, PN_ACCEPTED);
    } else {
        printf("rejected: %.*s\n", (int)text.size, text.start);
        pn_condition_t *why = pn_disposition_condition(pn_delivery_local(delivery));
        pn_condition_set_name(why, "amqp:decode-error");
        pn_condition_set_description(why, "this is no order");
        settle(delivery, PN_REJECTED);
    }
    fflush(stdout);
}

void handle(pn_event_t *event) {
    pn_delivery_t *delivery = pn_event_delivery(event);
    if (pn_event_type(event) == PN_LINK_FLOW && pn_link_is_sender(pn_event_link(event)) && !is_sent) {
        pn_message_t *order = pn_message();
        pn_message_set_group_id(order, "customer-4");
        send_text(pn_event_link(event), order, "no order at all");
        pn_message_free(order);
        is_sent = 1;
    } else if (was_stored(event)) {
        pn_delivery_settle(delivery);
    } else if (was_received(event, message)) {
        pn_bytes_t text = text_of(message);
        if (strcmp(pn_link_name(pn_delivery_link(delivery)), "orders") == 0) {
            work(delivery, text);
            return;
        }
        pn_bytes_t why = reason();
        printf("dead: %.*s (%.*s)\n", (int)text.size, text.start, (int)why.size, why.start);
        settle(delivery, PN_ACCEPTED);
        pn_connection_close(pn_event_connection(event));
    }
}

int main(void) {
    message = pn_message();
    return run("worker");
}
