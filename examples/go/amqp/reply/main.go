// Reply answers questions for prices until Ctrl-C. Several of these share the questions.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"

	"example.org/orders/internal/amqpbroker"
	"github.com/Azure/go-amqp"
)

var prices = map[string]string{"apple": "0.30", "pear": "0.45"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := reply(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func reply(ctx context.Context) error {
	conn, session, err := amqpbroker.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// No address of its own: each answer has one.
	sender, err := session.NewSender(ctx, "", nil)
	if err != nil {
		return err
	}
	receiver, err := session.NewReceiver(ctx, "prices", &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		return err
	}
	for {
		question, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		if asked := question.Properties; asked != nil && asked.ReplyTo != nil { // otherwise nobody waits for an answer
			price, ok := prices[amqpbroker.Text(question)]
			if !ok {
				price = "unknown"
			}
			answer := &amqp.Message{
				Properties: &amqp.MessageProperties{To: asked.ReplyTo, CorrelationID: asked.CorrelationID},
				Value:      price,
			}
			err := sender.Send(ctx, answer, nil)
			var refused *amqp.Error
			if errors.As(err, &refused) {
				log.Print("answer not stored: ", refused) // whoever asked may be gone
			} else if err != nil {
				return err
			}
		}
		if err := receiver.AcceptMessage(ctx, question); err != nil {
			return err
		}
	}
}
