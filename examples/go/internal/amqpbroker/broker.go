// Package amqpbroker connects the AMQP programs to the broker.
package amqpbroker

import (
	"context"
	"os"

	"github.com/Azure/go-amqp"
)

// Connect opens a connection and a session. go-amqp does not connect again by itself: a service ends, or begins anew,
// when a call returns an *amqp.ConnError.
func Connect(ctx context.Context) (*amqp.Conn, *amqp.Session, error) {
	url := os.Getenv("AMQP_URL")
	if url == "" {
		url = "amqp://127.0.0.1:5672"
	}
	conn, err := amqp.Dial(ctx, url, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err != nil {
		return nil, nil, err
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, session, nil
}

// Keyed returns a message with text and a partition key.
func Keyed(key, text string) *amqp.Message {
	return &amqp.Message{
		Header:     &amqp.MessageHeader{Durable: true},
		Properties: &amqp.MessageProperties{GroupID: &key},
		Value:      text,
	}
}

// Text returns the body of a message: a string, or bytes that an MQTT client did not mark as text.
func Text(message *amqp.Message) string {
	if text, ok := message.Value.(string); ok {
		return text
	}
	return string(message.GetData())
}

// Key returns the partition key of a message.
func Key(message *amqp.Message) string {
	if message.Properties == nil || message.Properties.GroupID == nil {
		return ""
	}
	return *message.Properties.GroupID
}
