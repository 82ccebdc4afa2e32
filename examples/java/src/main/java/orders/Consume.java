package orders;

import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;

/** Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers. */
public class Consume {

    public static void main(String[] args) throws JMSException {
        try (JMSContext context = Broker.connections().createContext(JMSContext.CLIENT_ACKNOWLEDGE)) {
            JMSConsumer consumer = context.createConsumer(context.createQueue("orders"));
            while (true) {
                Message order = consumer.receive();
                System.out.println(order.getStringProperty("JMSXGroupID") + ": " + order.getBody(String.class));
                order.acknowledge(); // before this, the order comes again if the worker dies
            }
        }
    }
}
