package orders;

import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;

/** Each program is a profile. Runners run to their end, listeners until Ctrl-C. */
@SpringBootApplication
public class OrdersApplication {

    public static void main(String[] args) {
        ConfigurableApplicationContext context = SpringApplication.run(OrdersApplication.class, args);
        if (!context.getBeansOfType(ApplicationRunner.class).isEmpty()) {
            context.close();
        }
    }
}
