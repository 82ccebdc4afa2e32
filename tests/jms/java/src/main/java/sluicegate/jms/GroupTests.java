package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.Message;
import org.junit.Test;

public class GroupTests extends JmsTest {

    private static final int GROUPS = 20;
    private static final int EACH = 5;

    @Test
    public void aGroupStaysWithOneConsumerAndInOrder() throws Exception {
        List<JMSConsumer> consumers = List.of(consumer(), consumer());
        for (int number = 0; number < EACH; number++) {
            for (int group = 0; group < GROUPS; group++) {
                context.createProducer().setProperty("JMSXGroupID", "g" + group).send(queue, "m" + number);
            }
        }
        Map<String, List<String>> texts = new HashMap<>();
        Map<String, Set<Integer>> owners = new HashMap<>();
        int count = 0;
        while (count < GROUPS * EACH) {
            int before = count;
            for (int index = 0; index < consumers.size(); index++) {
                Message message;
                while ((message = consumers.get(index).receive(NEVER)) != null) {
                    String group = message.getStringProperty("JMSXGroupID");
                    texts.computeIfAbsent(group, each -> new ArrayList<>()).add(message.getBody(String.class));
                    owners.computeIfAbsent(group, each -> new HashSet<>()).add(index);
                    count++;
                }
            }
            assertTrue("only " + count + " came", count > before);
        }
        for (String group : texts.keySet()) {
            assertEquals(List.of("m0", "m1", "m2", "m3", "m4"), texts.get(group));
            assertEquals(1, owners.get(group).size());
        }
        Set<Integer> used = new HashSet<>();
        owners.values().forEach(used::addAll);
        assertEquals(Set.of(0, 1), used);
    }

    @Test
    public void groupAndSequenceArrive() throws Exception {
        context.createProducer().setProperty("JMSXGroupID", "g").setProperty("JMSXGroupSeq", 3).send(queue, "a");
        Message message = context.createConsumer(queue).receive(SOON);
        assertEquals("g", message.getStringProperty("JMSXGroupID"));
        assertEquals(3, message.getIntProperty("JMSXGroupSeq"));
    }

    @Test
    public void aGroupGoesToAnotherConsumerWhenItsOwnIsGone() throws Exception {
        JMSContext first = connect(JMSContext.CLIENT_ACKNOWLEDGE);
        JMSConsumer consumer = first.createConsumer(queue);
        for (String text : new String[] {"a", "b"}) {
            context.createProducer().setProperty("JMSXGroupID", "g").send(queue, text);
        }
        consumer.receive(SOON).acknowledge();
        first.close();
        assertEquals(List.of("b"), receive(context.createConsumer(queue), 1));
    }

    private JMSConsumer consumer() {
        return connect(JMSContext.AUTO_ACKNOWLEDGE).createConsumer(queue);
    }
}
