package orders;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import java.util.Map;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.stereotype.Component;

/** Answers questions for prices until Ctrl-C. What is returned goes to the JMSReplyTo of the question. */
@Component
@Profile("reply")
class Reply {

    private static final Map<String, String> PRICES = Map.of("apple", "0.30", "pear", "0.45");

    @JmsListener(destination = "prices")
    String answer(String fruit, Message question) throws JMSException {
        if (question.getJMSReplyTo() == null) {
            return null; // nobody waits for an answer
        }
        return PRICES.getOrDefault(fruit, "unknown");
    }
}
