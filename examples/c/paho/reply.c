/* Answers questions for prices until Ctrl-C. Several of these share the questions. */
#include "connection.h"

static const char *price(const MQTTClient_message *question) {
    return question->payloadlen == 5 && memcmp(question->payload, "apple", 5) == 0 ? "0.30" : "unknown";
}

int main(void) {
    MQTTClient client = connect_to_broker("prices");
    check_response(MQTTClient_subscribe5(client, "$queue/prices", 1, NULL, NULL), "subscribe");
    for (;;) {
        MQTTClient_message *question = receive(client);
        MQTTProperty *to = MQTTProperties_getProperty(&question->properties, MQTTPROPERTY_CODE_RESPONSE_TOPIC);
        MQTTProperty *id = MQTTProperties_getProperty(&question->properties, MQTTPROPERTY_CODE_CORRELATION_DATA);
        if (to != NULL) { /* may be a queue of an AMQP client */
            char *topic = strndup(to->value.data.data, (size_t)to->value.data.len);
            MQTTProperties properties = MQTTProperties_initializer;
            add_text(&properties);
            if (id != NULL) {
                add_data(&properties, MQTTPROPERTY_CODE_CORRELATION_DATA, id->value.data.data, id->value.data.len);
            }
            publish(client, topic, price(question), properties);
            MQTTProperties_free(&properties);
            free(topic);
        }
        MQTTClient_freeMessage(&question);
    }
}
