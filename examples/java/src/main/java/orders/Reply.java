package orders;

import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.JMSProducer;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.Message;
import java.util.Map;

/** Answers questions for prices until Ctrl-C. Several of these share the questions. */
public class Reply {

    private static final Map<String, String> PRICES = Map.of("apple", "0.30", "pear", "0.45");

    public static void main(String[] args) throws JMSException {
        try (JMSContext context = Broker.connections().createContext(JMSContext.CLIENT_ACKNOWLEDGE)) {
            JMSConsumer questions = context.createConsumer(context.createQueue("prices"));
            JMSProducer answers = context.createProducer();
            while (true) {
                Message question = questions.receive();
                if (question.getJMSReplyTo() != null) { // otherwise nobody waits for an answer
                    answers.setJMSCorrelationID(question.getJMSCorrelationID());
                    String price = PRICES.getOrDefault(question.getBody(String.class), "unknown");
                    try {
                        answers.send(question.getJMSReplyTo(), price);
                    } catch (JMSRuntimeException refused) { // whoever asked may be gone
                        System.err.println("answer not stored: " + refused.getMessage());
                    }
                }
                question.acknowledge(); // before this, the question comes again if the worker dies
            }
        }
    }
}
