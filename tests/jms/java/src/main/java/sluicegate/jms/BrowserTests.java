package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.jms.Message;
import javax.jms.QueueBrowser;
import org.junit.Test;

public class BrowserTests extends JmsTest {

    @Test
    public void aBrowserShowsAllInOrderAndTakesNone() throws Exception {
        send("a", "b", "c");
        assertEquals(List.of("a", "b", "c"), texts(context.createBrowser(queue)));
        assertEquals(List.of("a", "b", "c"), receive(context.createConsumer(queue), 3));
    }

    @Test
    public void aBrowserHasAnEnd() throws Exception {
        assertFalse(context.createBrowser(queue).getEnumeration().hasMoreElements());
    }

    @Test
    public void aBrowserMaySelect() throws Exception {
        for (int number = 0; number < 5; number++) {
            context.createProducer().setProperty("n", number).send(queue, "m" + number);
        }
        assertEquals(List.of("m3", "m4"), texts(context.createBrowser(queue, "n > 2")));
    }

    private static List<String> texts(QueueBrowser browser) throws Exception {
        List<String> found = new ArrayList<>();
        for (Object each : Collections.list(browser.getEnumeration())) {
            found.add(((Message) each).getBody(String.class));
        }
        return found;
    }
}
