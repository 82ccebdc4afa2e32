package sluicegate.jms;

import java.io.PrintStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;
import org.objectweb.jtests.jms.conform.connection.ConnectionTest;
import org.objectweb.jtests.jms.conform.connection.TopicConnectionTest;
import org.objectweb.jtests.jms.conform.message.MessageBodyTest;
import org.objectweb.jtests.jms.conform.message.MessageDefaultTest;
import org.objectweb.jtests.jms.conform.message.MessageTypeTest;
import org.objectweb.jtests.jms.conform.message.headers.MessageHeaderTest;
import org.objectweb.jtests.jms.conform.message.properties.JMSXPropertyTest;
import org.objectweb.jtests.jms.conform.message.properties.MessagePropertyConversionTest;
import org.objectweb.jtests.jms.conform.message.properties.MessagePropertyTest;
import org.objectweb.jtests.jms.conform.queue.QueueBrowserTest;
import org.objectweb.jtests.jms.conform.queue.TemporaryQueueTest;
import org.objectweb.jtests.jms.conform.selector.SelectorSyntaxTest;
import org.objectweb.jtests.jms.conform.selector.SelectorTest;
import org.objectweb.jtests.jms.conform.session.QueueSessionTest;
import org.objectweb.jtests.jms.conform.session.SessionTest;
import org.objectweb.jtests.jms.conform.session.TopicSessionTest;
import org.objectweb.jtests.jms.conform.session.UnifiedSessionTest;
import org.objectweb.jtests.jms.conform.topic.TemporaryTopicTest;

/** Runs all tests, and prints one line for each: passed or failed, class, method, and what went wrong. */
public class RunTests {

    private static final List<Class<?>> TESTS = List.of(
            ConnectionTest.class,
            TopicConnectionTest.class,
            MessageBodyTest.class,
            MessageDefaultTest.class,
            MessageTypeTest.class,
            MessageHeaderTest.class,
            JMSXPropertyTest.class,
            MessagePropertyConversionTest.class,
            MessagePropertyTest.class,
            QueueBrowserTest.class,
            TemporaryQueueTest.class,
            SelectorSyntaxTest.class,
            SelectorTest.class,
            QueueSessionTest.class,
            SessionTest.class,
            TopicSessionTest.class,
            UnifiedSessionTest.class,
            TemporaryTopicTest.class,
            AcknowledgementTests.class,
            BrowserTests.class,
            DeliveryTests.class,
            GroupTests.class,
            MessageTests.class,
            SelectorTests.class,
            SubscriptionTests.class,
            TransactionTests.class);

    public static void main(String[] args) {
        PrintStream results = System.out;
        System.setOut(System.err); // tests print, too
        JUnitCore core = new JUnitCore();
        core.addListener(new RunListener() {
            private final Set<Description> failed = new HashSet<>();

            @Override
            public void testFailure(Failure failure) {
                if (failed.add(failure.getDescription())) {
                    failure.getException().printStackTrace();
                    print("failed", failure.getDescription(), String.valueOf(failure.getException()));
                }
            }

            @Override
            public void testFinished(Description test) {
                if (!failed.contains(test)) {
                    print("passed", test, "");
                }
            }

            private void print(String outcome, Description test, String what) {
                String group = test.getTestClass().getSimpleName();
                results.println(String.join("\t", outcome, group, test.getMethodName(), what.replaceAll("\\s+", " ")));
            }
        });
        core.run(TESTS.toArray(Class[]::new));
        System.exit(0);
    }
}
