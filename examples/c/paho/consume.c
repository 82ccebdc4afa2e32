/* Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.
 *
 * The library acknowledges an order when it has received it. What a worker holds when it dies does not come again. */
#include "connection.h"

int main(void) {
    MQTTClient client = connect_to_broker("worker");
    check_response(MQTTClient_subscribe5(client, "$queue/orders", 1, NULL, NULL), "subscribe");
    for (;;) {
        MQTTClient_message *order = receive(client);
        MQTTProperty *key = MQTTProperties_getProperty(&order->properties, MQTTPROPERTY_CODE_USER_PROPERTY);
        printf("%.*s: %.*s\n", key != NULL ? key->value.value.len : 0, key != NULL ? key->value.value.data : "",
               order->payloadlen, (char *)order->payload);
        fflush(stdout);
        MQTTClient_freeMessage(&order);
    }
}
