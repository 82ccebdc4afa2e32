/* Asks for the price of an apple, and prints the answer. */
#include "connection.h"

int main(void) {
    MQTTClient client = connect_to_broker("shopper");
    char answers[64];
    snprintf(answers, sizeof answers, "answers/%d", (int)getpid());
    check_response(MQTTClient_subscribe5(client, answers, 1, NULL, NULL), "subscribe");

    MQTTProperties properties = MQTTProperties_initializer;
    add_text(&properties);
    add_data(&properties, MQTTPROPERTY_CODE_RESPONSE_TOPIC, answers, (int)strlen(answers));
    add_data(&properties, MQTTPROPERTY_CODE_CORRELATION_DATA, "1", 1);
    publish(client, "$queue/prices", "apple", properties);
    MQTTProperties_free(&properties);

    MQTTClient_message *answer = receive(client);
    printf("apple: %.*s\n", answer->payloadlen, (char *)answer->payload);
    MQTTClient_freeMessage(&answer);
    MQTTClient_disconnect5(client, 1000, MQTTREASONCODE_SUCCESS, NULL);
    MQTTClient_destroy(&client);
    return EXIT_SUCCESS;
}
