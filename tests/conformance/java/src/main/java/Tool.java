import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/** Kafka's command-line tools, in this process. */
class Tool {
    /** main, the tool's class; arguments behind those that name the broker. A line: what it says. */
    static void run(JsonNode command) throws Exception {
        Method main = Class.forName(command.get("main").asText()).getMethod("main", String[].class);
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(said, true, StandardCharsets.UTF_8);
        PrintStream before = System.out;
        Exit.Procedure exit = (status, message) -> {
            if (status != 0) {
                throw new IllegalStateException(message + ": " + said.toString(StandardCharsets.UTF_8));
            }
        };
        System.setOut(stream);
        Exit.setExitProcedure(exit);
        try {
            scala.Console.withOut(stream, () -> {
                try {
                    return main.invoke(null, (Object) State.arguments(command));
                } catch (InvocationTargetException error) {
                    throw new IllegalStateException(error.getCause());
                } catch (IllegalAccessException error) {
                    throw new IllegalStateException(error);
                }
            });
        } finally {
            Exit.resetExitProcedure();
            System.setOut(before);
        }
        Client.print(Client.JSON.createObjectNode().put("said", said.toString(StandardCharsets.UTF_8)));
    }
}
