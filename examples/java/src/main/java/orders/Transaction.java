package orders;

import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.JMSProducer;
import jakarta.jms.Message;

/** Takes an order and writes its invoice: both happen, or neither does. */
public class Transaction {

    public static void main(String[] args) throws JMSException {
        try (JMSContext context = Broker.connections().createContext(JMSContext.SESSION_TRANSACTED)) {
            Message order = context.createConsumer(context.createQueue("orders")).receive(30_000);
            String invoice = "invoice for " + order.getBody(String.class);
            JMSProducer producer = context.createProducer();
            producer.setProperty("JMSXGroupID", order.getStringProperty("JMSXGroupID"));
            producer.send(context.createQueue("invoices"), invoice);
            context.commit(); // before this, nobody sees the invoice, and rollback() gives the order back
            System.out.println("committed: " + invoice);
        }
    }
}
