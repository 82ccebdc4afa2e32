/* Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers. */
#include "client.h"

static pn_message_t *order;

void opened(pn_session_t *session) { open_receiver(session, "orders", "orders", 10); }

void handle(pn_event_t *event) {
    if (was_received(event, order)) {
        const char *customer = pn_message_get_group_id(order);
        pn_bytes_t text = text_of(order);
        printf("%s: %.*s\n", customer != NULL ? customer : "no key", (int)text.size, text.start);
        fflush(stdout);
        settle(pn_event_delivery(event), PN_ACCEPTED); /* before this, the order comes again if the worker dies */
    }
}

int main(void) {
    order = pn_message();
    return run("worker");
}
