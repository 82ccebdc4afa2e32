package orders;

import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Queue;

/** Rejects an order that nobody can work on, and finds it in the dead message queue. */
public class DeadMessages {

    /** Qpid JMS takes what acknowledge() is to mean from this property; JMS itself has no word for "never again". */
    private static final String ACK_TYPE = "JMS_AMQP_ACK_TYPE";
    private static final int REJECTED = 2;

    public static void main(String[] args) throws JMSException {
        try (JMSContext context = Broker.connections().createContext(JMSContext.CLIENT_ACKNOWLEDGE)) {
            Queue queue = context.createQueue("orders");
            context.createProducer().setProperty("JMSXGroupID", "customer-4").send(queue, "no order at all");

            JMSConsumer orders = context.createConsumer(queue);
            String text;
            do {
                Message order = orders.receive(30_000);
                text = order.getBody(String.class);
                if (text.startsWith("order ")) {
                    System.out.println("done: " + text);
                } else {
                    System.out.println("rejected: " + text);
                    order.setIntProperty(ACK_TYPE, REJECTED);
                }
                order.acknowledge();
            } while (text.startsWith("order "));

            // The reason is an annotation, which JMS does not show. A selector sees it.
            Queue dead = context.createQueue("dead");
            Message message = context.createConsumer(dead, "\"sluicegate-dead-reason\" = 'rejected'").receive(30_000);
            System.out.println("dead: " + message.getBody(String.class) + " (rejected)");
            message.acknowledge();
        }
    }
}
