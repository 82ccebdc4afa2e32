/* What the programs share: how they connect, and a property of text with a key. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <MQTTClient.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program if a call of the library failed. */
static inline void check(int code, const char *what) {
    if (code != MQTTCLIENT_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, MQTTClient_strerror(code));
        exit(EXIT_FAILURE);
    }
}

/* Ends the program if the broker refused: there is no such queue, for example. The reason string says which. */
static inline void check_response(MQTTResponse response, const char *what) {
    int code = (int)response.reasonCode;
    if (code < 0) { /* no answer: the broker does not run, for example */
        check(code, what);
    }
    if (code >= MQTTREASONCODE_UNSPECIFIED_ERROR) {
        MQTTProperty *why = response.properties == NULL
                                ? NULL
                                : MQTTProperties_getProperty(response.properties, MQTTPROPERTY_CODE_REASON_STRING);
        fprintf(stderr, "%s: %s: %.*s\n", what, MQTTReasonCode_toString(response.reasonCode),
                why != NULL ? why->value.data.len : 0, why != NULL ? why->value.data.data : "");
        exit(EXIT_FAILURE);
    }
    MQTTResponse_free(response);
}

/* Connects with MQTT 5 to the broker that MQTT_URL names. */
static inline MQTTClient connect_to_broker(const char *name) {
    const char *url = getenv("MQTT_URL");
    char id[64];
    snprintf(id, sizeof id, "%s-%d", name, (int)getpid());

    MQTTClient client;
    MQTTClient_createOptions create = MQTTClient_createOptions_initializer;
    create.MQTTVersion = MQTTVERSION_5;
    check(MQTTClient_createWithOptions(&client, url != NULL ? url : "mqtt://127.0.0.1:1883", id,
                                       MQTTCLIENT_PERSISTENCE_NONE, NULL, &create), "create");
    MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer5;
    options.cleanstart = 1;
    check_response(MQTTClient_connect5(client, &options, NULL, NULL), url != NULL ? url : "mqtt://127.0.0.1:1883");
    return client;
}

/* Says that the payload is text: AMQP clients get a string, not bytes. */
static inline void add_text(MQTTProperties *properties) {
    MQTTProperty text = {.identifier = MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR, .value.byte = 1};
    check(MQTTProperties_add(properties, &text), "property");
}

/* Adds a property whose value is a string or bytes; the library copies it. */
static inline void add_data(MQTTProperties *properties, enum MQTTPropertyCodes code, const char *data, int length) {
    MQTTProperty property = {.identifier = code, .value.data = {.data = (char *)data, .len = length}};
    check(MQTTProperties_add(properties, &property), "property");
}

/* Adds the partition key. */
static inline void add_key(MQTTProperties *properties, const char *key) {
    static char name[] = "JMSXGroupID";
    MQTTProperty property = {.identifier = MQTTPROPERTY_CODE_USER_PROPERTY,
                             .value = {.data = {.data = name, .len = (int)strlen(name)},
                                       .value = {.data = (char *)key, .len = (int)strlen(key)}}};
    check(MQTTProperties_add(properties, &property), "property");
}

/* Publishes with QoS 1, and returns when the broker has answered. The synchronous client does not show the reason code of
   the answer: a message that the broker has refused looks like one that it has stored. */
static inline void publish(MQTTClient client, const char *topic, const char *text, MQTTProperties properties) {
    MQTTClient_message message = MQTTClient_message_initializer;
    MQTTClient_deliveryToken token;
    message.payload = (void *)text;
    message.payloadlen = (int)strlen(text);
    message.qos = 1;
    message.properties = properties;
    check_response(MQTTClient_publishMessage5(client, topic, &message, &token), "publish");
    check(MQTTClient_waitForCompletion(client, token, 30000), "publish");
}

/* Waits for the next message. */
static inline MQTTClient_message *receive(MQTTClient client) {
    char *topic = NULL;
    int length = 0;
    MQTTClient_message *message = NULL;
    while (message == NULL) {
        int code = MQTTClient_receive(client, &topic, &length, &message, 1000);
        check(code == MQTTCLIENT_TOPICNAME_TRUNCATED ? MQTTCLIENT_SUCCESS : code, "receive");
    }
    MQTTClient_free(topic);
    return message;
}

#endif
