/* Answers questions for prices until Ctrl-C. Several of these share the questions. */
#include "client.h"

static pn_link_t *answers;
static pn_message_t *question;

void opened(pn_session_t *session) {
    answers = open_sender(session, "answers", NULL); /* no address of its own: each answer has one */
    open_receiver(session, "questions", "prices", 10);
}

static const char *price_of(pn_bytes_t fruit) {
    return fruit.size == strlen("apple") && memcmp(fruit.start, "apple", fruit.size) == 0 ? "0.30" : "unknown";
}

void handle(pn_event_t *event) {
    pn_delivery_t *delivery = pn_event_delivery(event);
    if (was_received(event, question)) {
        if (pn_message_get_reply_to(question) == NULL) { /* nobody waits for an answer */
            settle(delivery, PN_ACCEPTED);
            return;
        }
        pn_message_t *answer = pn_message();
        pn_message_set_address(answer, pn_message_get_reply_to(question));
        pn_message_set_correlation_id(answer, pn_message_get_correlation_id(question));
        pn_delivery_set_context(send_text(answers, answer, price_of(text_of(question))), delivery);
        pn_message_free(answer);
    } else if (was_decided(event)) {
        if (pn_delivery_remote_state(delivery) != PN_ACCEPTED) { /* whoever asked may be gone */
            report("answer not stored", pn_disposition_condition(pn_delivery_remote(delivery)));
        }
        settle(pn_delivery_get_context(delivery), PN_ACCEPTED); /* before this, the question comes again */
        pn_delivery_settle(delivery);
    }
}

int main(void) {
    question = pn_message();
    return run("prices");
}
