package orders;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.connection.JmsTransactionManager;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.support.TransactionTemplate;

/** Takes an order and writes its invoice: both happen, or, if anything throws before the commit, neither does. */
@Component
@Profile("transaction")
class Transaction implements ApplicationRunner {

    private final JmsTemplate jms;
    private final TransactionTemplate transaction;

    Transaction(JmsTemplate jms, ConnectionFactory connections) {
        this.jms = jms;
        this.transaction = new TransactionTemplate(new JmsTransactionManager(connections));
    }

    @Override
    public void run(ApplicationArguments arguments) {
        String invoice = transaction.execute(status -> {
            try {
                Message order = jms.receive("orders");
                String text = "invoice for " + order.getBody(String.class);
                String customer = order.getStringProperty("JMSXGroupID");
                jms.convertAndSend("invoices", text, message -> {
                    message.setStringProperty("JMSXGroupID", customer);
                    return message;
                });
                return text;
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        });
        System.out.println("committed: " + invoice);
    }
}
