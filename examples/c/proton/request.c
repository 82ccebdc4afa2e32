/* Asks for the price of an apple, and prints the answer. */
#include "client.h"

static pn_link_t *questions, *answers;
static pn_message_t *answer;

void opened(pn_session_t *session) {
    questions = open_sender(session, "questions", "prices");
    answers = open_receiver(session, "answers", NULL, 1);
}

static void ask(const char *reply_to) {
    pn_message_t *question = pn_message();
    pn_message_set_reply_to(question, reply_to);
    pn_message_set_correlation_id(question, (pn_atom_t){.type = PN_STRING, .u.as_bytes = pn_bytes(1, "1")});
    send_text(questions, question, "apple");
    pn_message_free(question);
}

void handle(pn_event_t *event) {
    if (pn_event_type(event) == PN_LINK_REMOTE_OPEN && pn_event_link(event) == answers) {
        ask(pn_terminus_get_address(pn_link_remote_source(answers))); /* the broker has named the temporary queue */
    } else if (was_stored(event)) {
        pn_delivery_settle(pn_event_delivery(event));
    } else if (was_received(event, answer)) {
        pn_bytes_t price = text_of(answer);
        printf("apple: %.*s\n", (int)price.size, price.start);
        settle(pn_event_delivery(event), PN_ACCEPTED);
        pn_connection_close(pn_event_connection(event));
    }
}

int main(void) {
    answer = pn_message();
    return run("shopper");
}
