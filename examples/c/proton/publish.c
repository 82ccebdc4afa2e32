/* Publishes twelve orders of three customers; the orders of a customer stay in their order. */
#include "client.h"

enum { ORDERS = 12 };

static int sent = 0, stored = 0;

void opened(pn_session_t *session) { open_sender(session, "orders", "topic://orders/eu"); }

void handle(pn_event_t *event) {
    if (pn_event_type(event) == PN_LINK_FLOW) {
        pn_link_t *sender = pn_event_link(event);
        while (sent < ORDERS && pn_link_credit(sender) > 0) {
            sent++;
            char customer[32], text[32];
            snprintf(customer, sizeof customer, "customer-%d", sent % 3 + 1);
            snprintf(text, sizeof text, "order %d", sent);
            pn_message_t *order = pn_message();
            pn_message_set_group_id(order, customer); /* the partition key */
            send_text(sender, order, text);
            pn_message_free(order);
        }
    } else if (was_stored(event)) {
        pn_delivery_settle(pn_event_delivery(event));
        if (++stored == ORDERS) {
            printf("%d orders published\n", stored);
            pn_connection_close(pn_event_connection(event));
        }
    }
}

int main(void) { return run("publisher"); }
