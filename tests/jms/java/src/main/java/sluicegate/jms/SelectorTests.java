package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;

import java.util.List;
import javax.jms.DeliveryMode;
import javax.jms.InvalidSelectorRuntimeException;
import javax.jms.JMSConsumer;
import javax.jms.Message;
import org.junit.Test;

public class SelectorTests extends JmsTest {

    private void selects(String selector) throws Exception {
        context.createProducer().setProperty("color", "blue").setProperty("size", 3).send(queue, "other");
        Message message = context.createTextMessage("wanted");
        message.setJMSType("kind");
        message.setJMSCorrelationID("7");
        context.createProducer().setPriority(8).setProperty("color", "red").setProperty("size", 42)
                .setProperty("share", 0.5).setProperty("sold", true).send(queue, message);
        JMSConsumer consumer = context.createConsumer(queue, selector);
        assertEquals("wanted", consumer.receive(SOON).getBody(String.class));
        assertNull(consumer.receive(NEVER));
        consumer.close();
        assertEquals(List.of("other"), receive(context.createConsumer(queue), 1)); // it has stayed for others
    }

    @Test
    public void byComparison() throws Exception {
        selects("color = 'red' AND size > 41.5 AND share < 1");
    }

    @Test
    public void byRangeListAndPattern() throws Exception {
        selects("size BETWEEN 40 AND 50 AND color IN ('red', 'green') AND color LIKE 'r_d'");
    }

    @Test
    public void byNull() throws Exception {
        selects("sold IS NOT NULL");
    }

    @Test
    public void byBoolean() throws Exception {
        selects("sold = TRUE");
    }

    @Test
    public void byArithmetic() throws Exception {
        selects("size * 2 + 1 = 85");
    }

    @Test
    public void byHeaders() throws Exception {
        selects("JMSPriority > 7 AND JMSType = 'kind' AND JMSCorrelationID = '7' AND JMSDeliveryMode = 'PERSISTENT'");
    }

    @Test
    public void byMessageId() throws Exception {
        Message message = context.createTextMessage("wanted");
        context.createProducer().send(queue, "other");
        context.createProducer().send(queue, message);
        JMSConsumer consumer = context.createConsumer(queue, "JMSMessageID = '" + message.getJMSMessageID() + "'");
        assertEquals("wanted", consumer.receive(SOON).getBody(String.class));
    }

    @Test
    public void byDeliveryMode() throws Exception {
        context.createProducer().setDeliveryMode(DeliveryMode.NON_PERSISTENT).send(queue, "wanted");
        context.createProducer().send(queue, "other");
        JMSConsumer consumer = context.createConsumer(queue, "JMSDeliveryMode = 'NON_PERSISTENT'");
        assertEquals("wanted", consumer.receive(SOON).getBody(String.class));
    }

    @Test
    public void ofATopic() throws Exception {
        JMSConsumer consumer = context.createConsumer(topic, "n = 1");
        for (int number = 0; number < 3; number++) {
            context.createProducer().setProperty("n", number).send(topic, "m" + number);
        }
        assertEquals(List.of("m1"), receive(consumer, 1));
        assertNull(consumer.receive(NEVER));
    }

    @Test(expected = InvalidSelectorRuntimeException.class)
    public void aWrongOneIsRefused() {
        context.createConsumer(queue, "color = = 'red'");
    }
}
