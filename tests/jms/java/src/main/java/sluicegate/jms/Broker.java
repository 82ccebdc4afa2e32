package sluicegate.jms;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Set;
import org.apache.qpid.jms.JmsConnectionFactory;

/** The broker under test: its connections, and queues by its admin port. */
final class Broker {

    static final String AMQP_URL = System.getenv("AMQP_URL");
    private static final String ADMIN_URL = System.getenv("ADMIN_URL");
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private Broker() {
    }

    static JmsConnectionFactory connections() {
        return new JmsConnectionFactory(AMQP_URL);
    }

    /** Creates a queue that several consumers share. {@code attributes} are members of a JSON object, or empty. */
    static void createQueue(String name, String attributes) {
        String more = attributes.isEmpty() ? "" : ", " + attributes;
        String body = "{\"name\": \"" + name + "\", \"access_type\": \"non-exclusive\"" + more + "}";
        ask("POST", "/queues", body, Set.of(201));
    }

    static void deleteQueue(String name) {
        ask("DELETE", "/queues/" + name, "", Set.of(204, 404));
    }

    private static void ask(String method, String path, String body, Set<Integer> answers) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(ADMIN_URL + path))
                .header("Content-Type", "application/json")
                .method(method, BodyPublishers.ofString(body))
                .build();
        try {
            var answer = HTTP.send(request, BodyHandlers.ofString());
            if (!answers.contains(answer.statusCode())) {
                throw new IllegalStateException(method + " " + path + ": " + answer.statusCode() + answer.body());
            }
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
