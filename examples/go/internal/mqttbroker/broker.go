// Package mqttbroker connects the MQTT programs to the broker.
package mqttbroker

import (
	"context"
	"net/url"
	"os"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// Connect opens a connection that comes back by itself, and subscribes to the topics each time. Messages go to handle,
// which acknowledges each with Client.Ack when it is done.
func Connect(
	ctx context.Context, handle func(paho.PublishReceived), topics ...string,
) (*autopaho.ConnectionManager, error) {
	address := os.Getenv("MQTT_URL")
	if address == "" {
		address = "mqtt://127.0.0.1:1883"
	}
	broker, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	subscribe := &paho.Subscribe{}
	for _, topic := range topics {
		subscribe.Subscriptions = append(subscribe.Subscriptions, paho.SubscribeOptions{Topic: topic, QoS: 1})
	}
	subscribed := make(chan error, 1)
	manager, err := autopaho.NewConnection(ctx, autopaho.ClientConfig{
		ServerUrls: []*url.URL{broker},
		KeepAlive:  30,
		OnConnectionUp: func(manager *autopaho.ConnectionManager, _ *paho.Connack) {
			var err error
			if len(topics) > 0 {
				_, err = manager.Subscribe(ctx, subscribe)
			}
			select {
			case subscribed <- err:
			default: // a later connection
			}
		},
		ClientConfig: paho.ClientConfig{
			EnableManualAcknowledgment: true,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){
				func(received paho.PublishReceived) (bool, error) {
					handle(received)
					return true, nil
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-subscribed:
		return manager, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Keyed returns a message with text and a partition key.
func Keyed(topic, key, text string) *paho.Publish {
	isText := byte(1) // AMQP clients get a string, not bytes
	properties := &paho.PublishProperties{PayloadFormat: &isText}
	properties.User.Add("JMSXGroupID", key)
	return &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(text), Properties: properties}
}
