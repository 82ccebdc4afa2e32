package orders;

import jakarta.jms.Message;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.stereotype.Component;

/** Asks for the price of an apple, and prints the answer, which comes over a temporary queue. */
@Component
@Profile("request")
class Request implements ApplicationRunner {

    private final JmsTemplate jms;

    Request(JmsTemplate jms) {
        this.jms = jms;
    }

    @Override
    public void run(ApplicationArguments arguments) throws Exception {
        jms.setReceiveTimeout(30_000);
        Message answer = jms.sendAndReceive("prices", session -> session.createTextMessage("apple"));
        System.out.println("apple: " + answer.getBody(String.class));
    }
}
