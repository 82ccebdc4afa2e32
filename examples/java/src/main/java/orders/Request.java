package orders;

import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Queue;

/** Asks for the price of an apple, and prints the answer. */
public class Request {

    public static void main(String[] args) throws JMSException {
        try (JMSContext context = Broker.connections().createContext()) {
            Queue answers = context.createTemporaryQueue(); // of this connection alone
            context.createProducer()
                    .setJMSReplyTo(answers)
                    .setJMSCorrelationID("question-1")
                    .send(context.createQueue("prices"), "apple");
            Message answer = context.createConsumer(answers).receive(30_000);
            System.out.println("apple: " + answer.getBody(String.class));
        }
    }
}
