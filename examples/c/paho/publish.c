/* Publishes twelve orders of three customers; the orders of a customer stay in their order. */
#include "connection.h"

int main(void) {
    MQTTClient client = connect_to_broker("publisher");
    for (int number = 1; number <= 12; number++) {
        char customer[32], text[32];
        snprintf(customer, sizeof customer, "customer-%d", number % 3 + 1);
        snprintf(text, sizeof text, "order %d", number);
        MQTTProperties properties = MQTTProperties_initializer;
        add_text(&properties);
        add_key(&properties, customer);
        publish(client, "orders/eu", text, properties);
        MQTTProperties_free(&properties);
    }
    puts("12 orders published");
    MQTTClient_disconnect5(client, 1000, MQTTREASONCODE_SUCCESS, NULL);
    MQTTClient_destroy(&client);
    return EXIT_SUCCESS;
}
